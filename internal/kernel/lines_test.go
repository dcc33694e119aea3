package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestLines(t *testing.T) { underEach(t, testLines) }

// All sets give the bits of the plain loop, at every length, with numbers beyond both ends, ties, infinite scales and what is no number.
func testLines(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 34 {
		for _, ends := range [][2]float64{{0, 15}, {-32, 31}, {-4, 3}} {
			w, c, cw := make([]float64, n), make([]float64, n), make([]float64, n)
			for i := range w {
				w[i], c[i] = float64(float32(r.NormFloat64())), float64(r.Float32())
				switch r.IntN(12) {
				case 0:
					w[i] = float64(r.IntN(9)-4) / 8 // a tie of scale 1/4
				case 1:
					w[i] = math.Copysign(0, -1)
				}
				cw[i] = c[i] * w[i]
			}
			var x Lines
			for i, scale := range []float64{0.25, -0.25, 0.1, 3, 1e-300, math.Inf(1), math.NaN(), 0.031} {
				x.Set(i, scale, float64(i)/16)
			}
			want := x
			x.Sums(w, c, cw, ends[0], ends[1])
			sumLines(want[:], w, c, cw, ends[0], ends[1])
			for i, v := range want {
				if math.Float64bits(v) != math.Float64bits(x[i]) && !(v != v && x[i] != x[i]) {
					t.Fatalf("%d weights, row %d, way %d: %g, want %g", n, i/8, i%8, x[i], v)
				}
			}
		}
	}
	// Three weights by hand: scale 1/2, floor 1 makes (w+1)·2 of −1, 0.25 and 9: 0, 2 (of 2.5, a tie) and 15.
	var x Lines
	x.Set(7, 0.5, 1)
	x.Sums([]float64{-1, 0.25, 9}, []float64{1, 2, 1}, []float64{-1, 0.5, 9}, 0, 15)
	if q, qq, qw := x.At(7); q != 19 || qq != 233 || qw != 136 {
		t.Errorf("%g %g %g, want 19 233 136", q, qq, qw)
	}
}
