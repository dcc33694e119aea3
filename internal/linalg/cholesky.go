package linalg

import (
	"fmt"
	"iter"
	"math"
)

// PivotError says that a matrix is not positive definite.
type PivotError struct {
	Index int     // of the row whose pivot failed
	Pivot float64 // not above 0, or not finite
}

// Error names the pivot, counted from 0, and its value.
func (e *PivotError) Error() string {
	return fmt.Sprintf("the matrix is not positive definite: pivot %d is %g", e.Index, e.Pivot)
}

// Columns that are factored together, and those of them that the plain loop takes.
const (
	outerBlock = 144
	innerBlock = 24
)

// Cholesky replaces the lower triangle of a [n, n] by L with A = L·Lᵀ; what is above it is neither read nor written:
//
//	l[i][j] = (a[i][j] − Σ_{k<j} l[i][k]·l[j][k]) / l[j][j], and the root of that difference for i = j
//
// An error is a *PivotError, and leaves a useless matrix.
func Cholesky(a []float64, n, threads int) error {
	fit("A", len(a), n, n, n)
	block := outerBlock
	if n <= block {
		block = innerBlock
	}
	return factorize(a, n, block, threads)
}

// factorize is Cholesky, a block of columns at a time. What the columns before a block contribute is subtracted when it is
// its turn.
func factorize(a []float64, n, block, threads int) error {
	if n <= innerBlock {
		return factorizeSmall(a, n)
	}
	var p Panels[float64]
	square := make([]float64, block*block)
	for j := 0; j < n; j += block {
		nb, rest := min(block, n-j), max(0, n-j-block)
		clear(square)
		for i := range nb {
			copy(square[i*nb:], a[(j+i)*n+j:][:i+1])
		}
		left, below := a[j*n:], a[(n-rest)*n:]
		p.Pack(left, n, true, j, nb, threads)
		p.Multiply(Sub, square, nb, left, n, nb, threads)
		if rest > 0 {
			p.Multiply(Sub, below[j:], n, below, n, rest, threads)
		}
		if err := factorize(square, nb, innerBlock, 1); err != nil {
			err.(*PivotError).Index += j
			return err
		}
		for i := range nb {
			copy(a[(j+i)*n+j:], square[i*nb:][:i+1])
		}
		if rest > 0 {
			p.Pack(below[j:], n, true, nb, rest, threads)
			substitute(&p, square, nb, 0, nb, threads)
			p.unpack(below[j:], n, true, threads)
		}
	}
	return nil
}

// factorizeSmall is Cholesky row by row.
func factorizeSmall(a []float64, n int) error {
	for i := range n {
		row := a[i*n:][:i+1]
		for k := range i {
			v := row[k] / a[k*n+k]
			row[k] = v
			for j := k + 1; j < i; j++ {
				row[j] -= float64(v * a[j*n+k])
			}
			row[i] -= float64(v * v)
		}
		if !(row[i] > 0 && row[i] <= math.MaxFloat64) {
			return &PivotError{i, row[i]}
		}
		row[i] = math.Sqrt(row[i])
	}
	return nil
}

// substitute replaces rows first to last−1 of p by those of X with L·X = p, given the rows before:
//
//	x[i] = (p[i] − Σ_{k<i} l[i][k]·x[k]) / l[i][i]
//
// first is a multiple of the rows of a tile; l begins with row first of L, and its rows are lda apart.
func substitute(p *Panels[float64], l []float64, lda, first, last, threads int) {
	each(threads, p.count(), func(units iter.Seq[int]) {
		for i := range units {
			y, width, s := p.panel(i), p.width(i), first
			for ; s+p.o.Rows <= last; s += p.o.Rows {
				row := l[(s-first)*lda:]
				p.o.Sub(y[s*width:], width, row, lda, 1, y, width, s, width)
				p.o.Divide(y[s*width:], width, row[s:], lda, width)
			}
			for ; s < last; s++ {
				row, x := l[(s-first)*lda:][:s+1], y[s*width:][:width]
				for k, v := range row[:s] {
					for j, w := range y[k*width:][:width] {
						x[j] -= float64(v * w)
					}
				}
				for j := range x {
					x[j] /= row[s]
				}
			}
		}
	})
}

// Backward factors H = U·Uᵀ with U upper triangular, given the lower triangle of h [n, n], and returns of every column j
//
//	d[j] = u[j][j]²,  m[i][j] = u[i][j] / u[j][j]
//
// the latter [n, n], upper triangular with ones on the diagonal, both rounded to float32. For any row e,
// e·H·eᵀ = Σ_j d[j]·(Σ_{i≤j} e[i]·m[i][j])². h is used up. An error is a *PivotError.
func Backward(h []float64, n, threads int) (d, m []float32, err error) {
	fit("H", len(h), n, n, n)
	// With rows and columns in reverse order U is lower triangular. The transposition about the other diagonal puts those
	// of a symmetric matrix in that order.
	const block = 32
	each(threads, (n+block-1)/block, func(units iter.Seq[int]) {
		for u := range units {
			first, last := u*block, min((u+1)*block, n)
			for left := 0; left < min(last, n-1-first); left += block {
				for i := first; i < last; i++ {
					for j := left; j < min(left+block, i+1, n-1-i); j++ {
						x, y := i*n+j, (n-1-j)*n+n-1-i
						h[x], h[y] = h[y], h[x]
					}
				}
			}
		}
	})
	if err := Cholesky(h, n, threads); err != nil {
		e := err.(*PivotError)
		return nil, nil, &PivotError{n - 1 - e.Index, e.Pivot}
	}
	diagonal := make([]float64, n)
	d, m = make([]float32, n), make([]float32, n*n)
	for i := range n {
		u := h[i*n+i]
		diagonal[i] = u
		d[n-1-i] = float32(u * u)
	}
	each(threads, n, func(units iter.Seq[int]) {
		for i := range units {
			row := m[i*n:][:n]
			for s, v := range h[(n-1-i)*n:][:n-i] { // u[i][n−1−s]
				row[n-1-s] = float32(v / diagonal[s])
			}
		}
	})
	return d, m, nil
}
