package linalg

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// naiveSolve is the definition of Solve.
func naiveSolve(l []float64, n int, b []float64, ldb, r int) {
	for j := range r {
		for i := range n {
			for k := range i {
				b[i*ldb+j] -= float64(l[i*n+k] * b[k*ldb+j])
			}
			b[i*ldb+j] /= l[i*n+i]
		}
		for i := n - 1; i >= 0; i-- {
			for k := n - 1; k > i; k-- {
				b[i*ldb+j] -= float64(l[k*n+i] * b[k*ldb+j])
			}
			b[i*ldb+j] /= l[i*n+i]
		}
	}
}

func TestSolve(t *testing.T) { underEach(t, testSolve) }

func testSolve(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for i, n := range []int{0, 1, 2, 3, 8, 9, 50, 143, 144, 145, 300} {
		for _, cols := range []int{0, 1, 2, 9, 25, 60} {
			ldb := cols + r.IntN(4)
			a, b := definite(r, n), numbers[float64](r, n*ldb, false)
			want := slices.Clone(b)
			if err := SolveSPD(a, n, b, ldb, cols, []int{1, 2, 5}[i%3]); err != nil {
				t.Fatal(err)
			}
			naiveSolve(a, n, want, ldb, cols)
			for j, v := range b {
				if !same(v, want[j]) {
					t.Fatalf("n %d, %d columns: element %d is %v, want %v", n, cols, j, v, want[j])
				}
			}
		}
	}
}
