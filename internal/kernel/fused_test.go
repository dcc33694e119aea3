package kernel

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// FMA against arithmetic without rounding, with sums that are ties of float32 but for a bit far below, and results that are subnormal.
func TestFMA(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	float := func(low, high int) float32 {
		return float32(math.Ldexp(1+float64(r.IntN(1<<23))/(1<<23), low+r.IntN(high-low+1))) * float32(1-2*r.IntN(2))
	}
	check := func(a, b, c float32) {
		exact := new(big.Float).SetPrec(400).Mul(big.NewFloat(float64(a)), big.NewFloat(float64(b)))
		want, _ := exact.Add(exact, big.NewFloat(float64(c))).Float32()
		if got := FMA(a, b, c); got != want {
			t.Fatalf("%g·%g + %g is %g, want %g", a, b, c, got, want)
		}
	}
	for range 100_000 {
		check(float(-3, 3), float(-3, 3), float(-30, 30))
		check(float(-70, -60), float(-75, -60), float(-140, -126))
		c := float(0, 0)
		tie := float32(math.Ldexp(1, -24)) // half of a unit in the last place of c
		check(tie, 1+float32(math.Ldexp(1, -22)), c)
		check(1+float32(math.Ldexp(1, -12)), tie*(1-float32(math.Ldexp(1, -12))), c)
	}
	inf := float32(math.Inf(1))
	if got := FMA(2, 3e38, 0); got != inf {
		t.Errorf("overflow: %g", got)
	}
	if got := FMA(1, inf, -inf); got == got {
		t.Errorf("Inf - Inf: %g", got)
	}
}

func TestFused(t *testing.T) { underEach(t, testFused) }

func testFused(t *testing.T) {
	for _, columns := range []int{1, 15, 16, 17, 64, 100, 144} {
		for _, k := range []int{0, 1, 2, 3, 4, 7, 8, 129} {
			ld := columns + 3
			r := rand.New(rand.NewPCG(uint64(columns), uint64(k)))
			x, w := make([]float32, k), make([]float32, k*ld)
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			for i := range w {
				w[i] = float32(r.NormFloat64())
			}
			for _, f := range []struct {
				got, want func(y, x, w []float32, ld int)
			}{{Fused, fused}, {Quads, quads}} {
				got, want := make([]float32, columns+1), make([]float32, columns)
				got[columns] = 7
				f.got(got[:columns], x, w, ld)
				f.want(want, x, w, ld)
				if !slices.Equal(got[:columns], want) || got[columns] != 7 {
					t.Fatalf("%d columns, %d products: %v, want %v", columns, k, got, want)
				}
			}
		}
	}
	// Orders show where 2^24 swallows ones that come one by one.
	y, most := make([]float32, 1), float32(1<<24)
	if Fused(y, []float32{most, 1, 1, -most, 1}, []float32{1, 1, 1, 1, 1}, 1); y[0] != 1 {
		t.Errorf("one after the other: %g, want 1", y[0])
	}
	if Quads(y, []float32{1, 1, 1, 1, most, 1, 1, 0}, []float32{1, 1, 1, 1, 1, 1, 1, 1}, 1); y[0] != most+4 {
		t.Errorf("four at a time: %g, want 2^24+4", y[0])
	}
}
