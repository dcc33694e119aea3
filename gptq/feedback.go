package gptq

import (
	"nibble/internal/kernel"
	"nibble/internal/linalg"
	"nibble/quant"
)

// Solve finds scales, zero points and codes of rows w [m.N, K] that make e H' eᵀ small, e = w − ŵ, row by row:
//
//	groups of columns are quantized one after the other. What the errors so far leave for a column j to correct is added to
//	it, a_j = w_j + Σ_{i<j} e_i M_ij. The group's parameters are those that search finds for its corrected weights, each
//	error weighted by D_j; then column by column the nearest code is chosen, and its error passed on.
//
// Where groups come in blocks, a block takes the part of a group: all of its parameters are found when it is its turn. Rows do
// not depend on one another. search is the solver of a method with the parameters' rounding; m has whole groups, or blocks, of
// the size that the Hessian was made for.
func (x *Hessian) Solve(m *quant.Matrix, w []float32, search quant.Solver) {
	k, n, unit := x.K, m.N, m.Unit()
	e := make([]float32, n*k) // errors, by place
	for c0 := 0; c0 < k; c0 += unit {
		x.solveUnit(m, w, e, c0, min(unit, k-c0), search)
	}
}

// corrected is the number of columns whose errors are passed on one by one; those behind them get them together.
const corrected = 128

// solveUnit quantizes the columns at the places c0 to c0+g.
func (x *Hessian) solveUnit(m *quant.Matrix, w, e []float32, c0, g int, search quant.Solver) {
	k, n, unit := x.K, m.N, m.Unit()
	a, order := make([]float32, n*g), x.order[c0:c0+g]
	for r := range n {
		for j, c := range order {
			a[r*g+j] = w[r*k+c]
		}
	}
	if !x.Plain && c0 > 0 {
		x.passed[c0/unit].Multiply(linalg.Add, a, g, e, k, n, 1)
	}
	x.parameters(m, a, c0, g, search)
	for b0 := 0; b0 < g; b0 += corrected {
		b1 := min(b0+corrected, g)
		for r := range n {
			var f form
			row, at := a[r*g:(r+1)*g], -1
			for j := b0; j < b1; j++ {
				c := order[j]
				if slot := r*m.Groups() + c/m.Group; slot != at {
					f, at = formOf(m, slot), slot
				}
				q := f.code(row[j])
				m.Codes[r*k+c] = uint8(q)
				err := w[r*k+c] - f.weight(q)
				e[r*k+c0+j] = err
				if !x.Plain {
					from := (c0 + j) * k
					kernel.Axpy(row[j+1:b1], err, x.m[from+c0+j+1:from+c0+b1])
				}
			}
		}
		if !x.Plain && b1 < g {
			linalg.Gemm32(linalg.Add, a[b1:], g, e[c0+b0:], k, x.m[(c0+b0)*k+c0+b1:], k, n, g-b1, b1-b0, 1)
		}
	}
}

// parameters searches those of the unit at the places c0 to c0+g, for the corrected weights a [m.N, g], by place.
func (x *Hessian) parameters(m *quant.Matrix, a []float32, c0, g int, search quant.Solver) {
	n, order := m.N, x.order[c0:c0+g]
	first := order[0] / m.Unit() * m.Unit()
	part := m.Like(n, g)
	defer part.Recycle()
	if part.Groups() == 1 { // the order of columns is all the same
		search(part, a, x.d[c0:c0+g])
	} else {
		b, d := make([]float32, n*g), make([]float32, g)
		for j, c := range order {
			d[c-first] = x.d[c0+j]
			for r := range n {
				b[r*g+c-first] = a[r*g+j]
			}
		}
		search(part, b, d)
	}
	per := part.Groups()
	for r := range n {
		to, from := r*m.Groups()+first/m.Group, r*per
		copy(m.Scales[to:to+per], part.Scales[from:])
		switch m.Zero {
		case quant.Integer:
			copy(m.Zeros[to:to+per], part.Zeros[from:])
		case quant.Float:
			copy(m.Bias[to:to+per], part.Bias[from:])
		}
		if b := m.Blocks; b != nil {
			copy(b.Raw[(r*m.K+first)/b.Size*b.Bytes:][:b.Bytes], part.Blocks.Raw[r*b.Bytes:])
		}
	}
}

// form is the grid of one group: a weight x has the code clamp(rint((x − sub)/scale + add), lo, hi) − lo, or the nearest of
// levels, and code q the value scale·(q − zero) + bias, each step rounded to float32. With a scale of 0 all codes are alike.
type form struct {
	scale, sub, add, lo, hi, zero, bias float32
	levels                              *quant.Levels
}

// formOf returns the grid in a slot of a matrix' scales.
func formOf(m *quant.Matrix, slot int) form {
	mid, top := float32(m.Mid()), float32(int(1)<<m.Bits-1)
	f := form{scale: m.Scales[slot], add: mid, hi: top, zero: mid}
	switch m.Zero {
	case quant.Integer:
		f.add = float32(m.Zeros[slot])
		f.zero = f.add
	case quant.Float:
		f.sub, f.add, f.lo, f.hi, f.bias = m.Bias[slot], 0, -mid, top-mid, m.Bias[slot]
	}
	if m.Blocks != nil {
		f.levels = m.Blocks.Levels
	}
	return f
}

func (f *form) code(x float32) float32 {
	switch {
	case f.scale == 0:
		return 0
	case f.levels != nil:
		return f.levels.Nearest(float32(x/f.scale) + f.add)
	}
	return kernel.Nearest(float32((x-f.sub)/f.scale)+f.add, f.lo, f.hi) - f.lo
}

// better returns the best code for a weight that has code q, where the error's part is g/h away from its best.
func (f *form) better(q, g, h float32) float32 {
	switch t := q + g/float32(h*f.scale); {
	case f.scale == 0:
		return q
	case f.levels != nil:
		return f.levels.Nearest(t)
	default:
		return kernel.Nearest(t, 0, f.hi-f.lo)
	}
}

func (f *form) weight(q float32) float32 { return float32(f.scale*(q-f.zero)) + f.bias }
