package fidelity

import (
	"context"
	"errors"
	"fmt"
	"math"

	"nibble/runtime"
)

// Comparison is what a build lost against its reference. Positions are scored as the conventions "all", "second-half" or "strided" do.
type Comparison struct {
	Scoring   string `json:"scoring"`
	Windows   int    `json:"windows"`
	Positions int    `json:"positions"`

	KLMean     float64  `json:"kl_mean"`
	KLMeanCI   Interval `json:"kl_mean_ci"`
	KLMedian   float64  `json:"kl_median"`
	KLMedianCI Interval `json:"kl_median_ci"`
	KLP99      float64  `json:"kl_p99"`
	KLP99CI    Interval `json:"kl_p99_ci"`

	Reference   float64  `json:"ppl_reference"`
	ReferenceCI Interval `json:"ppl_reference_ci"`
	Build       float64  `json:"ppl_build"`
	BuildCI     Interval `json:"ppl_build_ci"`
	Ratio       float64  `json:"ppl_ratio"`
	RatioCI     Interval `json:"ppl_ratio_ci"`

	Top1   float64  `json:"top1"` // share of positions
	Top1CI Interval `json:"top1_ci"`

	*Greedy // nil: not measured
}

// Delta is how far the ratio of the perplexities is from 1.
func (c *Comparison) Delta() float64 { return math.Abs(c.Ratio - 1) }

// Compatible refuses models whose distributions cannot be compared.
func Compatible(reference, build *runtime.Model) error {
	if r, b := reference.Width(), build.Width(); r != b {
		return fmt.Errorf("fidelity: the reference has %d logits a token, the build %d: they have different vocabularies", r, b)
	}
	return nil
}

