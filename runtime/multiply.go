package runtime

import (
	"nibble/internal/kernel"
	"nibble/safetensors"
)

// form is how the inputs of a matrix are prepared.
type form uint8

const (
	asIs    form = iota // no preparation
	ordered             // in the matrix' column order
	paired              // bfloat16, in the order of pairs
	blocked             // int8 per block
	rowwise             // int8 per row
)

// form returns how the inputs of a matrix are prepared.
func (m *matrix) form(mode Mode) form {
	switch {
	case mode == F32 && m.order == nil:
		return asIs
	case mode == F32:
		return ordered
	case mode == A16 || m.storage == pairs:
		return paired
	case mode == A8:
		return blocked
	}
	return rowwise
}

// acts are the inputs of a pass, prepared for the way in which it is multiplied.
type acts struct {
	floats []float32 // [n, k], in another column order
	x      []byte    // [n, stride]: int8 or bfloat16 of the padded columns
	stride int
	scales []float32 // [blocks, rows]
	sums   []int32   // [blocks, rows]: negative
	totals []float32 // [blocks, rows]
	parts  []int16   // [blocks, rows, kernel.KParts], of scales in two levels
	rows   int
}

// newActs makes room for n inputs of the matrices in list.
func newActs(mode Mode, n int, list func(f func(m *matrix))) *acts {
	a := &acts{rows: n + kernel.MostTokens}
	columns, blocks, ints, parts := 0, 0, false, false
	list(func(m *matrix) {
		if m.order != nil {
			columns = max(columns, m.k)
		}
		if m.storage != floats && mode != F32 {
			blocks = max(blocks, len(m.cols.blocks))
			a.stride = max(a.stride, m.cols.padded*elements(m.form(mode)))
			ints = ints || m.form(mode) >= blocked
			parts = parts || m.storage == leveled
		}
	})
	a.floats = make([]float32, n*columns)
	a.stride += 64 // rows of a power of two would share the same lines of a cache
	a.x = make([]byte, a.rows*a.stride)
	a.totals = make([]float32, a.rows*blocks)
	if ints {
		a.scales, a.sums = make([]float32, a.rows*blocks), make([]int32, a.rows*blocks)
	}
	if parts {
		a.parts = make([]int16, a.rows*blocks*kernel.KParts)
	}
	return a
}

// elements is the size of an input's elements.
func elements(f form) int {
	if f == paired {
		return 2
	}
	return 1
}

// target is where the results of a matrix go: row t of the inputs to y[t·ld:].
type target struct {
	y  []float32
	ld int
}

// multiply sets the targets to W·x[t] + bias for n rows of x, which are ld apart; those of a gated group to
// act(gate·x) ⊙ up·x. Every thread has the rows of x that belong to it; with solo, each has all of them.
func (w *walker) multiply(g *group, x []float32, n int, solo bool, to ...target) {
	for i := range g.passes {
		p := &g.passes[i]
		a := w.s.acts
		if solo {
			a = w.acts
		} else if i > 0 {
			w.sync(opOther) // the others may still read what is there
		}
		w.prepare(p, a, x, n, solo)
		if !solo {
			w.sync(opOther)
		}
		w.load(p, a)
		for j := p.bounds[w.tid]; j < p.bounds[w.tid+1]; {
			u := &p.units[j]
			count := w.together(p, u, n, p.bounds[w.tid+1]-j)
			w.compute(p, u, count, a, x, n)
			for i := range count {
				y := w.product.Y[i*kernel.PanelRows:]
				if g.gated {
					w.gate(&p.units[j+i], y, n, to[0])
				} else {
					w.put(g, &p.units[j+i], y, n, to[u.which])
				}
			}
			j += count
		}
	}
}

// mostPanels is how many panels are multiplied by one token at a time: between two products nothing is read.
const mostPanels = 16

// together returns how many of the next units, of one matrix, to multiply at a time.
func (w *walker) together(p *pass, u *unit, n, left int) int {
	if n > 1 || p.form < paired {
		return 1
	}
	most := min(mostPanels, left, u.m.panels()-u.panel)
	if p.form == paired && (u.m.storage == codes8 || u.m.storage == codes4 && kernel.Unpacks(n)) {
		most = min(most, len(w.unpacked)/u.m.wideBytes())
	}
	return most
}

// put adds the bias to the results of a unit and stores them, with the activation where that is all a group has.
func (w *walker) put(g *group, u *unit, tile []float32, n int, to target) {
	lo, hi := u.m.rows(u.panel)
	for t := range n {
		y := to.y[t*to.ld+lo : t*to.ld+hi]
		copy(y, tile[t*kernel.PanelRows+u.m.first:])
		if u.m.bias != nil {
			kernel.Axpy(y, 1, u.m.bias[lo:hi])
		}
		if g.activated {
			w.activate(y)
		}
	}
}

// gate stores act(gate) ⊙ up of a unit.
func (w *walker) gate(u *unit, tile []float32, n int, to target) {
	lo, hi := u.m.rows(u.panel)
	for t := range n {
		row := tile[t*kernel.PanelRows : (t+1)*kernel.PanelRows]
		g, up := row[:hi-lo], row[u.up.first:][:hi-lo]
		if u.m.bias != nil {
			kernel.Axpy(g, 1, u.m.bias[lo:hi])
		}
		if u.up.bias != nil {
			kernel.Axpy(up, 1, u.up.bias[lo:hi])
		}
		w.gated(to.y[t*to.ld+lo:t*to.ld+hi], g, up)
	}
}

