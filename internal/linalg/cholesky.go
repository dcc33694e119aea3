package linalg

import (
	"fmt"
	"iter"
	"math"
)

// PivotError says that a matrix is not positive definite.
type PivotError struct {
	Index int     // of the row whose pivot failed
	Pivot float64 // not above 0, or NaN
}

func (e *PivotError) Error() string {
	return fmt.Sprintf("the matrix is not positive definite: pivot %d is %g", e.Index, e.Pivot)
}

// Sizes of the diagonal blocks that are factored at once, outer and inner.
const (
	outerBlock = 128
	innerBlock = 16
)

// Cholesky replaces the lower triangle of a [n, n] by L with A = L·Lᵀ; what is above it is neither read nor written:
//
//	l[i][j] = (a[i][j] − Σ_{k<j} l[i][k]·l[j][k]) / l[j][j], and the root of that difference for i = j
//
// An error is a *PivotError, and leaves a useless matrix.
func Cholesky(a []float64, n, threads int) error {
	return factorize(a, n, n, 0, outerBlock, threads)
}

// factorize is Cholesky of a block whose rows are lda apart, the first being row number first.
func factorize(a []float64, lda, n, first, block, threads int) error {
	if n <= block {
		if block == outerBlock {
			return factorize(a, lda, n, first, innerBlock, 1)
		}
		return factorizeSmall(a, lda, n, first)
	}
	var p Panels[float64]
	for j := 0; j < n; j += block {
		nb := min(block, n-j)
		corner := a[j*lda+j:]
		if err := factorize(corner, lda, nb, first+j, block, 1); err != nil {
			return err
		}
		if m := n - j - nb; m > 0 {
			below := a[(j+nb)*lda+j:]
			p.Pack(below, lda, true, nb, m, threads)
			p.substitute(corner, lda, 0, nb, threads)
			p.unpack(below, lda, true, threads)
			p.subtractSquare(a[(j+nb)*lda+j+nb:], lda, threads)
		}
	}
	return nil
}

// factorizeSmall is factorize row by row.
func factorizeSmall(a []float64, lda, n, first int) error {
	for i := range n {
		row := a[i*lda:][:i+1]
		for k := range i {
			v := row[k] / a[k*lda+k]
			row[k] = v
			for j := k + 1; j < i; j++ {
				row[j] -= float64(v * a[j*lda+k])
			}
			row[i] -= float64(v * v)
		}
		if !(row[i] > 0) {
			return &PivotError{first + i, row[i]}
		}
		row[i] = math.Sqrt(row[i])
	}
	return nil
}

// substitute replaces rows first to last of p by those of X with L·X = p, given the rows before; l [last, last] is lower
// triangular:
//
//	x[i] = (p[i] − Σ_{k<i} l[i][k]·x[k]) / l[i][i]
//
// first is a multiple of the rows of a tile. Row first of l begins at l[0].
func (p *Panels[T]) substitute(l []T, lda, first, last, threads int) {
	each(threads, p.count(), func(units iter.Seq[int]) {
		for i := range units {
			y, width := p.panel(i), p.width(i)
			for s := first; s < last; s += p.o.Rows {
				rows, from := min(p.o.Rows, last-s), l[(s-first)*lda:]
				done := 0
				if rows == p.o.Rows && s > 0 {
					p.o.Sub(y[s*width:], width, from, lda, 1, y, width, s, width)
					done = s
				}
				triangle(y, width, from, lda, s, done, rows)
			}
		}
	})
}

// triangle subtracts from rows s to s+rows−1 of y the rows from done on times the elements of l, whose row 0 is the one
// of s, and divides by the diagonal.
func triangle[T float32 | float64](y []T, width int, l []T, lda, s, done, rows int) {
	for r := range rows {
		x, row := y[(s+r)*width:][:width], l[r*lda:][:s+r+1]
		for k := done; k < s+r; k++ {
			f := row[k]
			for j, v := range y[k*width:][:width] {
				x[j] -= T(f * v)
			}
		}
		d := row[s+r]
		for j := range x {
			x[j] /= d
		}
	}
}

