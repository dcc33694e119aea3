package runtime

import (
	"nibble/internal/half"
	"nibble/internal/kernel"
	"nibble/safetensors"
)

// acts are the inputs of a matrix, prepared for the way in which it is multiplied.
type acts struct {
	floats []float32 // [n, k], rounded or in another column order
	codes  []int8    // [n, k]
	scales []float32 // [n, blocks], or [n, 1]
	sums   []int32   // [n, blocks]
}

// newActs makes room for inputs of so many columns and blocks; only what the mode needs.
func newActs(mode Mode, columns, blocks int) acts {
	a := acts{floats: make([]float32, chunk*columns)}
	if mode == A8 || mode == A8Row {
		a.codes, a.scales, a.sums = make([]int8, chunk*columns), make([]float32, chunk*blocks), make([]int32, chunk*blocks)
	}
	return a
}

// form is how inputs are prepared.
type form uint8

const (
	asIs    form = iota // no preparation
	ordered             // in the matrix' column order
	rounded             // the same, rounded to bfloat16
	blocked             // int8 per block
	rowwise             // int8 per row
)

// actsKey says what acts holds, so that q, k and v prepare their input once.
type actsKey struct {
	x    *float32
	n, k int
	form form
	cuts int // of an int8 form: where the blocks are
}

// form returns how the inputs of a matrix are prepared.
func (m *matrix) form(mode Mode) form {
	switch {
	case mode == F32 && (m.q == nil || m.q.order == nil):
		return asIs
	case mode == F32:
		return ordered
	case mode == A16 || m.q == nil:
		return rounded
	case mode == A8:
		return blocked
	}
	return rowwise
}

// block is a run of columns with one scale of the weights, and at most 128 long.
type block struct{ lo, hi, group int }

const widestBlock = 128

// multiply sets y[t, :] = W·x[t, :] + bias for all tokens of the chunk; rows of y are ldy apart.
func (w *walker) multiply(m *matrix, x, y []float32, ldy int) { w.multiplyRows(m, x, y, ldy, w.s.n) }

func (w *walker) multiplyRows(m *matrix, x, y []float32, ldy, n int) {
	f := m.form(w.m.Mode)
	in := w.prepare(m, f, x, n)
	lo, hi := w.team.share(w.tid, m.n, 1)
	for r := lo; r < hi; r++ {
		var bias float32
		if m.bias != nil {
			bias = m.bias[r]
		}
		if f >= blocked {
			w.integers(m, r, f, y, ldy, n, bias)
			continue
		}
		if f == asIs && n == 1 && m.q == nil && m.dtype == safetensors.BF16 {
			y[r] = kernel.DotBF16(m.raw[2*r*m.k:], in[:m.k]) + bias
			continue
		}
		row := w.row[:m.k]
		m.row(row, w.codes, r)
		if f == rounded && (m.q != nil || m.dtype != safetensors.BF16) {
			for i, v := range row {
				row[i] = half.RoundBF16(v)
			}
		}
		for t := range n {
			y[t*ldy+r] = kernel.Dot(row, in[t*m.k:(t+1)*m.k]) + bias
		}
	}
}

// integers computes one row of a quantized matrix with int8 inputs.
func (w *walker) integers(m *matrix, r int, f form, y []float32, ldy, n int, bias float32) {
	q, a := m.q, &w.s.acts
	codes := w.codes[:m.k]
	q.centred(codes, r, m.k)
	groups := len(q.starts) - 1
	per := len(q.blocks)
	for t := range n {
		x := a.codes[t*m.k : (t+1)*m.k]
		var sum float32
		for i, b := range q.blocks {
			g := r*groups + b.group
			dot := kernel.DotInt8(codes[b.lo:b.hi], x[b.lo:b.hi])
			total := a.sums[t*per+i]
			sx := a.scales[t*per+i]
			// Σ s·(q − z)·x + b·x over the block, all but the scales in integers.
			v := float32(q.scales[g] * float32(dot+int32(q.offset(g))*total))
			if q.biases != nil {
				v += float32(q.biases[g] * float32(total))
			}
			sum += float32(v * sx)
		}
		y[t*ldy+r] = sum + bias
	}
}

// prepare fills acts for n rows of x, unless they are there, and returns the float inputs to use.
func (w *walker) prepare(m *matrix, f form, x []float32, n int) []float32 {
	if f == asIs {
		return x
	}
	key := actsKey{x: &x[0], n: n, k: m.k, form: f}
	if f >= blocked {
		key.cuts = m.q.cuts
	}
	a := &w.s.acts
	if key == w.have && (m.q == nil || m.q.order == nil) {
		return a.floats
	}
	w.team.barrier() // the others may still read what is there
	w.have = key
	if m.q != nil && m.q.order != nil {
		w.have = actsKey{}
	}
	lo, hi := w.team.share(w.tid, n, 1)
	for t := lo; t < hi; t++ {
		src, dst := x[t*m.k:(t+1)*m.k], a.floats[t*m.k:(t+1)*m.k]
		if m.q != nil && m.q.order != nil {
			for i, c := range m.q.order {
				dst[i] = src[c]
			}
			src = dst
		}
		switch f {
		case rounded:
			for i, v := range src {
				dst[i] = half.RoundBF16(v)
			}
		case blocked, rowwise:
			a.quantize(m.q.blocks, f, t, m.k, src)
		}
	}
	w.team.barrier()
	return a.floats
}

// quantize makes the int8 form of row t.
func (a *acts) quantize(blocks []block, f form, t, k int, x []float32) {
	codes := a.codes[t*k : (t+1)*k]
	per := len(blocks)
	var row float32
	if f == rowwise {
		row, _ = kernel.QuantizeInt8(codes, x)
	}
	for i, b := range blocks {
		if f == blocked {
			a.scales[t*per+i], a.sums[t*per+i] = kernel.QuantizeInt8(codes[b.lo:b.hi], x[b.lo:b.hi])
			continue
		}
		var sum int32
		for _, c := range codes[b.lo:b.hi] {
			sum += int32(c)
		}
		a.scales[t*per+i], a.sums[t*per+i] = row, sum
	}
}

// natural writes row n in the checkpoint's column order, as a lookup table needs it.
func (m *matrix) natural(dst []float32, codes []int8, scratch []float32, n int) {
	if m.q == nil || m.q.order == nil {
		m.row(dst, codes, n)
		return
	}
	row := scratch[:m.k]
	m.row(row, codes, n)
	for i, c := range m.q.order {
		dst[c] = row[i]
	}
}
