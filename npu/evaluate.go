package npu

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"nibble/internal/kernel"
)

// Evaluation is what a scheme does to text that the ranges did not see.
type Evaluation struct {
	Prefill Fidelity `json:"prefill"`
	Decode  Fidelity `json:"decode"`
	Layers  []Loss   `json:"layers"`  // the residual stream behind every layer
	Tensors []Tensor `json:"tensors"` // every value on a grid, in the order of the graph
	Step    float32  `json:"-"`       // of the logits' grid
}

// Fidelity compares logits with those of the float graph.
type Fidelity struct {
	Tokens     int     `json:"tokens"`
	SQNR       Decibel `json:"logits_sqnr_db"`
	Error      Decibel `json:"logits_sqnr_error_db"` // standard error of SQNR, of what the sequences have in common
	Top1       float64 `json:"top1_agreement"`
	Perplexity float64 `json:"perplexity"`
	Float      float64 `json:"float_perplexity"`
	Ratio      float64 `json:"perplexity_ratio"`
}

// Top1 is the share of all tokens, of prompts and single ones, whose likeliest successor stays.
func (e *Evaluation) Top1() (share float64, tokens int) {
	tokens = e.Prefill.Tokens + e.Decode.Tokens
	same := float64(e.Prefill.Top1*float64(e.Prefill.Tokens)) + float64(e.Decode.Top1*float64(e.Decode.Tokens))
	return same / float64(max(tokens, 1)), tokens
}

// Decibel is a ratio of signal to noise; without noise it is 200 at most.
type Decibel float64

// Loss is what became of a tensor.
type Loss struct {
	Name string  `json:"name"`
	SQNR Decibel `json:"sqnr_db"`
}

// Tensor is a value of the graph with its grid.
type Tensor struct {
	Loss
	Encoding string  `json:"encoding"` // whose grid it has
	Type     string  `json:"type"`
	Scale    float32 `json:"scale"`
	Zero     int32   `json:"zero_point"`
	Lo       float32 `json:"lo"`
	Hi       float32 `json:"hi"`
	Elements int64   `json:"elements"`
	Clipped  float64 `json:"clipped"` // share of the elements that lie outside of the grid
}

// logitsMeter compares one variant with the float one.
type logitsMeter struct {
	tokens, same, scored int
	signal, noise        float64
	nll, floatNLL        float64
}

func (m *logitsMeter) add(o *logitsMeter) {
	m.tokens, m.same, m.scored = m.tokens+o.tokens, m.same+o.same, m.scored+o.scored
	m.signal, m.noise = m.signal+o.signal, m.noise+o.noise
	m.nll, m.floatNLL = m.nll+o.nll, m.floatNLL+o.floatNLL
}

// see takes the logits of a token; next is the one that came, or -1.
func (m *logitsMeter) see(float, x []float32, next int32) {
	s, n, _ := kernel.Noise(float, x)
	m.signal, m.noise, m.tokens = m.signal+s, m.noise+n, m.tokens+1
	a, b := likeliest(float), likeliest(x)
	if a == b {
		m.same++
	}
	if next >= 0 {
		m.scored++
		m.floatNLL += surprise(float, float[a], next)
		m.nll += surprise(x, x[b], next)
	}
}

func likeliest(x []float32) int {
	top := 0
	for i, v := range x {
		if v > x[top] {
			top = i
		}
	}
	return top
}

func surprise(x []float32, most float32, next int32) float64 {
	var sum float64
	for _, v := range x {
		sum += math.Exp(float64(v - most))
	}
	return math.Log(sum) - float64(x[next]-most)
}

func (m *logitsMeter) fidelity() Fidelity {
	n := float64(max(m.scored, 1))
	return Fidelity{Tokens: m.tokens, SQNR: sqnr(m.signal, m.noise), Top1: float64(m.same) / float64(max(m.tokens, 1)),
		Perplexity: math.Exp(m.nll / n), Float: math.Exp(m.floatNLL / n), Ratio: math.Exp((m.nll - m.floatNLL) / n)}
}

