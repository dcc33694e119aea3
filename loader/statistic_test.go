package loader

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"nibble/formats"
	"nibble/quant"
)

// distributions of a group's weights. Each call draws what the group has in common.
var distributions = map[string]func(r *rand.Rand) func() float64{
	"normal":   func(r *rand.Rand) func() float64 { return r.NormFloat64 },
	"uniform":  func(r *rand.Rand) func() float64 { return func() float64 { return 2*r.Float64() - 1 } },
	"laplace":  func(r *rand.Rand) func() float64 { return func() float64 { return sign(r) * r.ExpFloat64() } },
	"constant": func(r *rand.Rand) func() float64 { w := r.NormFloat64(); return func() float64 { return w } },
	"zero":     func(*rand.Rand) func() float64 { return func() float64 { return 0 } },
	"sparse": func(r *rand.Rand) func() float64 {
		return func() float64 { return float64(r.IntN(10)/9) * r.NormFloat64() }
	},
	"one-sided":   func(r *rand.Rand) func() float64 { return r.ExpFloat64 },
	"either side": func(r *rand.Rand) func() float64 { s := sign(r); return func() float64 { return s * r.ExpFloat64() } },
	"beyond zero": func(r *rand.Rand) func() float64 {
		s := sign(r)
		return func() float64 { return s * (r.ExpFloat64() - 0.1) }
	},
	"two values": func(r *rand.Rand) func() float64 {
		s := sign(r)
		return func() float64 { return s * (float64(r.IntN(2)) - 0.1) }
	},
	"off by one": func(r *rand.Rand) func() float64 { s := sign(r); return func() float64 { return r.NormFloat64() + s } },
	"off by two": func(r *rand.Rand) func() float64 {
		s := 2 * sign(r)
		return func() float64 { return r.NormFloat64() + s }
	},
	"flat, off zero": func(r *rand.Rand) func() float64 {
		s := sign(r)
		return func() float64 { return 2*r.Float64() - 1 + 0.9*s }
	},
	"drifting": func(r *rand.Rand) func() float64 {
		s := r.NormFloat64()
		return func() float64 { return r.NormFloat64() + s }
	},
}

func sign(r *rand.Rand) float64 { return float64(2*r.IntN(2) - 1) }

// sums quantizes weights of a distribution and sums their codes up.
func sums(t *testing.T, draw func(*rand.Rand) func() float64, s quant.Spec, flip bool) *codes {
	t.Helper()
	f, err := formats.ByName(compressed)
	if err != nil {
		t.Fatal(err)
	}
	solve, err := f.Solver(s)
	if err != nil {
		t.Fatal(err)
	}
	m := quant.NewMatrix(128, max(256, s.Group), s.Bits, s.Group, s.Zero)
	w := make([]float32, m.N*m.K)
	r := rand.New(rand.NewPCG(1, 2))
	for g := 0; g < len(w); g += s.Group {
		next := draw(r)
		for i := range s.Group {
			w[g+i] = float32(next() / 16)
		}
	}
	solve(m, w, nil)
	if flip {
		for i := range m.Zeros {
			m.Zeros[i] ^= 8
		}
	}
	c := &codes{}
	c.add(m)
	return c
}

// However the weights lie, right codes are not taken for wrong ones.
func TestStatisticFalseAlarms(t *testing.T) {
	for name, draw := range distributions {
		for _, method := range []string{quant.RTN, quant.Search} {
			for _, group := range []int{8, 16, 32, 64, 128, 1024} {
				s := spec(group, quant.Integer)
				s.Method = method
				if sums(t, draw, s, false).signed() {
					t.Errorf("%s, %s, groups of %d: zero points are taken for signed", name, method, group)
				}
				s.Zero = quant.Symmetric
				for _, s.Signed = range []bool{false, true} {
					if sums(t, draw, s, false).asymmetric() {
						t.Errorf("%s, %s, groups of %d, signed scales %t: codes are taken for asymmetric", name, method, group, s.Signed)
					}
				}
			}
		}
	}
}

// Weights as models have them show the fault.
func TestStatisticDetects(t *testing.T) {
	for _, name := range []string{"normal", "laplace", "sparse"} {
		for _, method := range []string{quant.RTN, quant.Search} {
			for _, group := range []int{32, 64, 128} {
				t.Run(fmt.Sprintf("%s/%s/%d", name, method, group), func(t *testing.T) {
					s := spec(group, quant.Integer)
					s.Method = method
					c := sums(t, distributions[name], s, true)
					if !c.signed() {
						t.Errorf("signed zero points are not found: %+v", *c)
					}
					if c := sums(t, distributions[name], s, false); !c.asymmetric() {
						t.Errorf("asymmetric codes are not found: %+v", *c)
					}
				})
			}
		}
	}
}
