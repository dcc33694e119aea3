package linalg

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
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

type product[T float32 | float64] func(op Op, c []T, ldc int, a []T, lda int, b []T, ldb, m, n, k, threads int)

// Products have the bits of the plain loop with any number of threads, and nothing beside them is written.
func TestGemm(t *testing.T) {
	underEach(t, func(t *testing.T) {
		testGemm(t, Gemm32, Gemm32T)
		testGemm(t, Gemm64, Gemm64T)
	})
}

func testGemm[T float32 | float64](t *testing.T, plain, transposed product[T]) {
	r := rand.New(rand.NewPCG(1, 1))
	sizes := [][3]int{{0, 3, 3}, {3, 0, 3}, {3, 3, 0}, {1, 1, 1}, {8, 48, 5}, {200, 70, 40}, {7, 49, 2*depth + 3}, {1, 400, 2}}
	for range 40 {
		sizes = append(sizes, [3]int{1 + r.IntN(70), 1 + r.IntN(70), 1 + r.IntN(70)})
	}
	for i, size := range sizes {
		m, n, k := size[0], size[1], size[2]
		op, trans, threads := Op(i&1), i>>1&1 == 1, []int{1, 2, 5}[i%3]
		lda, ldc, ldb, rows, run := k+r.IntN(3), n+r.IntN(3), n+r.IntN(3), k, plain
		if trans {
			ldb, rows, run = k+r.IntN(3), n, transposed
		}
		wild := r.IntN(2) == 0
		a, b, c := numbers[T](r, m*lda, wild), numbers[T](r, rows*ldb, wild), numbers[T](r, m*ldc, wild)
		want := slices.Clone(c)
		naive(op, want, ldc, a, lda, b, ldb, trans, m, n, k)
		run(op, c, ldc, a, lda, b, ldb, m, n, k, threads)
		for j, v := range c {
			if !same(v, want[j]) {
				t.Fatalf("%T, %d by %d by %d, op %d, transposed %v, %d threads: element %d is %v, want %v", v, m, n, k, op, trans, threads, j, v, want[j])
			}
		}
	}
}

// A matrix that is packed once multiplies parts of others, and its memory can be used again.
func TestPanels(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 10))
	var p Panels[float32]
	for _, size := range [][3]int{{40, 70, 30}, {9, 64, 33}, {50, 3, 60}} {
		m, n, k := size[0], size[1], size[2]
		a, b, c := numbers[float32](r, m*k, false), numbers[float32](r, n*k, false), make([]float32, m*n)
		want := make([]float32, m*n)
		naive(Add, want, n, a, k, b, n, false, m, n, k)
		p.Pack(b, n, false, k, n, 1)
		p.Multiply(Add, c, n, a, k, 5, 1)
		p.Multiply(Add, c[5*n:], n, a[5*k:], k, m-5, 2)
		if !slices.Equal(c, want) {
			t.Fatalf("%v: %v, want %v", size, c, want)
		}
	}
}

// What does not fit is refused before anything is written.
func TestFit(t *testing.T) {
	x := make([]float32, 12)
	for name, call := range map[string]func(){
		"A": func() { Gemm32(Add, x, 3, x[:11], 4, x, 3, 3, 3, 4, 1) },
		"B": func() { Gemm32(Add, x, 3, x, 4, x[:11], 3, 3, 3, 4, 1) },
		"C": func() { Gemm32(Add, x[:8], 3, x, 4, x, 3, 3, 3, 4, 1) },
		"X": func() { NewMoment32(5).Add32(x, 5, 3, nil, 1) },
	} {
		func() {
			defer func() {
				if msg, ok := recover().(string); !ok || !strings.HasPrefix(msg, "linalg: "+name+" has ") {
					t.Errorf("%s: %q", name, msg)
				}
			}()
			call()
		}()
	}
}