// uncertainty is the standard error of the ratio of several sequences together, which are taken for independent ones: the jackknife's,
// sqrt((n-1)/n·Σ(r_i − mean r)²) of the ratios r_i that are left when a sequence is left out. One sequence says nothing, and has 0.
func uncertainty(sequences []logitsMeter) Decibel {
	n := len(sequences)
	var sum, squares float64
	left := make([]float64, n)
	for i := range sequences {
		var others logitsMeter
		for j := range sequences {
			if j != i {
				others.add(&sequences[j])
			}
		}
		left[i] = float64(sqnr(others.signal, others.noise))
		sum += left[i]
	}
	for _, r := range left {
		d := r - sum/float64(n)
		squares += float64(d * d)
	}
	return Decibel(math.Sqrt(squares * float64(n-1) / float64(n)))
}

// sqnr is 10·log10(signal/noise), between -200 and 200.
func sqnr(signal, noise float64) Decibel {
	if noise == 0 {
		return 200
	}
	return Decibel(min(max(10*math.Log10(signal/noise), -200), 200))
}

// tensorMeter compares one value, and counts what its grid does not reach.
type tensorMeter struct {
	signal, noise   float64
	count, outsides int64
}

// Trace is one sequence with what the graphs make of it.
type Trace struct {
	Tokens       []int32
	Prompt       int         // tokens that ran in pieces
	Float, Codes [][]float32 // logits of every token, in float and on the grids
	Tensors      []Traced    // every tensor of codes of the first run of the prompt's graph
}

// Traced is a tensor by its name in the file.
type Traced struct {
	Name  string
	Codes []int32
}

// Test says what is measured.
type Test struct {
	Sequences [][]int32
	Decode    int // tokens at the end of each that run one by one
	Threads   int
	Trace     *Trace // filled with the first sequence; may be nil
	Progress  func(done, all int)
}

// tester runs a test.
type tester struct {
	*Test
	q      *Quantizer
	others []*Quantizer // beside it, of which only logits are looked at
	logits [][]logitsMeter
	seen   [][]tensorMeter // [lane][value]
}

// Evaluate runs sequences through the prefill graph and, at their ends, the decode graph, in float and as files would be.
func (t *Test) Evaluate(ctx context.Context, m *Model, o Options, q *Quantizer) (*Evaluation, error) {
	x := &tester{Test: t, q: q}
	e := &Evaluation{}
	lanes, err := x.lanes(m)
	if err != nil {
		return nil, err
	}
	sums := map[string]*tensorMeter{}
	var order []*value
	for _, part := range []struct {
		tokens   int
		fidelity *Fidelity
	}{{o.Prefill, &e.Prefill}, {1, &e.Decode}} {
		g := newGraph(m, "evaluation", o, part.tokens)
		meters, err := x.run(ctx, g, lanes)
		if err != nil {
			return nil, err
		}
		*part.fidelity = meters[0].fidelity()
		var sequences []logitsMeter
		for _, lane := range x.logits {
			sequences = append(sequences, lane[0])
		}
		part.fidelity.Error = uncertainty(sequences)
		order = x.collect(g, sums, order)
	}
	for _, v := range order {
		e.Tensors = append(e.Tensors, x.tensor(v, sums[v.Name]))
		if v.Out == "logits" {
			e.Step = q.encoding(v).Scale
		}
		if strings.HasSuffix(v.Name, "mlp_residual") {
			e.Layers = append(e.Layers, e.Tensors[len(e.Tensors)-1].Loss)
		}
	}
	return e, nil
}

// lanes makes the sequences' lanes.
func (x *tester) lanes(m *Model) ([]*lane, error) {
	var list []*lane
	for i, ids := range x.Sequences {
		if len(ids) <= x.Decode {
			return nil, fmt.Errorf("npu: a sequence of %d tokens, %d of which are to run one by one", len(ids), x.Decode)
		}
		list = append(list, newLane(m, i, ids, 2+len(x.others)))
	}
	return list, nil
}

