package linalg

import "iter"

// Solve replaces B [n, r] by the X with L·Lᵀ·X = B, given the lower triangle of l [n, n]: first Y with L·Y = B, then
//
//	x[i] = (y[i] − Σ_{k>i} l[k][i]·x[k]) / l[i][i]    with k falling
func Solve(l []float64, n int, b []float64, ldb, r, threads int) {
	fit("L", len(l), n, n, n)
	fit("B", len(b), n, ldb, r)
	if n == 0 || r == 0 {
		return
	}
	var p Panels[float64]
	p.Pack(b, ldb, false, n, r, threads)
	for i := 0; i < n; i += outerBlock {
		substitute(&p, l[i*n:], n, i, min(i+outerBlock, n), threads)
	}
	// With rows and columns in reverse order Lᵀ is lower triangular. Its rows are made as they are needed.
	p.reverse(threads)
	rows := make([]float64, outerBlock*n)
	for i := 0; i < n; i += outerBlock {
		last := min(i+outerBlock, n)
		each(threads, last, func(units iter.Seq[int]) {
			for k := range units { // column k of rows i to last−1
				from := l[(n-1-k)*n:][:n-k]
				for s := max(i, k); s < last; s++ {
					rows[(s-i)*n+k] = from[n-1-s]
				}
			}
		})
		substitute(&p, rows, n, i, last, threads)
	}
	p.reverse(threads)
	p.unpack(b, ldb, false, threads)
}

// reverse puts the rows of p in reverse order.
func (p *Panels[T]) reverse(threads int) {
	each(threads, p.count(), func(units iter.Seq[int]) {
		for i := range units {
			data, w := p.panel(i), p.width(i)
			for s := range p.k / 2 {
				x, y := data[s*w:][:w], data[(p.k-1-s)*w:][:w]
				for j := range x {
					x[j], y[j] = y[j], x[j]
				}
			}
		}
	})
}

// SolveSPD replaces A, of which the lower triangle is given, by its Cholesky factor L, and B [n, r] by the X with A·X = B.
// An error is a *PivotError.
func SolveSPD(a []float64, n int, b []float64, ldb, r, threads int) error {
	if err := Cholesky(a, n, threads); err != nil {
		return err
	}
	Solve(a, n, b, ldb, r, threads)
	return nil
}