// unpack writes the matrix that p holds, or its transpose.
func (p *Panels[T]) unpack(to []T, ld int, transposed bool, threads int) {
	each(threads, p.count(), func(units iter.Seq[int]) {
		for i := range units {
			from, width, j := p.panel(i), p.width(i), i*p.o.Cols
			cols := min(width, p.n-j)
			if !transposed {
				for s := range p.k {
					copy(to[s*ld+j:][:cols], from[s*width:])
				}
				continue
			}
			for c := range cols {
				row := to[(j+c)*ld:][:p.k]
				for s := range row {
					row[s] = from[s*width+c]
				}
			}
		}
	})
}

// subtractSquare subtracts the lower triangle of Pᵀ·P from c.
func (p *Panels[T]) subtractSquare(c []T, ldc, threads int) {
	lower(threads, p.count(), func(pairs iter.Seq2[int, int]) {
		t := newTiles(Sub, p.o)
		for i, j := range pairs {
			a, ks := p.panel(i), p.width(i)
			b, bs := p.panel(j), p.width(j)
			rows, cols := min(p.o.Cols, p.n-i*p.o.Cols), min(p.o.Cols, p.n-j*p.o.Cols)
			for r := 0; r < rows; r += p.o.Rows {
				at := c[(i*p.o.Cols+r)*ldc+j*p.o.Cols:]
				if i == j {
					t.diagonal(at, ldc, min(p.o.Rows, rows-r), r, a[r:], ks, b, bs, p.k)
				} else {
					t.run(at, ldc, min(p.o.Rows, rows-r), cols, a[r:], 1, ks, b, bs, p.k)
				}
			}
		}
	})
}

// diagonal is run for a tile of which row i has r+i+1 columns.
func (t *tiles[T]) diagonal(c []T, ldc, rows, r int, a []T, ks int, b []T, bs, k int) {
	width := ceil(r+rows, t.o.Lanes)
	for i := range rows {
		copy(t.buf[i*width:], c[i*ldc:][:r+i+1])
	}
	t.o.Sub(t.buf, width, a, 1, ks, b, bs, k, width)
	for i := range rows {
		copy(c[i*ldc:][:r+i+1], t.buf[i*width:])
	}
}

// Backward factors H = U·Uᵀ with U upper triangular, given the lower triangle of h [n, n], and returns of every column j
//
//	d[j] = u[j][j]²,  m[i][j] = u[i][j] / u[j][j]
//
// the latter [n, n], upper triangular with ones on the diagonal, both rounded to float32. For any row e,
// e·H·eᵀ = Σ_j d[j]·(Σ_{i≤j} e[i]·m[i][j])². h is used up. An error is a *PivotError.
func Backward(h []float64, n, threads int) (d, m []float32, err error) {
	// With rows and columns in reverse order U is a lower triangle. The transposition about the other diagonal does that
	// to a symmetric matrix.
	each(threads, n, func(units iter.Seq[int]) {
		for i := range units {
			for j := 0; j <= i && i+j < n-1; j++ {
				x, y := i*n+j, (n-1-j)*n+n-1-i
				h[x], h[y] = h[y], h[x]
			}
		}
	})
	if err := Cholesky(h, n, threads); err != nil {
		e := err.(*PivotError)
		return nil, nil, &PivotError{n - 1 - e.Index, e.Pivot}
	}
	d, m = make([]float32, n), make([]float32, n*n)
	for j := range d {
		u := h[(n-1-j)*n+n-1-j]
		d[j] = float32(u * u)
	}
	each(threads, n, func(units iter.Seq[int]) {
		for i := range units {
			for s, v := range h[(n-1-i)*n:][:n-i] { // u[i][n−1−s]
				m[i*n+n-1-s] = float32(v / h[s*n+s])
			}
		}
	})
	return d, m, nil
}