// run takes all lanes through a graph: through the prompt, or through what comes behind.
func (x *tester) run(ctx context.Context, g *graph, lanes []*lane) ([]logitsMeter, error) {
	x.logits, x.seen = make([][]logitsMeter, len(lanes)), make([][]tensorMeter, len(lanes))
	for i, l := range lanes {
		all := func(int) bool { return true }
		if n := len(l.ids) - x.Decode; g.Tokens > 1 {
			l.plan(0, n, g.Tokens, all)
		} else {
			l.plan(n, len(l.ids), 1, all)
		}
		x.logits[i], x.seen[i] = make([]logitsMeter, 1+len(x.others)), make([]tensorMeter, len(g.values))
	}
	p := &pass{ctx: ctx, graph: g, lanes: lanes, variants: append([]*Quantizer{nil, x.q}, x.others...), threads: x.Threads,
		ordered: x.others == nil, hidden: x.q.Hidden, progress: x.Progress}
	p.look = func(l *lane, c int, v *value) { x.look(g, l, c, v) }
	if err := p.run(); err != nil {
		return nil, err
	}
	sums := make([]logitsMeter, 1+len(x.others))
	for _, lane := range x.logits {
		for i := range lane {
			sums[i].add(&lane[i])
		}
	}
	return sums, nil
}

// look compares a value.
func (x *tester) look(g *graph, l *lane, c int, v *value) {
	float := l.values[c][0][v.ID]
	if v.Out == "logits" {
		vocab := g.Model.Vocab
		for t := range g.Tokens {
			next := int32(-1)
			if at := l.base[c] + t + 1; at < len(l.ids) {
				next = l.ids[at]
			}
			row := float[t*vocab : (t+1)*vocab]
			for i := range x.logits[l.index] {
				x.logits[l.index][i].see(row, l.values[c][1+i][v.ID][t*vocab:(t+1)*vocab], next)
			}
			if x.Trace != nil && l.index == 0 {
				x.Trace.Float = append(x.Trace.Float, slices.Clone(row))
				x.Trace.Codes = append(x.Trace.Codes, slices.Clone(l.values[c][1][v.ID][t*vocab:(t+1)*vocab]))
			}
		}
	}
	if x.others != nil || v.Enc == "" {
		return
	}
	if x.Trace != nil && l.index == 0 && l.base[c] == 0 {
		e, codes := x.q.encoding(v), make([]int32, len(float))
		for i, f := range l.values[c][1][v.ID] {
			codes[i] = e.Code(f)
		}
		x.Trace.Tensors = append(x.Trace.Tensors, Traced{codeName(v), codes})
	}
	m := &x.seen[l.index][v.ID]
	m.count += int64(len(float))
	if !isMasked(v) {
		s, n, _ := kernel.Noise(float, l.values[c][1][v.ID])
		m.signal, m.noise = m.signal+s, m.noise+n
	}
	if v.Class != byRange && v.Class != cached {
		return
	}
	e := x.q.encoding(v)
	lo, hi := e.Range()
	lo, hi = lo-float32(e.Scale/2), hi+float32(e.Scale/2)
	if isMasked(v) {
		lo = float32(math.Inf(-1))
	}
	for _, f := range float {
		if f < lo || f > hi {
			m.outsides++
		}
	}
}

// collect adds what all lanes saw of a graph's values, and keeps the order of the graph.
func (x *tester) collect(g *graph, sums map[string]*tensorMeter, order []*value) []*value {
	moved := map[*value]bool{}
	for _, n := range g.Nodes {
		moved[n.Out] = moves(n) && n.Out.Out == ""
	}
	for _, v := range g.values {
		if v.Enc == "" || v.Kind == weight || v.Kind == constant || moved[v] {
			continue
		}
		sum := sums[v.Name]
		if sum == nil {
			sum = &tensorMeter{}
			sums[v.Name] = sum
			order = append(order, v)
		}
		for _, lane := range x.seen {
			m := &lane[v.ID]
			sum.signal, sum.noise = sum.signal+m.signal, sum.noise+m.noise
			sum.count, sum.outsides = sum.count+m.count, sum.outsides+m.outsides
		}
	}
	return order
}

// tensor states what was seen.
func (x *tester) tensor(v *value, m *tensorMeter) Tensor {
	e := x.q.encoding(v)
	lo, hi := e.Range()
	return Tensor{Loss: Loss{v.Name, sqnr(m.signal, m.noise)}, Encoding: v.Enc, Type: e.Type.String(), Scale: e.Scale, Zero: e.Zero,
		Lo: lo, Hi: hi, Elements: m.count, Clipped: float64(m.outsides) / float64(max(m.count, 1))}
}
