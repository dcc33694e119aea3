package linalg

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// definite returns a random positive definite matrix: the sum of squares of n/4+1 rows, damped.
func definite(r *rand.Rand, n int) []float64 {
	rows := n/4 + 1
	x, a := numbers[float64](r, n*rows, false), make([]float64, n*n)
	Gemm64T(Add, a, n, x, rows, x, rows, n, n, rows, 2)
	var mean float64
	for i := range n {
		mean += a[i*n+i] / float64(n)
	}
	for i := range n {
		a[i*n+i] += mean / 8
	}
	return a
}

// textbook is the definition of the factor.
func textbook(a []float64, n int) (pivot int) {
	for j := range n {
		for i := j; i < n; i++ {
			s := a[i*n+j]
			for k := range j {
				s -= float64(a[i*n+k] * a[j*n+k])
			}
			if i > j {
				a[i*n+j] = s / a[j*n+j]
				continue
			}
			if !(s > 0) {
				return j
			}
			a[i*n+j] = math.Sqrt(s)
		}
	}
	return -1
}

func TestCholesky(t *testing.T) { underEach(t, testCholesky) }

func testCholesky(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, n := range []int{0, 1, 2, 3, 8, 9, 23, 24, 25, 50, 143, 144, 145, 150, 300} {
		given := definite(r, n)
		for i := range n {
			for j := i + 1; j < n; j++ {
				given[i*n+j] = math.NaN() // not read
			}
		}
		want := slices.Clone(given)
		if pivot := textbook(want, n); pivot >= 0 {
			t.Fatalf("n %d: pivot %d", n, pivot)
		}
		for _, threads := range []int{1, 2, 5} {
			a := slices.Clone(given)
			if err := Cholesky(a, n, threads); err != nil {
				t.Fatal(err)
			}
			for i, v := range a {
				if !same(v, want[i]) {
					t.Fatalf("n %d: element %d, %d is %v, want %v", n, i/n, i%n, v, want[i])
				}
			}
		}
	}
}

// The first pivot that is not positive is named.
func TestPivot(t *testing.T) { underEach(t, testPivot) }

func testPivot(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, n := range []int{1, 5, 40, 200} {
		for _, v := range []float64{-1, 0, math.NaN(), math.Inf(-1), math.Inf(1)} {
			bad := r.IntN(n)
			a := definite(r, n)
			a[bad*n+bad] = v
			err := Cholesky(slices.Clone(a), n, 2)
			var pivot *PivotError
			if !errors.As(err, &pivot) || pivot.Index != bad || pivot.Pivot > 0 && v < 1 {
				t.Fatalf("n %d, %v at %d: %v", n, v, bad, err)
			}
			if _, _, err := Backward(a, n, 2); !errors.As(err, &pivot) || pivot.Index != bad {
				t.Fatalf("backward, n %d, %v at %d: %v", n, v, bad, err)
			}
		}
	}
}

// vectors returns the damped second moment of a small published example: columns of integers from a linear congruential
// generator.
func vectors() (h []float64) {
	const n, tokens = 64, 128
	st := uint32(9)
	next := func(m uint32) float64 {
		st = (1103515245*st + 12345) & (1<<31 - 1)
		return float64(st >> 16 % m)
	}
	for range 3 * 8 * n { // the weights, which are not used here
		next(999)
	}
	h = make([]float64, n*n)
	var mean float64
	for range tokens {
		var x [n]float64
		f := next(17) - 8
		for k := range x {
			v := next(9) - 4
			if k%4 == 0 {
				v += f
			}
			x[k] = v * float64(1+k%5)
		}
		for i := range x {
			for j := range x {
				h[i*n+j] += x[i] * x[j] / tokens
			}
			mean += x[i] * x[i] / tokens / n
		}
	}
	for i := range n {
		h[i*n+i] += 0.01 * mean
	}
	return h
}

// The values are those of two independent implementations, in float32 and in float64.
func TestBackward(t *testing.T) { underEach(t, testBackward) }

func testBackward(t *testing.T) {
	h := vectors()
	if h[1] != -2.609375 {
		t.Fatalf("H[0][1] is %v", h[1])
	}
	d, m, err := Backward(h, 64, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range [][2]float64{
		{float64(d[0]), 4.264520878}, {float64(d[63]), 116.101540527}, {float64(m[1]), -0.076021618}, {float64(m[63]), 0.006190702},
	} {
		if math.Abs(v[0]/v[1]-1) > 1e-7 {
			t.Errorf("%v, want %v", v[0], v[1])
		}
	}
}

// U·Uᵀ is the matrix that was given.
func TestBackwardProduct(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for _, n := range []int{1, 2, 9, 40, 150} {
		h := definite(r, n)
		d, m, err := Backward(slices.Clone(h), n, 1)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			for j := range n {
				var s float64
				for k := range n {
					s += float64(m[i*n+k]) * float64(m[j*n+k]) * float64(d[k])
				}
				if scale := math.Sqrt(h[i*n+i] * h[j*n+j]); math.Abs(s-h[i*n+j]) > 1e-6*scale {
					t.Fatalf("n %d: element %d, %d is %v, want %v", n, i, j, s, h[i*n+j])
				}
				if j < i && m[i*n+j] != 0 || j == i && m[i*n+j] != 1 {
					t.Fatalf("n %d: m %d, %d is %v", n, i, j, m[i*n+j])
				}
			}
		}
	}
}