// Compare runs the text through both models in lockstep.
func Compare(ctx context.Context, reference, build *runtime.Model, text []int32, o Options) (*Comparison, error) {
	list, err := CompareAll(ctx, reference, []*runtime.Model{build}, text, o)
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// CompareAll runs the text through the reference once, and in lockstep through all builds. Each comparison is what Compare returns.
func CompareAll(ctx context.Context, reference *runtime.Model, builds []*runtime.Model, text []int32, o Options) ([]*Comparison, error) {
	if o.SecondHalf && o.overlaps() {
		return nil, errors.New("fidelity: the second half of windows is scored where they do not overlap: leave the stride out")
	}
	for _, b := range builds {
		if err := Compatible(reference, b); err != nil {
			return nil, err
		}
	}
	windows, err := o.windows(text, reference.Width())
	if err != nil {
		return nil, err
	}
	l, err := newLockstep(reference, builds, o)
	if err != nil {
		return nil, err
	}
	for i, w := range windows {
		if o.SecondHalf {
			w.First = o.Context / 2
		}
		if err := l.window(ctx, w, text, o.Front); err != nil {
			return nil, err
		}
		o.report(i+1, len(windows))
	}
	var list []*Comparison
	for _, p := range l.pairs {
		c := p.comparison()
		c.Scoring, c.Windows = "all", len(windows)
		switch {
		case o.SecondHalf:
			c.Scoring = "second-half"
		case o.overlaps():
			c.Scoring = "strided"
		}
		list = append(list, c)
	}
	return list, nil
}

// lockstep runs a reference and builds side by side.
type lockstep struct {
	reference *runtime.Model
	session   *runtime.Session // of the reference
	logits    []float32        // [chunk, vocab] of the reference
	chunk     int
	tokens    []int32
	start     int // of the window in the text
	pairs     []*pair
}

// pair is the reference and a build.
type pair struct {
	*lockstep
	build  *runtime.Model
	ofNew  *runtime.Session
	kept   *batch // of the build
	scored func(Position)

	ends                                   []int // of the windows
	kl, referenceNLL, buildNLL, difference []float64
	same                                   []float64 // 1 where the likeliest token is the same
}

const (
	maxChunk  = 128
	maxLogits = 64 << 20 / 4 // float32 values that the buffer may have
)

func newLockstep(reference *runtime.Model, builds []*runtime.Model, o Options) (l *lockstep, err error) {
	width := reference.Width()
	l = &lockstep{reference: reference, chunk: max(min(maxChunk, maxLogits/width), 1)}
	l.logits = make([]float32, l.chunk*width)
	if l.session, err = reference.NewSession(o.Context, runtime.KVF32); err != nil {
		return nil, err
	}
	for i, b := range builds {
		p := &pair{lockstep: l, build: b, kept: newBatch(b.Threads(), width)}
		if o.Scored != nil {
			p.scored = func(x Position) { o.Scored(i, x) }
		}
		if p.ofNew, err = b.NewSession(o.Context, o.KV); err != nil {
			return nil, err
		}
		l.pairs = append(l.pairs, p)
	}
	return l, nil
}

// window adds the positions of one window.
func (l *lockstep) window(ctx context.Context, w Window, text, front []int32) error {
	l.session.Reset()
	for _, p := range l.pairs {
		p.ofNew.Reset()
	}
	l.tokens, l.start = w.tokens(l.tokens, text, front), w.Start
	first := max(w.First, len(front))
	for at := 0; at < len(l.tokens); at += l.chunk {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := l.step(ctx, at, min(at+l.chunk, len(l.tokens)), first); err != nil {
			return err
		}
	}
	for _, p := range l.pairs {
		p.ends = append(p.ends, len(p.kl))
	}
	return nil
}

// step runs the tokens [lo, hi) of the window through all models.
func (l *lockstep) step(ctx context.Context, lo, hi, first int) error {
	width := l.reference.Width()
	run := func(m *runtime.Model, s *runtime.Session, emit runtime.Emit) error {
		return m.ForwardContext(ctx, []runtime.Input{{Session: s, Tokens: l.tokens[lo:hi], All: true}}, emit)
	}
	err := run(l.reference, l.session, func(_, i int, logits []float32) { copy(l.logits[i*width:], logits) })
	if err != nil {
		return err
	}
	for _, p := range l.pairs {
		var bad error
		err = run(p.build, p.ofNew, func(_, i int, logits []float32) {
			if target := lo + i + 1; bad == nil && target >= first && target < len(l.tokens) && p.kept.add(i, logits) {
				bad = p.measure(lo)
			}
		})
		if err = errors.Join(err, bad); err != nil {
			return err
		}
		if err := p.measure(lo); err != nil {
			return err
		}
	}
	return nil
}

// measure adds the positions that are kept, counted from lo in the window.
func (p *pair) measure(lo int) error {
	var rows [batchRows]struct {
		kl, reference, build float64
		likeliest            [2]int
	}
	positions, err := p.kept.empty(func(i int, scratch []float64) error {
		at := p.kept.positions[i]
		token := p.tokens[lo+at+1]
		b, err := normalize(p.kept.row(i), scratch)
		if err != nil {
			return fmt.Errorf("%w (the build)", err)
		}
		r, err := normalize(p.logits[at*p.kept.width:(at+1)*p.kept.width], scratch) // the powers of b are not needed any more
		if err != nil {
			return fmt.Errorf("%w (the reference)", err)
		}
		x := &rows[i]
		x.kl, x.reference, x.build, x.likeliest = r.divergence(&b), r.surprise(token), b.surprise(token), [2]int{r.top, b.top}
		return nil
	})
	for i, at := range positions {
		x := &rows[i]
		same := 0.0
		if x.likeliest[0] == x.likeliest[1] {
			same = 1
		}
		p.kl, p.same = append(p.kl, x.kl), append(p.same, same)
		p.referenceNLL, p.buildNLL = append(p.referenceNLL, x.reference), append(p.buildNLL, x.build)
		p.difference = append(p.difference, x.build-x.reference)
		if target := lo + at + 1; p.scored != nil {
			p.scored(Position{p.start + target, target, p.tokens[target], x.kl, x.reference, x.build, x.likeliest})
		}
	}
	return err
}

// comparison sums up.
func (p *pair) comparison() *Comparison {
	c := newClusters(p.ends)
	ranked := c.rank(p.kl)
	fractions := []float64{0.5, 0.99}
	var sums [5][]float64
	for i, values := range [][]float64{p.kl, p.referenceNLL, p.buildNLL, p.difference, p.same} {
		sums[i] = c.sums(values)
	}
	x := c.bootstrap(7, func(weights []int, out []float64) {
		out[0] = c.mean(weights, sums[0])
		ranked.quantiles(out[1:3], fractions, weights)
		out[3] = exp(c.mean(weights, sums[1]))
		out[4] = exp(c.mean(weights, sums[2]))
		out[5] = exp(c.mean(weights, sums[3]))
		out[6] = c.mean(weights, sums[4])
	})
	return &Comparison{
		Positions: len(p.kl),
		KLMean:    mean(p.kl), KLMeanCI: x[0],
		KLMedian: quantile(ranked.values, fractions[0]), KLMedianCI: x[1],
		KLP99: quantile(ranked.values, fractions[1]), KLP99CI: x[2],
		Reference: exp(mean(p.referenceNLL)), ReferenceCI: x[3],
		Build: exp(mean(p.buildNLL)), BuildCI: x[4],
		Ratio: exp(mean(p.difference)), RatioCI: x[5],
		Top1: mean(p.same), Top1CI: x[6],
	}
}
