package formats

import (
	"math"
	"slices"
	"testing"

	"nibble/asym"
	"nibble/awq"
	"nibble/gptq"
	"nibble/quant"
	"nibble/safetensors"
)

// problem is a layer-wise quantization problem in exact float32 values: rows W [8, 64] in groups of 16 and the second
// moment H [64, 64] of 128 inputs, all from one linear congruential stream. Its seed was chosen so that no rounding is
// closer than 1.9e-5 to a tie and no comparison closer than 2.7e-5, so the codes do not depend on how sums are rounded.
type problem struct {
	w []float32
	h [cols][cols]float64
}

const rows, cols, group = 8, 64, 16

func newProblem() *problem {
	st := uint32(9)
	next := func(m uint32) int {
		st = (1103515245*st + 12345) & (1<<31 - 1)
		return int(st >> 16 % m)
	}
	p := &problem{}
	for range rows {
		for k := range cols {
			a := next(999) + next(999) + next(999) - 1497
			p.w = append(p.w, float32(a*(1+k%3))/8192)
		}
	}
	for range 128 {
		f := next(17) - 8
		var x [cols]float64
		for k := range x {
			a := next(9) - 4
			if k%4 == 0 {
				a += f
			}
			x[k] = float64(a * (1 + k%5))
		}
		for i := range x {
			for j := range x {
				p.h[i][j] += x[i] * x[j] / 128
			}
		}
	}
	return p
}

// damped returns H + .01·mean(diag H)·I.
func (p *problem) damped() [cols][cols]float64 {
	h := p.h
	var trace float64
	for i := range h {
		trace += h[i][i]
	}
	for i := range h {
		h[i][i] += 0.01 * trace / cols
	}
	return h
}

// objective returns Σ e H eᵀ over the rows of e = w − ŵ.
func (p *problem) objective(m *quant.Matrix, h [cols][cols]float64) float64 {
	var sum float64
	for n, x := range m.Dequantize() {
		for j, y := range m.Dequantize()[n/cols*cols : n/cols*cols+cols] {
			sum += float64(p.w[n]-x) * h[n%cols][j] * float64(p.w[n/cols*cols+j]-y)
		}
	}
	return sum
}

func (p *problem) diagonal() []float32 {
	var d []float32
	for i := range p.h {
		d = append(d, float32(p.h[i][i]))
	}
	return d
}

func checksum(m *quant.Matrix) int {
	sum := 0
	for i, q := range m.Codes {
		sum += int(q) * (i%97 + 1) // i = 64n + k
	}
	return sum
}

func near(got, want float64) bool { return math.Abs(got-want) < 6e-7*math.Max(1, want) }

func TestProblem(t *testing.T) {
	p := newProblem()
	if p.w[0] != -709.0/8192 || p.w[cols*rows-1] != -0.0244140625 || p.h[0][0] != 34.828125 || p.h[0][1] != -2.609375 || p.h[63][63] != 114.625 {
		t.Fatalf("W[0][0] = %v, W[7][63] = %v, H = %v, %v, %v", p.w[0], p.w[cols*rows-1], p.h[0][0], p.h[0][1], p.h[63][63])
	}
}

// Checksums and objectives were computed by two independent programs, one in f32, one in f64.
func TestSymmetricSolvers(t *testing.T) {
	p := newProblem()
	for _, c := range []struct {
		name          string
		method        string
		signed        bool
		d             []float32
		damped, plain float64
		chk           int
	}{
		{"rtn", quant.RTN, false, nil, 19.210636, 19.100496, 189070},
		{"rtn full range", quant.RTN, true, nil, 5.532848, 5.451243, 174963},
		{"search", quant.Search, true, slices.Repeat([]float32{1}, cols), 5.610756, 5.540351, 176737},
		{"search by diag H", quant.Search, true, p.diagonal(), 5.186687, 5.093402, 177672},
	} {
		t.Run(c.name, func(t *testing.T) {
			solve, err := gptq.NewSolver(quant.Spec{Bits: 4, Group: group, Method: c.method, Scale: safetensors.F16, Signed: c.signed})
			if err != nil {
				t.Fatal(err)
			}
			m := quant.NewMatrix(rows, cols, 4, group, quant.Symmetric)
			solve(m, p.w, c.d)
			if got := checksum(m); got != c.chk {
				t.Errorf("checksum %d, want %d", got, c.chk)
			}
			if got := p.objective(m, p.damped()); !near(got, c.damped) {
				t.Errorf("damped objective %.6f, want %.6f", got, c.damped)
			}
			if got := p.objective(m, p.h); !near(got, c.plain) {
				t.Errorf("objective %.6f, want %.6f", got, c.plain)
			}
		})
	}
}

