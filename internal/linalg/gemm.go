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

const (
	depth       = 512 // of B that is packed at once, which bounds memory, and that a tile is multiplied by at once
	blockRows   = 96  // of a that are multiplied by one panel, one after the other,
	groupPanels = 6   // and by so many panels before deeper ones
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

func gemm[T float32 | float64](op Op, c []T, ldc int, a []T, lda int, b []T, ldb int, transposed bool, m, n, k, threads int) {
	fit("A", len(a), m, lda, k)
	if m == 0 || n == 0 {
		return
	}
	var p Panels[T]
	for k0 := 0; k0 < k; k0 += depth {
		at := k0 * ldb
		if transposed {
			at = k0
		}
		p.Pack(b[at:], ldb, transposed, min(depth, k-k0), n, threads)
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
	if rows, cols := k, n; transposed {
		fit("B", len(b), cols, ldb, rows)
	} else {
		fit("B", len(b), rows, ldb, cols)
	}
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

// packTransposed writes k rows of width columns; those from cols on are zero. What it reads and writes at a time is in the
// cache.
func packTransposed[T float32 | float64](to []T, width int, b []T, ldb, k, cols int) {
	const most = 32
	for ; k > 0; k -= most {
		rows, j := min(k, most), 0
		for ; j+4 <= cols; j += 4 {
			x0, x1, x2, x3 := b[j*ldb:][:rows], b[(j+1)*ldb:][:rows], b[(j+2)*ldb:][:rows], b[(j+3)*ldb:][:rows]
			for s, v := range x0 {
				d := to[s*width+j:][:4]
				d[0], d[1], d[2], d[3] = v, x1[s], x2[s], x3[s]
			}
		}
		for ; j < cols; j++ {
			for s, v := range b[j*ldb:][:rows] {
				to[s*width+j] = v
			}
		}
		for s := range rows {
			clear(to[s*width+cols : (s+1)*width])
		}
		if k > most {
			to, b = to[most*width:], b[most:]
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
	fit("A", len(a), m, lda, p.k)
	fit("C", len(c), m, ldc, p.n)
	groups, blocks := (p.count()+groupPanels-1)/groupPanels, (m+blockRows-1)/blockRows
	each(threads, groups*blocks, func(units iter.Seq[int]) {
		t := newTiles(op, p.o)
		for u := range units {
			i, j := u/groups*blockRows, u%groups*groupPanels
			p.block(t, j, min(groupPanels, p.count()-j), c[i*ldc:], ldc, a[i*lda:], lda, min(blockRows, m-i))
		}
	})
}

// block multiplies m rows of a by n panels.
func (p *Panels[T]) block(t *tiles[T], first, n int, c []T, ldc int, a []T, lda, m int) {
	for s := 0; s < p.k; s += depth {
		k := min(depth, p.k-s)
		for j := first; j < first+n; j++ {
			b, width, col := p.panel(j), p.width(j), j*p.o.Cols
			for i := 0; i < m; i += p.o.Rows {
				rows := min(p.o.Rows, m-i)
				from, rs := t.rows(a[i*lda+s:], lda, rows, k)
				t.run(c[i*ldc+col:], ldc, rows, min(p.o.Cols, p.n-col), from, rs, b[s*width:], width, k)
			}
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
		t.a = make([]T, t.o.Rows*depth)
	}
	for i := range rows {
		copy(t.a[i*depth:], a[i*lda:][:k])
	}
	return t.a, depth
}

// run does the operation on a tile of at most as many rows and columns as the kernels have. a has as many rows as the kernels,
// b as many columns as their registers.
func (t *tiles[T]) run(c []T, ldc, rows, cols int, a []T, rs int, b []T, bs, k int) {
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
		t.o.Add(to, ld, a, rs, 1, b, bs, k, width)
	} else {
		t.o.Sub(to, ld, a, rs, 1, b, bs, k, width)
	}
	if !whole {
		for i := range rows {
			copy(c[i*ldc:][:cols], to[i*ld:])
		}
	}
}

// unpack writes the matrix that p holds, or its transpose.
func (p *Panels[T]) unpack(to []T, ld int, transposed bool, threads int) {
	each(threads, p.count(), func(units iter.Seq[int]) {
		for i := range units {
			from, width, j := p.panel(i), p.width(i), i*p.o.Cols
			cols := min(width, p.n-j)
			for s := range p.k {
				if row := from[s*width:][:cols]; !transposed {
					copy(to[s*ld+j:], row)
				} else {
					for c, v := range row {
						to[(j+c)*ld+s] = v
					}
				}
			}
		}
	})
}
