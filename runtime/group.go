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
	parts  bool    // some of its matrices want sums of parts of it
	lead   *matrix // one of its matrices: its columns are those of the input
	units  []unit
	bounds []int // first unit of every thread, and the end
}

// unit is a panel to multiply; with a gate, both halves of a panel or as many rows of gate and of up.
type unit struct {
	m     *matrix
	up    *matrix // beside the gate m
	panel int
	which int // of the matrices of the group
}

// newGroup divides the products of matrices among threads by the bytes that they read.
func newGroup(mode Mode, threads int, list ...*matrix) *group {
	g := &group{}
	for i, m := range list {
		if m == nil {
			continue
		}
		p := g.pass(m, mode)
		for at := range m.panels() {
			p.units = append(p.units, unit{m: m, panel: at, which: i})
		}
	}
	g.divide(threads)
	return g
}

// newGated is newGroup for act(gate·x) ⊙ up·x; nil if the two share no panels.
func newGated(mode Mode, threads int, gate, up *matrix) *group {
	if gate.per == kernel.PanelRows {
		return nil
	}
	g := &group{gated: true}
	p := g.pass(gate, mode)
	for at := range gate.panels() {
		p.units = append(p.units, unit{m: gate, up: up, panel: at})
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
			p.parts = p.parts || m.storage == leveled
			return p
		}
	}
	g.passes = append(g.passes, pass{form: f, lead: m, parts: m.storage == leveled})
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
func (u *unit) bytes() int64 { return max(1, u.m.bytes()/int64(u.m.panels())) }
