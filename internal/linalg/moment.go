package linalg

import (
	"iter"
	"math"

	"nibble/internal/kernel"
)

// MomentChunk is the number of rows whose products are added up in float32 before their sum is added up in float64.
const MomentChunk = kernel.MomentRows

// Moment adds up the second moment Σ_t ω_t·x_t·x_tᵀ of rows of K values. The products of MomentChunk rows are added up in
// float32, one after the other, and the sums of chunks in float64. Where chunks begin does not depend on how rows are cut
// into calls, only on their number and on Sum.
//
// With weights a row becomes float32(√ω_t)·x_t, rounded to the type of the rows, so that the sum stays positive
// semidefinite; a negative weight is NaN. Rows are of one of two types:
//
//	float32    products are rounded before they are added
//	bfloat16   products are exact; of each two rows of a chunk the second is added first; values, after weighting, count as
//	           0 below 2^-56 in magnitude, and as NaN from 2^64 on. The kernels amxbf16 add in the order of tiles.
//
// A cross moment is Σ_t ω_t·y_t·x_tᵀ of pairs of rows of bfloat16, all of the matrix: with y = x it has the bits of the moment.
type Moment struct {
	k      int
	m      kernel.Moment
	bf16   bool
	rows   int       // in the chunk
	chunk  []float32 // panels of m.Cols columns; the last one has what is left, padded to m.Lanes
	left   []float32 // likewise of y; nil: x is y
	across []float32 // the panels of y transposed, where the kernels want that
	sum    []float64 // [k, k], the lower triangle or, of a cross moment, all
	pair   []byte    // two rows of bfloat16 of which the first came alone, and behind them those of y
	weight float32   // of it, the root
	roots  []float32 // of the weights of some rows
}

// NewMoment begins a sum of rows of bfloat16.
func NewMoment(k int) *Moment {
	m := newMoment(k, kernel.MomentBF16())
	m.bf16, m.pair = true, make([]byte, 4*k)
	return m
}

// NewCross begins a cross moment.
func NewCross(k int) *Moment {
	m := NewMoment(k)
	m.left, m.pair = make([]float32, len(m.chunk)), make([]byte, 8*k)
	return m
}

// NewMoment32 begins a sum of rows of float32.
func NewMoment32(k int) *Moment { return newMoment(k, kernel.Moment32()) }

func newMoment(k int, o kernel.Moment) *Moment {
	m := &Moment{k: k, m: o, sum: make([]float64, k*k), roots: make([]float32, MomentChunk)}
	m.chunk = make([]float32, ceil(k, o.Lanes)*m.steps(MomentChunk))
	if o.Across {
		m.across = make([]float32, len(m.chunk))
	}
	return m
}

// steps returns how many of a panel rows take, an even number if they are bfloat16.
func (m *Moment) steps(rows int) int {
	if m.bf16 {
		return rows / 2 * m.m.Steps
	}
	return rows
}

// panel returns panel i of a chunk, its width and how many of its columns are not padding.
func (m *Moment) panel(chunk []float32, i int) (data []float32, width, cols int) {
	at, steps := i*m.m.Cols, len(chunk)/ceil(m.k, m.m.Lanes)
	cols = min(m.m.Cols, m.k-at)
	width = ceil(cols, m.m.Lanes)
	return chunk[at*steps:][:width*steps], width, cols
}

// lefts are the panels of y.
func (m *Moment) lefts() []float32 {
	if m.left != nil {
		return m.left
	}
	return m.chunk
}

func (m *Moment) panels() int { return (m.k + m.m.Cols - 1) / m.m.Cols }

// rooted returns the roots of n weights from row t on.
func (m *Moment) rooted(w []float32, t, n int) []float32 {
	for i := range n {
		if m.roots[i] = 1; w != nil {
			m.roots[i] = float32(math.Sqrt(float64(w[t+i])))
		}
		if m.roots[i] != m.roots[i] {
			m.roots[i] = float32(math.NaN()) // the payload of others may be lost in rounding
		}
	}
	return m.roots[:n]
}

// AddBF16 adds n rows of bfloat16, little-endian and stride bytes apart. w has their weights; nil is 1.
func (m *Moment) AddBF16(x []byte, stride, n int, w []float32, threads int) {
	fit("X", len(x), n, stride, 2*m.k)
	m.addBF16(x, nil, stride, n, w, threads)
}

// AddCross adds n pairs of rows to a cross moment.
func (m *Moment) AddCross(y, x []byte, stride, n int, w []float32, threads int) {
	fit("X", len(x), n, stride, 2*m.k)
	fit("Y", len(y), n, stride, 2*m.k)
	m.addBF16(x, y, stride, n, w, threads)
}

// addBF16 adds rows, and those of y if there is one.
func (m *Moment) addBF16(x, y []byte, stride, n int, w []float32, threads int) {
	for t := 0; t < n; {
		rows := min(n-t, MomentChunk-m.rows) &^ 1
		if m.rows&1 == 1 || t+1 == n {
			rows = 1
		}
		from, also := x[t*stride:], y
		if y != nil {
			also = y[t*stride:]
		}
		if roots := m.rooted(w, t, rows); rows == 1 {
			m.single(from, also, roots[0], threads)
		} else {
			m.pairs(from, also, stride, roots, threads)
		}
		t += rows
	}
}

// single adds a row of bfloat16 when the other of its pair is there.
func (m *Moment) single(x, y []byte, root float32, threads int) {
	size, at := 2*m.k, m.rows&1*2*m.k
	copy(m.pair[at:][:size], x)
	if y != nil {
		copy(m.pair[2*size+at:][:size], y)
		y = m.pair[2*size:]
	}
	if at == 0 {
		m.weight = root
		m.rows++
		return
	}
	m.rows--
	m.pairs(m.pair[:2*size], y, size, []float32{m.weight, root}, threads)
}

