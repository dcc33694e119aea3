package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Every product of a row and a token is their Dot, whatever is computed beside it.
func TestDotRows(t *testing.T) { underEach(t, testDotRows) }

func testDotRows(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 10))
	for _, k := range []int{0, 1, 15, 16, 17, 32, 48, 100, 160} {
		for rows := range 10 {
			for n := range 15 {
				const stride = 13
				ld := k + r.IntN(20)
				w, _ := random(r, rows*ld)
				x, _ := random(r, n*k)
				if n > 2 && k > 0 {
					x[r.IntN(len(x))] = float32(math.Inf(1))
				}
				y := make([]float32, n*stride+rows)
				for i := range y {
					y[i] = 7
				}
				DotRows(y, stride, w, x, rows, n, ld, k)
				for i, v := range y {
					want := float32(7)
					if token, row := i/stride, i%stride; token < n && row < rows {
						want = sixteen(w[row*ld:row*ld+k], x[token*k:(token+1)*k])
					}
					if math.Float32bits(v) != math.Float32bits(want) && (v == v || want == want) {
						t.Fatalf("k %d, %d rows, %d tokens: %d is %v, want %v", k, rows, n, i, v, want)
					}
				}
			}
		}
	}
}

func BenchmarkDotRows(b *testing.B) {
	const rows, n, ld, k = 16, 126, 2064, 2048
	w, x, y := make([]float32, rows*ld), make([]float32, n*k), make([]float32, n*rows)
	for b.Loop() {
		DotRows(y, rows, w, x, rows, n, ld, k)
	}
	b.ReportMetric(float64(rows*n*k)*float64(b.N)/1e9/b.Elapsed().Seconds(), "GMAC/s")
}