// TestLiveSearch runs the group searches inside error feedback, where each group is searched on weights that carry the
// errors of the groups before it and with the price of an error as d. It is the only published check on the asymmetric
// searches.
func TestLiveSearch(t *testing.T) {
	p := newProblem()
	h := p.damped()
	price, m := factor(h)
	for _, c := range []struct {
		name   string
		zero   quant.Zero
		search func(w, d []float32) (s, b float32, code func(x float32) uint8)
		chk    int
		j      float64
	}{
		{"symmetric", quant.Symmetric, searchSymmetric, 176918, 2.780414},
		{"integer zero", quant.Integer, searchInteger, 190224, 2.109839},
		{"float zero", quant.Float, searchFloat, 189284, 1.547743},
	} {
		t.Run(c.name, func(t *testing.T) {
			chk, j := 0, 0.0
			for n := range rows {
				q, e := feedback(p.w[n*cols:(n+1)*cols], price, m, c.search)
				for k := range q {
					chk += int(q[k]) * ((cols*n+k)%97 + 1)
					for i := range e {
						j += e[k] * h[k][i] * e[i]
					}
				}
			}
			if chk != c.chk || !near(j, c.j) {
				t.Errorf("checksum %d, objective %.6f; want %d, %.6f", chk, j, c.chk, c.j)
			}
		})
	}
}

func searchSymmetric(w, d []float32) (s, b float32, code func(float32) uint8) {
	return integerCode(gptq.SearchGroup(w, d, 4, safetensors.F16, true))
}

func searchInteger(w, d []float32) (s, b float32, code func(float32) uint8) {
	return integerCode(awq.SearchGroup(w, d, 4, safetensors.F16))
}

func integerCode(g quant.IntGrid) (s, b float32, code func(float32) uint8) {
	return g.Scale, -g.Zero * g.Scale, func(x float32) uint8 {
		var q [1]uint8
		g.Encode(q[:], []float32{x})
		return q[0]
	}
}

func searchFloat(w, d []float32) (s, b float32, code func(float32) uint8) {
	g := asym.SearchGroup(w, d, safetensors.BF16) // the type in which the published figures were computed
	return g.Scale, g.Bias - 8*g.Scale, func(x float32) uint8 {
		var q [1]uint8
		g.Encode(q[:], []float32{x})
		return q[0]
	}
}

// factor returns D and the unit upper triangular M with H = M·diag(D)·Mᵀ: a Cholesky factorization from the last column.
func factor(h [cols][cols]float64) (d [cols]float64, m [cols][cols]float64) {
	for j := cols - 1; j >= 0; j-- {
		d[j] = h[j][j]
		for i := range j + 1 {
			m[i][j] = h[i][j] / d[j]
		}
		for i := range j {
			for k := range j {
				h[i][k] -= m[i][j] * d[j] * m[k][j]
			}
		}
	}
	return d, m
}

// feedback quantizes one row in file order: column j is quantized at w_j + Σ_{i<j} e_i·M_ij.
func feedback(w []float32, price [cols]float64, m [cols][cols]float64, search func(w, d []float32) (s, b float32, code func(float32) uint8)) (q [cols]uint8, e [cols]float64) {
	var d []float32
	for _, x := range price {
		d = append(d, float32(x))
	}
	target := func(j, known int) float32 {
		a := float64(w[j])
		for i := range known {
			a += e[i] * m[i][j]
		}
		return float32(a)
	}
	for c0 := 0; c0 < cols; c0 += group {
		var block []float32
		for j := c0; j < c0+group; j++ {
			block = append(block, target(j, c0))
		}
		s, b, code := search(block, d[c0:c0+group])
		for j := c0; j < c0+group; j++ {
			q[j] = code(target(j, j))
			e[j] = float64(w[j]) - float64(s*float32(q[j])+b)
		}
	}
	return q, e
}
