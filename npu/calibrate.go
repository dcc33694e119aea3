package npu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
)

// Calibration is how ranges are found.
type Calibration struct {
	RangeRule
	Feedback bool // weights are rounded with error feedback, for which a byte a weight is kept
	Threads  int
	Progress func(done, all int)
}

// headTokens is the most tokens of which the logits are looked at, since they are the largest tensor by far.
const headTokens = 256

// pieces is how a calibration sequence is cut: keys of all pieces before are in the cache of a piece.
const pieces = 64

// Calibrate runs sequences through the model in float and returns the grids of all activations of the graphs. It adds to the
// options which norms need their epsilon.
func Calibrate(ctx context.Context, m *Model, o *Options, s Scheme, sequences [][]int32, c Calibration) (*Quantizer, error) {
	q := &Quantizer{Scheme: s, Encodings: map[string]Encoding{}, rounded: map[rounding]*rounded{}}
	ranges, err := c.observe(ctx, m, o, q, sequences)
	if err != nil {
		return nil, err
	}
	g := newGraph(m, "ranges", *o, 1)
	for _, n := range g.Nodes {
		for _, v := range n.In {
			if v.Kind == constant && v.Enc != v.Name { // it has to fit the grid of others
				ranges[v.Enc].see(v.Param.Values, float32(math.Inf(-1)))
			}
		}
	}
	for _, v := range g.values {
		if v.Enc == "" || v.Kind == constant || v.Kind == weight || v.Class == unitGrid || v.Class == shareGrid || v.Class == signedGrid {
			continue
		}
		if _, done := q.Encodings[v.Enc]; done && !isMasked(v) {
			continue
		}
		r := ranges[v.Enc]
		if r == nil || r.Count == 0 {
			r = &observed{} // a mask, the angles: set below
		}
		d := s.act()
		if v.Class == cached {
			d = s.kv(v.Layer)
			lo, hi := c.choose(r, d)
			q.Encodings[v.Enc] = Symmetric(d, max(-lo, hi))
			continue
		}
		lo, hi := c.choose(r, d)
		if isMasked(v) {
			lo -= maskMargin
		}
		q.Encodings[v.Enc] = Asymmetric(d, lo, hi)
	}
	return q, q.fed(m, g)
}

// fed sets the grids of what the host makes, and what the mask has to be.
func (q *Quantizer) fed(m *Model, g *graph) error {
	lo, hi, err := m.embedRange()
	if err != nil {
		return err
	}
	q.Encodings["input_embeds"] = Asymmetric(q.act(), lo, hi)
	widest := float32(0)
	for _, v := range g.values {
		if isMasked(v) {
			lo, hi := q.Encodings[v.Enc].Range()
			widest = max(widest, hi-lo)
		}
	}
	q.Hidden = -max(50, float32(math.Ceil(float64(widest)/10)*10))
	for _, v := range g.Inputs {
		if v.Class == byRange && v.Name != "input_embeds" {
			q.Encodings[v.Name] = Asymmetric(q.act(), float64(q.Hidden), 0)
		}
	}
	for i, r := range m.ropes {
		_, factor := r.InvFreq(g.Context)
		cos, sin := g.angleNames(i)
		for _, name := range []string{cos, sin} {
			q.Encodings[name] = Symmetric(q.act(), float64(factor))
		}
	}
	return nil
}

// embedRange is that of all rows, not only of those that the text has.
func (m *Model) embedRange() (lo, hi float64, err error) {
	p := &param{from: matrix{t: m.embed, n: m.Vocab, k: m.Hidden}, Fold: m.EmbedScale}
	x := make([]float32, stripRows*m.Hidden)
	for row := 0; row < m.Vocab; row += stripRows {
		n := min(stripRows, m.Vocab-row)
		if err := m.rows(p, x, m.Hidden, row, n); err != nil {
			return 0, 0, err
		}
		a, b := extremes(x[:n*m.Hidden])
		lo, hi = min(lo, a), max(hi, b)
	}
	return lo, hi, nil
}

// leastLength is the square of the length that a normed vector must have, for the epsilon not to matter: it costs -55 dB.
const leastLength = 1 - 0.0036

// shrunk reports whether the epsilon made a vector of n elements clearly shorter than 1.
func shrunk(x []float32, n int) bool {
	for ; len(x) > 0; x = x[n:] {
		var sum float64
		for _, v := range x[:n] {
			sum += float64(float64(v) * float64(v))
		}
		if sum < leastLength {
			return true
		}
	}
	return false
}

// observe returns the ranges of all tensors by their encodings.
func (c *Calibration) observe(ctx context.Context, m *Model, options *Options, q *Quantizer, sequences [][]int32) (map[string]*observed, error) {
	piece := pieces
	for _, ids := range sequences {
		piece = min(piece, len(ids))
	}
	if piece < 1 {
		return nil, errors.New("npu: no tokens to calibrate with")
	}
	o := *options
	o.Context, o.Exact = 0, nil
	for _, ids := range sequences {
		o.Context = max(o.Context, len(ids)/piece*piece)
	}
	g := newGraph(m, "calibration", o, piece)
	g.length = options.Context
	p := &pass{ctx: ctx, graph: g, variants: []*Quantizer{nil}, threads: c.Threads, hidden: farBelow, progress: c.Progress}
	if c.Feedback {
		f := &feedback{model: m, scheme: &q.Scheme, threads: c.Threads, made: q.rounded}
		p.inputs = f.take
	}
	seen, shrinks := make([][]*observed, len(sequences)), make([]map[string]bool, len(sequences))
	left := headTokens
	for i, ids := range sequences {
		l := newLane(m, i, ids, 1)
		runs := len(ids) / piece
		l.plan(0, len(ids), piece, func(run int) bool {
			want := run == runs-1 && left >= piece
			if want {
				left -= piece
			}
			return want
		})
		p.lanes = append(p.lanes, l)
		seen[i], shrinks[i] = make([]*observed, len(g.values)), map[string]bool{}
	}
	p.look = func(l *lane, run int, v *value) {
		r := seen[l.index][v.ID]
		if r == nil {
			r = &observed{}
			if c.histogram() {
				r.counts = make([]int64, bins)
				r.exponent = -20
			}
			seen[l.index][v.ID] = r
		}
		if norm, ok := strings.CutSuffix(v.Name, ".unit"); ok && shrunk(l.values[run][0][v.ID], v.Shape[len(v.Shape)-1]) {
			shrinks[l.index][norm] = true
		}
		floor := float32(math.Inf(-1))
		if isMasked(v) {
			floor = farBelow / 2
		}
		r.see(l.values[run][0][v.ID], floor)
	}
	if err := p.run(); err != nil {
		return nil, err
	}
	options.Exact = map[string]bool{}
	for _, list := range shrinks {
		maps.Copy(options.Exact, list)
	}
	all := map[string]*observed{}
	for _, list := range seen {
		for id, r := range list {
			if r == nil {
				continue
			}
			if math.IsNaN(r.Hi-r.Lo) || math.IsInf(r.Hi-r.Lo, 0) {
				return nil, fmt.Errorf("npu: %s is not finite: weights or config make numbers that no grid holds", g.values[id].Name)
			}
			enc := g.values[id].Enc
			if all[enc] == nil {
				all[enc] = r
			} else {
				all[enc].merge(r)
			}
		}
	}
	return all, nil
}
