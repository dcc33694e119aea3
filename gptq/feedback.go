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
// Rows do not depend on one another. search is the solver of a method with the parameters' rounding; m has whole groups of the
// size that the Hessian was made for.
func (x *Hessian) Solve(m *quant.Matrix, w []float32, search quant.Solver) {
	k, n := x.K, m.N
	e := make([]float32, n*k) // errors, by place
	for c0 := 0; c0 < k; c0 += m.Group {
		x.solveGroup(m, w, e, c0, min(m.Group, k-c0), search)
	}
}

// corrected is the number of columns whose errors are passed on one by one; those behind them get them together.
const corrected = 128

// solveGroup quantizes the columns at the places c0 to c0+g.
func (x *Hessian) solveGroup(m *quant.Matrix, w, e []float32, c0, g int, search quant.Solver) {
	k, n := x.K, m.N
	a, d := make([]float32, n*g), x.d[c0:c0+g]
	for r := range n {
		for j, c := range x.order[c0 : c0+g] {
			a[r*g+j] = w[r*k+c]
		}
	}
	if !x.Plain && c0 > 0 {
		x.passed[c0/m.Group].Multiply(linalg.Add, a, g, e, k, n, 1)
	}
	part := quant.NewMatrix(n, g, m.Bits, g, m.Zero)
	defer part.Recycle()
	search(part, a, d)

	group := x.order[c0] / m.Group
	for r := range n {
		slot := r*m.Groups() + group
		m.Scales[slot] = part.Scales[r]
		switch m.Zero {
		case quant.Integer:
			m.Zeros[slot] = part.Zeros[r]
		case quant.Float:
			m.Bias[slot] = part.Bias[r]
		}
	}
	for b0 := 0; b0 < g; b0 += corrected {
		b1 := min(b0+corrected, g)
		for r := range n {
			f := formOf(m, r*m.Groups()+group)
			row := a[r*g : (r+1)*g]
			for j := b0; j < b1; j++ {
				c := x.order[c0+j]
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

// form is the grid of one group: a weight x has the code clamp(rint((x − sub)/scale + add), lo, hi) − lo, and code q the value
// scale·(q − zero) + bias, each step rounded to float32.
type form struct{ scale, sub, add, lo, hi, zero, bias float32 }

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
	return f
}

func (f *form) code(x float32) float32 {
	return kernel.Nearest(float32((x-f.sub)/f.scale)+f.add, f.lo, f.hi) - f.lo
}

func (f *form) weight(q float32) float32 { return float32(f.scale*(q-f.zero)) + f.bias }
