package npu

import (
	"context"
	"slices"

	"nibble/internal/parallel"
)

// A pass runs a graph over sequences, several variants of each beside one another: in float, and on the grids of a scheme.
// It goes through the nodes once. A product with a weight is computed for all tokens of all sequences while a strip of rows
// of the weight is in memory, so that memory does not grow with the model; what is between two such products runs token by
// token, since later tokens need the keys of earlier ones.
type pass struct {
	ctx      context.Context
	graph    *graph
	lanes    []*lane
	variants []*Quantizer // nil for float
	threads  int
	ordered  bool                           // variants on grids are computed inOrder
	hidden   float32                        // what the mask has for keys that are not seen
	look     func(l *lane, c int, v *value) // called when all variants of a value are there; may be nil
	progress func(done, all int)
	inputs   func(n *node, x []float32, rows int) error // called with the inputs of the first variant of every product with a weight; may be nil

	last []int // node that uses a value last
	head int   // the first product of the head
}

// lane is a sequence.
type lane struct {
	index  int
	ids    []int32
	caches []*cache // of every variant

	base   []int  // first position of every run of the graph
	wanted []bool // runs of which logits are wanted

	values [][][][]float32 // [run][variant][value]
}

// newLane starts a sequence.
func newLane(m *Model, index int, ids []int32, variants int) *lane {
	l := &lane{index: index, ids: ids}
	for range variants {
		l.caches = append(l.caches, newCache(m))
	}
	return l
}

// plan says which tokens run next: from to to, tokens at a time.
func (l *lane) plan(from, to, tokens int, wanted func(run int) bool) {
	l.base, l.wanted = nil, nil
	for at := from; at+tokens <= to; at += tokens {
		l.base, l.wanted = append(l.base, at), append(l.wanted, wanted(len(l.base)))
	}
}

// run goes through the graph.
func (p *pass) run() error {
	g := p.graph
	p.last = make([]int, len(g.values))
	for i, n := range g.Nodes {
		for _, v := range n.In {
			p.last[v.ID] = i
		}
	}
	p.head = slices.IndexFunc(g.Nodes, func(n *node) bool { return weighted(n) && n.In[1].Param.Output })
	for _, l := range p.lanes {
		l.values = make([][][][]float32, len(l.base))
		for c := range l.base {
			l.values[c] = make([][][]float32, len(p.variants))
			for v := range p.variants {
				l.values[c][v] = make([][]float32, len(g.values))
			}
		}
	}
	for i := 0; i < len(g.Nodes); {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		if p.progress != nil {
			p.progress(i, len(g.Nodes))
		}
		if weighted(g.Nodes[i]) {
			if err := p.product(i); err != nil {
				return err
			}
			i++
			continue
		}
		end := i + 1
		for end < len(g.Nodes) && !weighted(g.Nodes[end]) {
			end++
		}
		if err := p.between(i, end); err != nil {
			return err
		}
		i = end
	}
	for _, l := range p.lanes {
		l.values = nil
	}
	return nil
}

// weighted reports whether a node is a product with a weight.
func weighted(n *node) bool { return len(n.In) > 1 && n.In[1].Kind == weight }

// runs reports whether a node runs for a lane: the head and what is behind it only where logits are wanted.
func (p *pass) runs(l *lane, c, at int) bool { return at < p.head || l.wanted[c] }

