// Package oracle compares linalg with gonum. It is a module of its own, so that gonum does not become a dependency of nibble.
package oracle

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"nibble/internal/linalg"
)

const n = 150 // more than a block of columns, and no multiple of any tile

// matrices returns a random matrix and a positive definite one, the lower triangle of which is given.
func matrices(r *rand.Rand) (x *mat.Dense, spd *mat.SymDense) {
	x = mat.NewDense(n, n, nil)
	x.Apply(func(_, _ int, _ float64) float64 { return r.NormFloat64() }, x)
	spd = mat.NewSymDense(n, nil)
	spd.SymOuterK(1, x)
	for i := range n {
		spd.SetSym(i, i, spd.At(i, i)+1)
	}
	return x, spd
}

// data returns the elements of m.
func data(m mat.Matrix) []float64 { return mat.DenseCopyOf(m).RawMatrix().Data }

// near fails a test where a matrix differs from gonum's by more than so much of its norm.
func near(t *testing.T, what string, got []float64, want mat.Matrix, tolerance float64) {
	t.Helper()
	var d mat.Dense
	d.Sub(mat.NewDense(n, n, got), want)
	if e := mat.Norm(&d, 2) / mat.Norm(want, 2); !(e <= tolerance) {
		t.Errorf("%s: differs by %g of the norm, more than %g", what, e, tolerance)
	}
}

// Rounding of sums of n products, with room.
const (
	tolerance32 = n * 0x1p-24
	tolerance64 = 1000 * n * 0x1p-53 // times a condition below 1000: eigenvalues are from 1 to some 4·n
)

func TestProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	a, b := mat.NewDense(n, n, nil), mat.NewDense(n, n, nil)
	round := func(_, _ int, _ float64) float64 { return float64(float32(r.NormFloat64())) }
	a.Apply(round, a)
	b.Apply(round, b)
	narrow := func(m mat.Matrix) (y []float32) {
		for _, v := range data(m) {
			y = append(y, float32(v))
		}
		return y
	}
	widen := func(x []float32) (y []float64) {
		for _, v := range x {
			y = append(y, float64(v))
		}
		return y
	}
	var plain, transposed mat.Dense
	plain.Mul(a, b)
	transposed.Mul(a, b.T())
	c, c32 := make([]float64, n*n), make([]float32, n*n)
	linalg.Gemm64(linalg.Add, c, n, data(a), n, data(b), n, n, n, n, 2)
	near(t, "A·B", c, &plain, tolerance64)
	linalg.Gemm32(linalg.Add, c32, n, narrow(a), n, narrow(b), n, n, n, n, 2)
	near(t, "A·B in float32", widen(c32), &plain, tolerance32)
	clear(c)
	linalg.Gemm64T(linalg.Add, c, n, data(a), n, data(b), n, n, n, n, 2)
	near(t, "A·Bᵀ", c, &transposed, tolerance64)

	var moment mat.Dense
	moment.Mul(a.T(), a)
	m := linalg.NewMoment32(n)
	m.Add32(narrow(a), n, n, nil, 2)
	sum := m.Sum(2)
	for i := range n {
		for j := range i {
			sum[j*n+i] = sum[i*n+j]
		}
	}
	near(t, "AᵀA", sum, &moment, tolerance32)
}

func TestFactors(t *testing.T) {
	x, spd := matrices(rand.New(rand.NewPCG(2, 2)))
	var chol mat.Cholesky
	if !chol.Factorize(spd) {
		t.Fatal("gonum cannot factor it")
	}
	var l mat.TriDense
	chol.LTo(&l)
	a := data(spd)
	if err := linalg.Cholesky(a, n, 2); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		clear(a[i*n+i+1 : (i+1)*n])
	}
	near(t, "L", a, &l, tolerance64)

	var solution mat.Dense
	if err := chol.SolveTo(&solution, x); err != nil {
		t.Fatal(err)
	}
	b := data(x)
	if err := linalg.SolveSPD(data(spd), n, b, n, n, 2); err != nil {
		t.Fatal(err)
	}
	near(t, "A⁻¹·B", b, &solution, tolerance64)
}

// The d of the factor backwards are one over the squares of the diagonal of the factor of the inverse.
func TestBackward(t *testing.T) {
	_, spd := matrices(rand.New(rand.NewPCG(3, 3)))
	d, _, err := linalg.Backward(data(spd), n, 2)
	if err != nil {
		t.Fatal(err)
	}
	var chol, ofInverse mat.Cholesky
	var inverse mat.SymDense
	if !chol.Factorize(spd) || chol.InverseTo(&inverse) != nil || !ofInverse.Factorize(&inverse) {
		t.Fatal("gonum cannot invert it")
	}
	var u mat.TriDense
	ofInverse.UTo(&u)
	for j, v := range d {
		if want := 1 / (u.At(j, j) * u.At(j, j)); math.Abs(float64(v)/want-1) > 1e-6 {
			t.Errorf("d[%d] is %g, want %g", j, v, want)
		}
	}
}
