package runtime

import "nibble/internal/kernel"

// group is matrices that multiply the same input in one pass.
type group struct {
	passes    []pass
	gated     bool // units are of two matrices, gate and up, whose results become one
	activated bool // results go through the activation
}

// pass is the part of a group that takes its input in the same form.
type pass struct {
	form   form
	lead   *matrix // one of its matrices: its columns are those of the input
	units  []unit
	bounds []int // first unit of every thread, and the end
}

// unit is two panels that are multiplied together: neighbours in a matrix, the second the first again at an odd end, or the
// same panel of gate and up.
type unit struct {
	a, b   *matrix
	pa, pb int
	which  int // of the matrices of the group
}

// newGroup divides the products of matrices among threads by the bytes that they read.
func newGroup(mode Mode, threads int, list ...*matrix) *group {
	g := &group{}
	for i, m := range list {
		if m == nil {
			continue
		}
		p := g.pass(m, mode)
		count := panelCount(m.n)
		for at := 0; at < count; at += 2 {
			p.units = append(p.units, unit{m, m, at, min(at+1, count-1), i})
		}
	}
	g.divide(threads)
	return g
}

// newGated is newGroup for act(gate·x) ⊙ up·x; nil if the two are not kept alike.
func newGated(mode Mode, threads int, gate, up *matrix) *group {
	if !gate.alike(up) || gate.form(mode) != up.form(mode) {
		return nil
	}
	g := &group{gated: true}
	p := g.pass(gate, mode)
	for at := range panelCount(gate.n) {
		p.units = append(p.units, unit{gate, up, at, at, 0})
	}
	g.divide(threads)
	return g
}

// pass returns the pass that a matrix belongs to.
func (g *group) pass(m *matrix, mode Mode) *pass {
	f := m.form(mode)
	for i := range g.passes {
		p := &g.passes[i]
		if p.form == f && p.lead.cols == m.cols && p.lead.order == nil && m.order == nil {
			return p
		}
	}
	g.passes = append(g.passes, pass{form: f, lead: m})
	return &g.passes[len(g.passes)-1]
}

// divide gives every thread a run of units.
func (g *group) divide(threads int) {
	for i := range g.passes {
		p := &g.passes[i]
		var all, sum int64
		for _, u := range p.units {
			all += u.bytes()
		}
		p.bounds = append(p.bounds[:0], 0)
		for j, u := range p.units {
			for sum*int64(threads) >= all*int64(len(p.bounds)) {
				p.bounds = append(p.bounds, j)
			}
			sum += u.bytes()
		}
		for len(p.bounds) <= threads {
			p.bounds = append(p.bounds, len(p.units))
		}
	}
}

// bytes is about what a unit reads.
func (u *unit) bytes() int64 {
	per := func(m *matrix) int64 { return m.bytes() / int64(panelCount(m.n)) }
	if u.a == u.b && u.pa == u.pb {
		return per(u.a)
	}
	return per(u.a) + per(u.b)
}

// rows returns the rows of a panel of a matrix.
func (m *matrix) rows(panel int) (lo, hi int) {
	return panel * kernel.PanelRows, min((panel+1)*kernel.PanelRows, m.n)
}
