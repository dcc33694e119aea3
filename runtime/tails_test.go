package runtime

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"nibble/internal/kernel"
	"nibble/quant"
)

var sweep = flag.Bool("sweep", false, "every number of tokens and rows in TestTails, not a sample")

// Whatever is left over of tokens, rows, columns and groups, the best set of the machine gives the bits of the generic one. 200
// columns end blocks of 128, and tiles of 64, in the middle. The sample is every seventh number of rows, of which the next group
// and width take others, each with one number of tokens: 222 pairs, in which every number of either occurs.
func TestTails(t *testing.T) {
	const k, tokens, rows = 200, 65, 130
	r := rand.New(rand.NewPCG(30, 30))
	x := make([]float32, tokens*k)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	got, want := make([]float32, tokens*rows), make([]float32, tokens*rows)
	best := kernel.Names()[0]
	which, pairs := 0, 0
	for _, group := range []int{32, 40, 64, 96, 128, k} {
		for _, bits := range []int{4, 8} {
			for n := 1; n <= rows; n++ {
				which++
				if !*sweep && which%7 != 0 {
					continue
				}
				q := randomMatrix(r, n, k, bits, group, quant.Zero(which/7%3), false)
				m := pack(t, q)
				w := walkerFor(t, A8, tokens, m)
				for i := 1; i <= tokens; i++ {
					if !*sweep && i != 1+which*11%tokens {
						continue
					}
					pairs++
					w.s.n = i
					kernel.Use(t, "generic")
					w.times(m, x[:i*k], want, n)
					kernel.Use(t, best)
					w.times(m, x[:i*k], got, n)
					for j, v := range want[:i*n] {
						if math.Float32bits(got[j]) != math.Float32bits(v) {
							t.Fatalf("%s, %d tokens, %d rows, %d bits in groups of %d, zero point %v: token %d, row %d is %v, want %v",
								best, i, n, bits, group, q.Zero, j/n, j%n, got[j], v)
						}
					}
				}
			}
		}
	}
	t.Logf("%d pairs under %s", pairs, best)
}
