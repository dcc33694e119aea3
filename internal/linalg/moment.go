package linalg

import (
	"iter"
	"math"

	"nibble/internal/kernel"
)

// MomentChunk is the number of rows whose products are added up in float32 before their sum is added in float64.
const MomentChunk = 1024

// Moment adds up the second moment Σ_t ω_t·x_t·x_tᵀ of rows of K values. MomentChunk rows at a time are added up in float32,
// one after the other, and their sums in float64. Where chunks begin depends on nothing but the number of rows before and
// on Sum.
//
// With weights both factors are scaled: x_t becomes float32(√ω_t)·x_t, rounded to the type of the rows, so that the sum stays
// positive semidefinite. Rows are float32, whose products are rounded before they are added, or bfloat16, whose
// products are exact: of each two rows of a chunk the second comes first, magnitudes below 2^-56 count as 0, and from 2^64 on
// as not finite.
type Moment struct {
	k       int
	rows    int  // in the chunk
	wide    bool // rows are float32
	m       kernel.Moments
	o       kernel.Outer[float32]
	chunk   []float32 // panels of o.Cols columns, or as many as are left
	sum     []float64 // [k, k], the lower triangle
	pending []byte    // the first row of a pair
	weight  float32   // its factor
}

// NewMoment begins a sum of rows of bfloat16.
func NewMoment(k int) *Moment {
	m := kernel.MomentsOf()
	return newMoment(&Moment{k: k, m: m, o: m.Outer, pending: make([]byte, 2*k)})
}

// NewMoment32 begins a sum of rows of float32.
func NewMoment32(k int) *Moment {
	return newMoment(&Moment{k: k, wide: true, o: kernel.OuterOf[float32](), m: kernel.Moments{Steps: 2}})
}

func newMoment(m *Moment) *Moment {
	m.chunk = make([]float32, ceil(m.k, m.o.Lanes)*m.steps())
	m.sum = make([]float64, m.k*m.k)
	return m
}

// steps returns those of a panel.
func (m *Moment) steps() int { return MomentChunk / 2 * m.m.Steps }

// panel returns panel i, its width and how many of its columns are of rows.
func (m *Moment) panel(i int) (data []float32, width, cols int) {
	j := i * m.o.Cols
	cols = min(m.o.Cols, m.k-j)
	width = ceil(cols, m.o.Lanes)
	return m.chunk[j*m.steps():][:width*m.steps()], width, cols
}

func (m *Moment) panels() int { return (m.k + m.o.Cols - 1) / m.o.Cols }

// factor returns √ω.
func factor(w []float32, t int) float32 {
	if w == nil {
		return 1
	}
	s := float32(math.Sqrt(float64(w[t])))
	if s != s {
		return float32(math.NaN())
	}
	return s
}

// AddBF16 adds n rows of bfloat16, little-endian and stride bytes apart. w has their weights, nil for 1.
func (m *Moment) AddBF16(x []byte, stride, n int, w []float32, threads int) {
	for t := 0; t < n; {
		if m.rows&1 == 1 || t+1 == n {
			m.single(x[t*stride:][:2*m.k], factor(w, t), threads)
			t++
			continue
		}
		rows := min(n-t, MomentChunk-m.rows) &^ 1
		factors := make([]float32, rows)
		for i := range factors {
			factors[i] = factor(w, t+i)
		}
		m.pairs(x[t*stride:], stride, factors, threads)
		t += rows
	}
}

// single adds a row whose pair comes later or came before.
func (m *Moment) single(row []byte, s float32, threads int) {
	if m.rows&1 == 0 {
		copy(m.pending, row)
		m.weight = s
		m.rows++
		return
	}
	two := append(m.pending[:len(m.pending):len(m.pending)], row...)
	m.rows--
	m.pairs(two, 2*m.k, []float32{m.weight, s}, threads)
}

// pairs adds rows, a whole number of pairs that the chunk has room for.
func (m *Moment) pairs(x []byte, stride int, factors []float32, threads int) {
	step := m.rows / 2 * m.m.Steps
	each(threads, m.panels(), func(units iter.Seq[int]) {
		for i := range units {
			data, width, cols := m.panel(i)
			m.m.Pack(data[step*width:], x[2*i*m.o.Cols:], stride, factors, cols, width)
		}
	})
	m.added(len(factors), threads)
}

// Add32 adds n rows of float32, ld elements apart. w has their weights, nil for 1.
func (m *Moment) Add32(x []float32, ld, n int, w []float32, threads int) {
	for t := 0; t < n; {
		rows := min(n-t, MomentChunk-m.rows)
		each(threads, m.panels(), func(units iter.Seq[int]) {
			for i := range units {
				data, width, cols := m.panel(i)
				for r := range rows {
					to, from := data[(m.rows+r)*width:][:cols], x[(t+r)*ld+i*m.o.Cols:]
					if w == nil {
						copy(to, from)
						continue
					}
					s := factor(w, t+r)
					for j := range to {
						to[j] = s * from[j]
					}
				}
			}
		})
		m.added(rows, threads)
		t += rows
	}
}

// added counts rows, and multiplies a chunk that is full.
func (m *Moment) added(rows, threads int) {
	if m.rows += rows; m.rows == MomentChunk {
		m.flush(threads)
	}
}

// flush adds the moment of the chunk to the sum.
func (m *Moment) flush(threads int) {
	steps := m.rows
	if !m.wide {
		steps = m.rows / 2 * m.m.Steps
	}
	lower(threads, m.panels(), func(pairs iter.Seq2[int, int]) {
		tile := make([]float32, m.o.Rows*m.o.Cols)
		for i, j := range pairs {
			a, ks, rows := m.panel(i)
			b, width, cols := m.panel(j)
			for r := 0; r < rows; r += m.o.Rows {
				row := i*m.o.Cols + r
				last := min(cols, row+m.o.Rows-j*m.o.Cols)
				ld := ceil(last, m.o.Lanes)
				clear(tile)
				m.o.Add(tile, ld, a[r:], 1, ks, b, width, steps, ld)
				for l := range min(m.o.Rows, rows-r) {
					from := tile[l*ld:]
					to := m.sum[(row+l)*m.k+j*m.o.Cols:][:min(last, row+l+1-j*m.o.Cols)]
					for c := range to {
						to[c] += float64(from[c])
					}
				}
			}
		}
	})
	m.rows = 0
}

// lower hands out the pairs of panels of a lower triangle.
func lower(threads, panels int, work func(pairs iter.Seq2[int, int])) {
	each(threads, panels*(panels+1)/2, func(units iter.Seq[int]) {
		work(func(yield func(i, j int) bool) {
			i, first := 0, 0 // row i of pairs begins with this unit
			for u := range units {
				for u > first+i {
					first += i + 1
					i++
				}
				if !yield(i, u-first) {
					return
				}
			}
		})
	})
}

// Sum returns the lower triangle of the sum of all rows, [K, K]; what is above it is 0. Rows that are added later begin a
// chunk, and count in the slice that was returned.
func (m *Moment) Sum(threads int) []float64 {
	if m.rows&1 == 1 && !m.wide {
		m.single(make([]byte, 2*m.k), 1, threads) // adds nothing
	}
	if m.rows > 0 {
		m.flush(threads)
	}
	return m.sum
}