// between runs nodes from to end that have no weights, every lane in order, lanes side by side.
func (p *pass) between(from, end int) error {
	return parallel.Each(p.ctx, len(p.lanes), p.threads, func(i int) error {
		l := p.lanes[i]
		for c := range l.base {
			for at := from; at < end; at++ {
				if p.runs(l, c, at) {
					if err := p.step(l, c, at); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

// step runs one node for one run of a lane.
func (p *pass) step(l *lane, c, at int) error {
	n := p.graph.Nodes[at]
	for v := range p.variants {
		in := make([][]float32, len(n.In))
		for i, x := range n.In {
			var err error
			if in[i], err = p.value(l, c, v, x); err != nil {
				return err
			}
		}
		var dst []float32
		switch {
		case n.Op == "Reshape":
			dst = in[0]
		case n.Op == "Gather":
			dst = make([]float32, n.Out.elements())
			if err := p.graph.Model.lookUp(dst, l.tokens(p.graph, c)); err != nil {
				return err
			}
		default:
			dst = make([]float32, n.Out.elements())
			compute(n, dst, in, p.arithmetic(v))
		}
		p.finish(l, c, v, n, dst)
	}
	p.done(l, c, at)
	return nil
}

// arithmetic is that of a variant.
func (p *pass) arithmetic(v int) arithmetic {
	switch {
	case p.variants[v] == nil:
		return inFloat
	case p.ordered:
		return inOrder
	}
	return onGrids
}

// tokens are those of a run.
func (l *lane) tokens(g *graph, c int) []int32 { return l.ids[l.base[c] : l.base[c]+g.Tokens] }

// value returns an input of a node.
func (p *pass) value(l *lane, c, v int, x *value) ([]float32, error) {
	q := p.variants[v]
	switch {
	case x.Kind == constant:
		if q == nil {
			return x.Param.Values, nil
		}
		return q.constant(x), nil
	case x.Kind == fed && x.Class != plain && l.values[c][v][x.ID] == nil:
		d, err := p.graph.feed(x, l.tokens(p.graph, c), l.base[c], l.caches[v], p.hidden)
		if err != nil {
			return nil, err
		}
		if q != nil && x.Class != cached { // the cache has what was rounded already
			q.round(x, d)
		}
		l.values[c][v][x.ID] = d
		if p.look != nil && v == len(p.variants)-1 && x.Class != cached {
			p.look(l, c, x)
		}
	}
	return l.values[c][v][x.ID], nil
}

// finish puts a computed value on its grid and in its place.
func (p *pass) finish(l *lane, c, v int, n *node, dst []float32) {
	if q := p.variants[v]; q != nil && !moves(n) {
		q.round(n.Out, dst)
	}
	l.values[c][v][n.Out.ID] = dst
	if n.Out.Out != "" && n.Out.Class == cached {
		l.caches[v].append(n.Out, dst)
	}
}

// moves reports whether a node leaves the values of one grid as they are.
func moves(n *node) bool {
	switch n.Op {
	case "Reshape", "Transpose", "Concat":
		return true
	case "Slice":
		return n.Out.Enc == n.In[0].Enc
	}
	return false
}

// done lets others see a value, and drops what nobody needs any more.
func (p *pass) done(l *lane, c, at int) {
	n := p.graph.Nodes[at]
	if p.look != nil {
		p.look(l, c, n.Out)
	}
	for v := range p.variants {
		for _, x := range n.In {
			if p.last[x.ID] == at {
				l.values[c][v][x.ID] = nil
			}
		}
		if p.last[n.Out.ID] == 0 {
			l.values[c][v][n.Out.ID] = nil
		}
	}
}

// product runs a node with a weight for everything.
func (p *pass) product(at int) error {
	n := p.graph.Nodes[at]
	w := n.In[1].Param
	k, cols := w.from.k, w.from.n
	if p.inputs != nil {
		if err := p.give(n); err != nil {
			return err
		}
	}
	type run struct {
		l *lane
		c int
	}
	var runs []run
	for _, l := range p.lanes {
		for c := range l.base {
			if p.runs(l, c, at) {
				runs = append(runs, run{l, c})
			}
		}
	}
	s := p.graph.Tokens
	conv := n.Op == "Conv" && s > 1
	rows := len(runs) * s
	if rows == 0 {
		return nil
	}
	xs, ys := make([][]float32, len(p.variants)), make([][]float32, len(p.variants))
	for v := range p.variants {
		xs[v], ys[v] = make([]float32, rows*k), make([]float32, rows*cols)
		for i, r := range runs {
			x, err := p.value(r.l, r.c, v, n.In[0])
			if err != nil {
				return err
			}
			if conv { // [1, k, 1, s]
				turn(xs[v][i*s*k:], x, k, s)
			} else {
				copy(xs[v][i*s*k:], x)
			}
		}
	}
	if err := p.strips(n, xs, ys, rows); err != nil {
		return err
	}
	err := parallel.Each(p.ctx, len(p.lanes), p.threads, func(lane int) error {
		for i, r := range runs {
			if r.l != p.lanes[lane] {
				continue
			}
			for v := range p.variants {
				y := ys[v][i*s*cols : (i+1)*s*cols : (i+1)*s*cols]
				if conv {
					t := make([]float32, len(y))
					turn(t, y, s, cols)
					y = t
				}
				p.finish(r.l, r.c, v, n, y)
			}
			p.done(r.l, r.c, at)
		}
		return nil
	})
	return err
}

// give collects the inputs of a product for all tokens, those whose logits nobody wants too.
func (p *pass) give(n *node) error {
	var all []float32
	for _, l := range p.lanes {
		for c := range l.base {
			x, err := p.value(l, c, 0, n.In[0])
			if err != nil {
				return err
			}
			if n.Op == "Conv" { // [1, k, 1, s]
				rows := make([]float32, len(x))
				turn(rows, x, n.In[1].Param.from.k, p.graph.Tokens)
				x = rows
			}
			all = append(all, x...)
		}
	}
	return p.inputs(n, all, len(all)/n.In[1].Param.from.k)
}

// turn sets dst [cols, rows] to the transpose of x [rows, cols].
func turn(dst, x []float32, rows, cols int) {
	for r := range rows {
		for c := range cols {
			dst[c*rows+r] = x[r*cols+c]
		}
	}
}
