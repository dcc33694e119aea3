package formats

import (
	"math"
	"slices"
	"testing"

	"nibble/quant"
	"nibble/safetensors"
)

// Weights at the ends of what bfloat16 holds, in every format and with both methods that need no text: parameters stay finite, a zero stays
// a zero whatever its sign, the search holds a group of one weight as exactly as its scale is stored, and what is dequantized is a number. Round
// to nearest, whose scale of a symmetric grid is max|w|/7.5 as llm-compressor has it, overflows at −max: then the run ends in an error
// (convert: TestOverflow).
func TestExtremes(t *testing.T) {
	const k = 64
	smallest, largest := math.Float32frombits(1<<16), math.Float32frombits(0x7f7f<<16) // of bfloat16
	rows := map[string]func(i int) float32{
		"zeros":           func(int) float32 { return 0 },
		"negative zeros":  func(int) float32 { return float32(math.Copysign(0, -1)) },
		"zeros, signs":    func(i int) float32 { return float32(math.Copysign(0, float64(i%2)-0.5)) },
		"subnormal":       func(i int) float32 { return smallest * float32(i%5-2) },
		"one subnormal":   func(i int) float32 { return smallest * float32(max(0, 1-i%32)) },
		"largest":         func(i int) float32 { return largest * float32(i%2*2-1) },
		"largest, once":   func(i int) float32 { return largest * float32(max(0, 1-i%32)) },
		"constant":        func(int) float32 { return 0.1015625 },
		"constant, below": func(int) float32 { return -3.5 },
		"a spike":         func(i int) float32 { return float32(max(0, 1-i)) },
	}
	solved := 0
	for _, f := range All {
		for _, s := range []quant.Spec{{Bits: 4, Group: 32}, {Bits: 4, Group: 1}, {Bits: 8, Group: 32}, {Bits: 4, Group: -1}} {
			for _, method := range []string{quant.RTN, quant.Search} {
				s.Zero, s.Method, s.Scale = f.DefaultZero(), method, safetensors.BF16
				solve, err := f.Solver(s)
				if err != nil {
					continue // the format's own tests say what it cannot hold
				}
				solved++
				for name, value := range rows {
					w := make([]float32, k)
					for i := range w {
						w[i] = value(i)
					}
					m := quant.NewMatrix(1, k, s.Bits, s.GroupSize(k), s.Zero)
					solve(m, slices.Clone(w), nil)
					what := f.Name() + ", " + s.String() + ": " + name
					if err := m.Check(); err != nil {
						t.Errorf("%s: %v", what, err)
					}
					for g, scale := range m.Scales {
						if math.IsNaN(float64(scale)) || math.IsInf(float64(scale), 0) {
							t.Errorf("%s: the scale of group %d is %v", what, g, scale)
						}
					}
					for i, v := range m.Dequantize() {
						if name == "largest" && method == quant.RTN && s.Zero == quant.Symmetric {
							break
						}
						if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) || name[:min(5, len(name))] == "zeros" && v != 0 {
							t.Errorf("%s: weight %d, %v, becomes %v", what, i, w[i], v)
							break
						}
						if s.Group == 1 && name == "constant" && method == quant.Search && math.Abs(float64(v-w[i])) > 0.004*math.Abs(float64(w[i])) { // 8 bits of a bfloat16
							t.Errorf("%s: a group of one weight, %v, becomes %v", what, w[i], v)
							break
						}
					}
				}
			}
		}
	}
	if solved < 12 {
		t.Errorf("%d solvers", solved)
	}
}