// packRows is the number of rows that are packed for all panels while they are in the cache.
const packRows = 32

// pairs adds an even number of rows of bfloat16 for which the chunk has room.
func (m *Moment) pairs(x, y []byte, stride int, roots []float32, threads int) {
	each(threads, (len(roots)+packRows-1)/packRows, func(units iter.Seq[int]) {
		for u := range units {
			first := u * packRows
			step, some := m.steps(m.rows+first), roots[first:min(first+packRows, len(roots))]
			pack := func(chunk []float32, rows []byte) {
				for i := range m.panels() {
					data, width, cols := m.panel(chunk, i)
					m.m.Pack(data[step*width:], rows[first*stride+2*i*m.m.Cols:], stride, some, cols, width)
				}
			}
			if pack(m.chunk, x); y != nil {
				pack(m.left, y)
			}
		}
	})
	m.added(len(roots), threads)
}

// Add32 adds n rows of float32, ld elements apart. w has their weights; nil is 1.
func (m *Moment) Add32(x []float32, ld, n int, w []float32, threads int) {
	fit("X", len(x), n, ld, m.k)
	for t := 0; t < n; {
		rows := min(n-t, MomentChunk-m.rows)
		roots := m.rooted(w, t, rows)
		each(threads, rows, func(units iter.Seq[int]) {
			for r := range units {
				row, root := x[(t+r)*ld:][:m.k], roots[r]
				for i := range m.panels() {
					data, width, cols := m.panel(m.chunk, i)
					to := data[(m.rows+r)*width:][:cols]
					for j, v := range row[i*m.m.Cols:][:cols] {
						to[j] = root * v
					}
				}
			}
		})
		m.added(rows, threads)
		t += rows
	}
}

// added counts rows, and ends a chunk that is full.
func (m *Moment) added(rows, threads int) {
	if m.rows += rows; m.rows == MomentChunk {
		m.flush(threads)
	}
}

// flush adds the moment of the chunk to the sum.
func (m *Moment) flush(threads int) {
	steps := m.steps(m.rows)
	m.rows = 0
	panels := m.panels()
	if m.across != nil {
		steps = m.turn(steps, threads)
	}
	units := panels * (panels + 1) / 2
	if m.left != nil {
		units = panels * panels
	}
	each(threads, units, func(units iter.Seq[int]) {
		tile := make([]float64, m.m.Rows*m.m.Cols)
		i, before := 0, 0 // units of the panels above panel i
		for u := range units {
			if m.left != nil {
				m.product(u/panels, u%panels, steps, tile)
				continue
			}
			for u > before+i {
				i++
				before += i
			}
			m.product(i, u-before, steps, tile)
		}
	})
}

// turn transposes the panels of a chunk and returns its steps, a multiple of four: what is added to them is zeros.
func (m *Moment) turn(steps, threads int) int {
	whole := ceil(steps, 4)
	each(threads, m.panels(), func(units iter.Seq[int]) {
		for i := range units {
			x, width, _ := m.panel(m.chunk, i)
			data, _, _ := m.panel(m.lefts(), i)
			clear(x[steps*width : whole*width])
			clear(data[steps*width : whole*width])
			to, ks := m.turned(i)
			kernel.TransposeBetween(kernel.Bytes(to), kernel.Bytes(data), whole, width, 4*ks, 4*width)
		}
	})
	return whole
}

// turned returns the columns of panel i of y across, and the steps from one to the next.
func (m *Moment) turned(i int) (data []float32, ks int) {
	ks = len(m.chunk) / ceil(m.k, m.m.Lanes)
	return m.across[i*m.m.Cols*ks:], ks
}

// product adds the products of panels i of y and j of x, of which without y j is not the greater, to the sum. A tile that does not fit into the
// triangle, or the matrix, is made in tile.
func (m *Moment) product(i, j, steps int, tile []float64) {
	a, ks, rows := m.panel(m.lefts(), i)
	if m.across != nil {
		a, ks = m.turned(i)
	}
	b, bs, cols := m.panel(m.chunk, j)
	for r := 0; r < rows; r += m.m.Rows {
		row, col := i*m.m.Cols+r, j*m.m.Cols
		to, n := m.sum[row*m.k+col:], min(m.m.Rows, rows-r)
		longest := func(n int) int { // of the first n of these rows
			if m.left != nil {
				return cols
			}
			return min(cols, row+n-col)
		}
		width := ceil(longest(n), m.m.Lanes)
		if (i > j || m.left != nil) && n == m.m.Rows && longest(n) == width {
			m.m.Add(to, m.k, a[r:], ks, b, bs, steps, width)
			continue
		}
		clear(tile)
		m.m.Add(tile, width, a[r:], ks, b, bs, steps, width)
		for l := range n {
			for c, v := range tile[l*width:][:longest(l+1)] {
				to[l*m.k+c] += v
			}
		}
	}
}

// Sum returns the sum of all rows, [K, K]: without y the lower triangle, above which are zeros. A chunk ends here: rows that are added
// later begin the next one, and their sum is added to the matrix that was returned.
func (m *Moment) Sum(threads int) []float64 {
	if m.bf16 && m.rows&1 == 1 { // adds zeros
		zeros := make([]byte, 2*m.k)
		if m.left != nil {
			m.single(zeros, zeros, 1, threads)
		} else {
			m.single(zeros, nil, 1, threads)
		}
	}
	if m.rows > 0 {
		m.flush(threads)
	}
	return m.sum
}
