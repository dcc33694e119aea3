package gptq

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"nibble/internal/linalg"
)

// Hessian is what a calibrated solver knows of the inputs x [K] of a matrix: the damped second moment
//
//	H' = H + λ·mean(diag H)·I,  H = (1/Σω) Σ_t ω_t x_t x_tᵀ
//
// and, for error feedback, its factors in the order in which columns are quantized. With H' = U·Uᵀ in that order, U upper
// triangular, D_j = U_jj² and M_ij = U_ij/U_jj, the error e H' eᵀ of a row is
//
//	Σ_j D_j (e_j + Σ_{i<j} e_i M_ij)²
//
// so that D_j is the price of an error in column j once all columns behind it have made up for it. This is GPTQ (Frantar et
// al., 2022) with one factorisation and no inverse: D_j = 1/[chol(H⁻¹)]²_jj.
type Hessian struct {
	K      int
	Lambda float64 // λ
	Plain  bool    // no factor could be found: columns are quantized one by one without feedback

	mean   float64                  // of the diagonal of H, over the columns that were ever active
	h      []float32                // H' [K, K]
	packed linalg.Panels[float32]   // the same for products
	diag   []float32                // of H, without damping; the mean for a column that was never active
	order  []int                    // the column at every place
	d      []float32                // [K], by place
	m      []float32                // [K, K], by place; only what is above the diagonal is set
	passed []linalg.Panels[float32] // of every group: the columns of M that bring it the errors before
}

// ErrNotFinite marks activations that no statistics can be made of.
var ErrNotFinite = errors.New("a second moment is not finite")

// Damping returns λ for a moment of so many tokens: 2K/tokens, at least 0.01 and at most 1.
func Damping(k int, tokens float64) float64 { return min(max(2*float64(k)/tokens, 0.01), 1) }

// NewHessian prepares the second moment H [k, k], of which only the lower triangle is read, for groups of so many columns.
// It is overwritten. A column that was never active gets the mean variance and no part in the feedback. If the damped matrix has
// no factor, λ is doubled up to 1; after that the solver works with the diagonal alone.
func NewHessian(moment []float64, k, group int, lambda float64, threads int) (*Hessian, error) {
	return newHessian(moment, k, group, lambda, threads, func(x *Hessian) { x.arrange(group) })
}

// newHessian is NewHessian with columns in another order.
func newHessian(moment []float64, k, group int, lambda float64, threads int, arrange func(*Hessian)) (*Hessian, error) {
	x := &Hessian{K: k, Lambda: lambda, h: make([]float32, k*k), diag: make([]float32, k)}
	for i := range k {
		for j := range i + 1 {
			if v := moment[i*k+j]; math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("gptq: columns %d and %d: %w", i, j, ErrNotFinite)
			}
		}
	}
	x.revive(moment)
	arrange(x)
	for {
		if x.factor(moment, threads) {
			break
		}
		if x.Lambda >= 1 {
			x.Plain = true
			break
		}
		x.Lambda = min(2*max(x.Lambda, 1e-6), 1)
	}
	x.damped(moment)
	x.packed.Pack(x.h, k, false, k, k, threads)
	if !x.Plain {
		x.passed = make([]linalg.Panels[float32], (k+group-1)/group)
		for i := range x.passed {
			x.passed[i].Pack(x.m[i*group:], k, false, i*group, min(group, k-i*group), threads)
		}
	}
	return x, nil
}

// damped fills h.
func (x *Hessian) damped(moment []float64) {
	k, add := x.K, float64(x.Lambda*x.mean)
	for i := range k {
		for j := range i {
			v := float32(moment[i*k+j])
			if x.Plain {
				v = 0
			}
			x.h[i*k+j], x.h[j*k+i] = v, v
		}
		x.h[i*k+i] = float32(moment[i*k+i] + add)
	}
	if x.Plain {
		for i, c := range x.order {
			x.d[i] = x.h[c*k+c]
		}
	}
}

// revive gives columns that were never active a variance, and notes all variances and their mean.
func (x *Hessian) revive(moment []float64) {
	k, live := x.K, 0
	for i := range k {
		if v := moment[i*k+i]; v != 0 {
			x.mean += v
			live++
		}
	}
	if x.mean /= float64(max(live, 1)); live == 0 {
		x.mean = 1
	}
	for i := range k {
		if moment[i*k+i] == 0 {
			moment[i*k+i] = x.mean
		}
		x.diag[i] = float32(moment[i*k+i])
	}
}

// arrange orders the columns: groups by the sum of their variances, columns inside a group by theirs, the larger first.
func (x *Hessian) arrange(group int) {
	groups := (x.K + group - 1) / group
	energy, list := make([]float64, groups), make([]int, groups)
	for g := range groups {
		list[g] = g
		for _, v := range x.diag[g*group : min((g+1)*group, x.K)] {
			energy[g] += float64(v)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int { return descending(energy[a], energy[b]) })
	x.order = make([]int, 0, x.K)
	for _, g := range list {
		at := len(x.order)
		for c := g * group; c < min((g+1)*group, x.K); c++ {
			x.order = append(x.order, c)
		}
		slices.SortStableFunc(x.order[at:], func(a, b int) int { return descending(x.diag[a], x.diag[b]) })
	}
}

func descending[T float32 | float64](a, b T) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}

// factor fills d and m, and reports whether there is a factor at the present λ.
func (x *Hessian) factor(moment []float64, threads int) bool {
	k, add := x.K, float64(x.Lambda*x.mean)
	a := make([]float64, k*k)
	for i, ci := range x.order {
		for j, cj := range x.order[:i+1] {
			a[i*k+j] = moment[max(ci, cj)*k+min(ci, cj)]
		}
		a[i*k+i] += add
	}
	var err error
	if x.d, x.m, err = linalg.Backward(a, k, threads); err != nil {
		x.d, x.m = make([]float32, k), nil
		return false
	}
	return true
}

// Prices returns D of every column, in file order.
func (x *Hessian) Prices() []float64 {
	d := make([]float64, x.K)
	for i, c := range x.order {
		d[c] = float64(x.d[i])
	}
	return d
}

// Objective returns e H' eᵀ for the error e [K] of a row, given g = e H'.
func objective(e, g []float32) float64 {
	var sum float64
	for i, v := range e {
		sum += float64(float64(v) * float64(g[i]))
	}
	return sum
}
