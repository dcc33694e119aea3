package linalg

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"nibble/internal/kernel"
)

// underEach runs a test under every set of kernels that the machine has.
func underEach(t *testing.T, test func(t *testing.T)) {
	for _, name := range kernel.Names() {
		t.Run(name, func(t *testing.T) {
			kernel.Use(t, name)
			test(t)
		})
	}
}

// numbers returns n values over a wide range; wild: with zeros, subnormals, infinities and NaN among them.
func numbers[T float32 | float64](r *rand.Rand, n int, wild bool) []T {
	x := make([]T, n)
	for i := range x {
		x[i] = T(r.NormFloat64() * math.Exp2(float64(r.IntN(20)-10)))
		if wild && r.IntN(30) == 0 {
			x[i] = []T{0, T(math.Copysign(0, -1)), T(math.Inf(1)), T(math.Inf(-1)), T(math.NaN()), T(math.Exp2(-130)), T(-math.Exp2(-1030))}[r.IntN(7)]
		}
	}
	return x
}

// same reports whether two numbers have the same bits or are NaN both.
func same[T float32 | float64](x, y T) bool {
	return math.Float64bits(float64(x)) == math.Float64bits(float64(y)) || x != x && y != y
}

// naive is the definition of a product.
func naive[T float32 | float64](op Op, c []T, ldc int, a []T, lda int, b []T, ldb int, transposed bool, m, n, k int) {
	for i := range m {
		for j := range n {
			for s := range k {
				at := s*ldb + j
				if transposed {
					at = j*ldb + s
				}
				if p := T(a[i*lda+s] * b[at]); op == Add {
					c[i*ldc+j] += p
				} else {
					c[i*ldc+j] -= p
				}
			}
		}
	}
}

// Products have the bits of the plain loop, and nothing beside them is written.
func TestGemm(t *testing.T) {
	underEach(t, func(t *testing.T) {
		testGemm(t, Gemm32, Gemm32T)
		testGemm(t, Gemm64, Gemm64T)
	})
}

type product[T float32 | float64] func(op Op, c []T, ldc int, a []T, lda int, b []T, ldb, m, n, k, threads int)

func testGemm[T float32 | float64](t *testing.T, plain, transposed product[T]) {
	r := rand.New(rand.NewPCG(1, 1))
	sizes := [][3]int{{0, 3, 3}, {3, 0, 3}, {3, 3, 0}, {1, 1, 1}, {200, 100, 700}, {7, 49, 1300}}
	for range 150 {
		sizes = append(sizes, [3]int{1 + r.IntN(70), 1 + r.IntN(70), 1 + r.IntN(70)})
	}
	for i, size := range sizes {
		m, n, k := size[0], size[1], size[2]
		for _, op := range []Op{Add, Sub} {
			for _, trans := range []bool{false, true} {
				name := fmt.Sprintf("%T, %d by %d by %d, op %d, transposed %v", T(0), m, n, k, op, trans)
				lda, ldc, ldb, rowsB, run := k+r.IntN(3), n+r.IntN(3), n+r.IntN(3), k, plain
				if trans {
					ldb, rowsB, run = k+r.IntN(3), n, transposed
				}
				wild := i%2 == 1
				a, b, c := numbers[T](r, m*lda, wild), numbers[T](r, rowsB*ldb, wild), numbers[T](r, m*ldc, false)
				want := append([]T(nil), c...)
				naive(op, want, ldc, a, lda, b, ldb, trans, m, n, k)
				run(op, c, ldc, a, lda, b, ldb, m, n, k, 1+i%3*2)
				for j := range c {
					if !same(c[j], want[j]) {
						t.Fatalf("%s: element %d is %v, want %v", name, j, c[j], want[j])
					}
				}
			}
		}
	}
}

func BenchmarkGemm(b *testing.B) {
	const n = 1024
	benchmarkGemm(b, "32", n, Gemm32)
	benchmarkGemm(b, "64", n, Gemm64)
}

func benchmarkGemm[T float32 | float64](b *testing.B, name string, n int, run product[T]) {
	r := rand.New(rand.NewPCG(2, 2))
	x, y, z := numbers[T](r, n*n, false), numbers[T](r, n*n, false), numbers[T](r, n*n, false)
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("%s/n=%d/threads=%d", name, n, threads), func(b *testing.B) {
			for b.Loop() {
				run(Add, z, n, x, n, y, n, n, n, n, threads)
			}
			b.ReportMetric(2*float64(n)*float64(n)*float64(n)*float64(b.N)/1e9/b.Elapsed().Seconds(), "GFLOPS")
		})
	}
}
