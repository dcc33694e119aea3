package linalg

import (
	"iter"

	"nibble/internal/kernel"
)

// Op says what a product does to the matrix that takes it.
type Op int

// Operations.
const (
	Add Op = iota
	Sub
)

// Depth of a pass over a panel, so that the panel stays in the first cache, and the most rows that share it.
const (
	passDepth = 128
	passRows  = 96
)

// Gemm32 adds the product of A [m, k] and B [k, n] to C [m, n], or subtracts it: c[i][j] ± Σ_k a[i][k]·b[k][j].
func Gemm32(op Op, c []float32, ldc int, a []float32, lda int, b []float32, ldb, m, n, k, threads int) {
	gemm(op, c, ldc, a, lda, b, ldb, false, m, n, k, threads)
}

// Gemm32T is Gemm32 of A and Bᵀ, with B [n, k].
func Gemm32T(op Op, c []float32, ldc int, a []float32, lda int, b []float32, ldb, m, n, k, threads int) {
	gemm(op, c, ldc, a, lda, b, ldb, true, m, n, k, threads)
}

// Gemm64 is Gemm32 in float64.
func Gemm64(op Op, c []float64, ldc int, a []float64, lda int, b []float64, ldb, m, n, k, threads int) {
	gemm(op, c, ldc, a, lda, b, ldb, false, m, n, k, threads)
}

// Gemm64T is Gemm32T in float64.
func Gemm64T(op Op, c []float64, ldc int, a []float64, lda int, b []float64, ldb, m, n, k, threads int) {
	gemm(op, c, ldc, a, lda, b, ldb, true, m, n, k, threads)
}

// stripDepth bounds the memory of a product: so many rows of B are packed at once.
const stripDepth = 512

func gemm[T float32 | float64](op Op, c []T, ldc int, a []T, lda int, b []T, ldb int, transposed bool, m, n, k, threads int) {
	if m == 0 || n == 0 {
		return
	}
	var p Panels[T]
	for k0 := 0; k0 < k; k0 += stripDepth {
		at := k0 * ldb
		if transposed {
			at = k0
		}
		p.Pack(b[at:], ldb, transposed, min(stripDepth, k-k0), n, threads)
		p.Multiply(op, c, ldc, a[k0:], lda, m, threads)
	}
}

// Panels is a matrix B [k, n] in the order in which products read it, for those who multiply by it often: panels of some
// columns, rows one after the other.
type Panels[T float32 | float64] struct {
	o    kernel.Outer[T]
	k, n int
	data []T
}

// Pack makes p the matrix b [k, n], or, transposed, the transpose of b [n, k]. Memory that p has is used again.
func (p *Panels[T]) Pack(b []T, ldb int, transposed bool, k, n, threads int) {
	p.o, p.k, p.n = kernel.OuterOf[T](), k, n
	size := k * ceil(n, p.o.Lanes)
	if cap(p.data) < size {
		p.data = make([]T, size)
	}
	p.data = p.data[:size]
	each(threads, p.count(), func(units iter.Seq[int]) {
		for i := range units {
			to, width, j := p.panel(i), p.width(i), i*p.o.Cols
			cols := min(width, n-j)
			if transposed {
				packTransposed(to, width, b[j*ldb:], ldb, k, cols)
			} else {
				for s := range k {
					clear(to[s*width+copy(to[s*width:], b[s*ldb+j:][:cols]) : (s+1)*width])
				}
			}
		}
	})
}

// packTransposed writes k rows of width columns; those from cols on are zero.
func packTransposed[T float32 | float64](to []T, width int, b []T, ldb, k, cols int) {
	for j := range cols {
		for s, v := range b[j*ldb:][:k] {
			to[s*width+j] = v
		}
	}
	if cols < width {
		for s := range k {
			clear(to[s*width+cols : (s+1)*width])
		}
	}
}

// ceil rounds n up to a multiple of unit.
func ceil(n, unit int) int { return (n + unit - 1) / unit * unit }

// count returns the number of panels.
func (p *Panels[T]) count() int { return (p.n + p.o.Cols - 1) / p.o.Cols }

// width returns the columns of panel i with those that pad it.
func (p *Panels[T]) width(i int) int { return min(p.o.Cols, ceil(p.n-i*p.o.Cols, p.o.Lanes)) }

// panel returns the k rows of panel i.
func (p *Panels[T]) panel(i int) []T {
	at := i * p.o.Cols * p.k
	return p.data[at : at+p.k*p.width(i)]
}

// Multiply is Gemm32 or Gemm64 by the matrix that p holds.
func (p *Panels[T]) Multiply(op Op, c []T, ldc int, a []T, lda, m, threads int) {
	panels, blocks := p.count(), (m+passRows-1)/passRows
	each(threads, panels*blocks, func(units iter.Seq[int]) {
		t := newTiles(op, p.o)
		for u := range units {
			i, j := u/panels*passRows, u%panels
			p.block(t, j, c[i*ldc+j*p.o.Cols:], ldc, a[i*lda:], lda, min(passRows, m-i))
		}
	})
}

// block multiplies rows of a by a panel.
func (p *Panels[T]) block(t *tiles[T], j int, c []T, ldc int, a []T, lda, m int) {
	b, width, cols := p.panel(j), p.width(j), min(p.o.Cols, p.n-j*p.o.Cols)
	for s := 0; s < p.k; s += passDepth {
		k := min(passDepth, p.k-s)
		for i := 0; i < m; i += p.o.Rows {
			rows := min(p.o.Rows, m-i)
			from, rs := t.rows(a[i*lda+s:], lda, rows, k)
			t.run(c[i*ldc:], ldc, rows, cols, from, rs, 1, b[s*width:], width, k)
		}
	}
}

// tiles runs the operation of a product on tiles of any size.
type tiles[T float32 | float64] struct {
	o   kernel.Outer[T]
	op  Op
	buf []T // a tile
	a   []T // the rows of a that a tile takes, where there are too few
}

func newTiles[T float32 | float64](op Op, o kernel.Outer[T]) *tiles[T] {
	return &tiles[T]{o, op, make([]T, o.Rows*o.Cols), nil}
}

// rows returns the first k elements of as many rows as a tile has, of which a has some, and their distance.
func (t *tiles[T]) rows(a []T, lda, rows, k int) (from []T, rs int) {
	if rows == t.o.Rows {
		return a, lda
	}
	if t.a == nil {
		t.a = make([]T, t.o.Rows*passDepth)
	}
	for i := range rows {
		copy(t.a[i*passDepth:], a[i*lda:][:k])
	}
	return t.a, passDepth
}

// run does the operation on a tile of at most as many rows and columns as the kernels have. a and b have values for all rows
// and for columns up to a multiple of their registers.
func (t *tiles[T]) run(c []T, ldc, rows, cols int, a []T, rs, ks int, b []T, bs, k int) {
	width := ceil(cols, t.o.Lanes)
	to, ld := c, ldc
	whole := rows == t.o.Rows && cols == width
	if !whole {
		to, ld = t.buf, width
		for i := range rows {
			copy(to[i*ld:], c[i*ldc:][:cols])
		}
	}
	if t.op == Add {
		t.o.Add(to, ld, a, rs, ks, b, bs, k, width)
	} else {
		t.o.Sub(to, ld, a, rs, ks, b, bs, k, width)
	}
	if !whole {
		for i := range rows {
			copy(c[i*ldc:][:cols], to[i*ld:])
		}
	}
}