// load points the product at prepared inputs.
func (w *walker) load(p *pass, a *acts) {
	if p.form < paired {
		return
	}
	k := &w.product
	k.Blocks = p.lead.cols.blocks
	k.X, k.Stride, k.Row = a.x, int64(a.stride), int64(a.rows)
	k.XScales, k.Sums, k.Totals, k.Parts = a.scales, a.sums, a.totals, a.parts
}

// compute multiplies a unit by n inputs into the product's tile [n, 32], or count units by one into [count, 32].
func (w *walker) compute(p *pass, u *unit, count int, a *acts, x []float32, n int) {
	if p.form < paired {
		if p.form == ordered {
			x = a.floats
		}
		w.rows(u.m, u.panel, x, n)
		if u.up != nil {
			w.rows(u.up, u.panel, x, n)
		}
		return
	}
	k := &w.product
	u.m.point(k, u.panel, count)
	switch {
	case u.m.storage == pairs:
		k.Pairs(n)
	case u.m.storage == leveled:
		k.KBlocks(u.m.kind, n, w.unpacked)
	case p.form == paired && u.m.storage == codes4:
		k.Codes4Pairs(n, w.unpacked)
	case p.form == paired:
		k.Codes8Pairs(n, w.unpacked)
	case u.m.storage == codes4:
		k.Codes4(n, w.unpacked)
	case u.m.storage == listed:
		k.Levels4(n, w.unpacked)
	default:
		k.Codes8(n)
	}
}

// widePad is room between rows of weights, without which those of some lengths would share the same lines of a cache.
const widePad = 16

// rows multiplies the rows of a panel in float32.
func (w *walker) rows(m *matrix, panel int, x []float32, n int) {
	lo, hi := m.rows(panel)
	y := w.product.Y[m.first:]
	if n == 1 && m.storage == floats && m.dtype == safetensors.BF16 {
		for r := lo; r < hi; r++ {
			y[r-lo] = kernel.DotBF16(m.raw[2*r*m.k:], x[:m.k])
		}
		return
	}
	ld := m.k + widePad
	for r := lo; r < hi; r++ {
		m.row(w.wide[(r-lo)*ld:], w.codes, r)
	}
	kernel.DotRows(y, kernel.PanelRows, w.wide, x, hi-lo, n, ld, m.k)
}

// prepare brings the rows of x that belong to this thread into the form that a pass wants.
func (w *walker) prepare(p *pass, a *acts, x []float32, n int, solo bool) {
	if p.form == asIs {
		return
	}
	lo, hi := 0, n
	if !solo {
		lo, hi = w.team.share(w.tid, n, 1)
	}
	m := p.lead
	for t := lo; t < hi; t++ {
		src := x[t*m.k : (t+1)*m.k]
		if m.order != nil {
			dst := a.floats[t*m.k : (t+1)*m.k]
			for i, c := range m.order {
				dst[i] = src[c]
			}
			src = dst
		}
		switch p.form {
		case paired:
			a.pair(m.cols, t, src)
		case blocked, rowwise:
			w.quantize(a, m.cols, p.form, t, src)
			if p.parts {
				a.sumParts(m.cols, t)
			}
		}
	}
}

// pair rounds row t to bfloat16, in the order of pairs.
func (a *acts) pair(c *columns, t int, x []float32) {
	row := a.x[t*a.stride:]
	for b, s := range c.spans {
		clear(row[2*(s.at+s.n&^3) : 2*s.end()])
		a.totals[b*a.rows+t] = kernel.RoundPairs(row[2*s.at:], x[s.lo:s.lo+s.n])
	}
}

// sumParts adds up the parts of the blocks of row t.
func (a *acts) sumParts(c *columns, t int) {
	row := kernel.Int8s(a.x[t*a.stride:])
	for b, s := range c.spans {
		at := (b*a.rows + t) * kernel.KParts
		kernel.PartSums((*[kernel.KParts]int16)(a.parts[at:]), (*[kernel.WidestBlock]int8)(row[s.at:]))
	}
}

// quantize makes the int8 form of row t.
func (w *walker) quantize(a *acts, c *columns, f form, t int, x []float32) {
	row := kernel.Int8s(a.x[t*a.stride : t*a.stride+c.padded])
	if f == blocked {
		for b, s := range c.spans {
			var sum int32
			a.scales[b*a.rows+t], sum = kernel.QuantizeInt8(row[s.at:s.at+s.n], x[s.lo:s.lo+s.n])
			a.sums[b*a.rows+t] = -sum
			clear(row[s.at+s.n : s.end()])
		}
		return
	}
	whole := w.whole[:len(x)]
	scale, _ := kernel.QuantizeInt8(whole, x)
	pad(c, row, whole)
	for b, s := range c.spans {
		var sum int32
		for _, q := range whole[s.lo : s.lo+s.n] {
			sum += int32(q)
		}
		a.scales[b*a.rows+t], a.sums[b*a.rows+t] = scale, -sum
		clear(row[s.at+s.n : s.end()])
	}
}
