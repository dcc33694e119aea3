package fidelity

import (
	"context"
	"fmt"
	"math"

	"nibble/runtime"
)

// Options say how a text is run.
type Options struct {
	Context    int        // tokens of a window
	Stride     int        // from window to window; 0: Context
	MaxWindows int        // take the first ones only; 0: all
	SecondHalf bool       // in a comparison score the second half of every window only; windows must not overlap
	Front      []int32    // the tokens with which the tokenizer begins every text
	KV         runtime.KV // cache of the model; in a comparison of the build, the reference keeps float32

	Progress func(done, windows int) // called after every window; may be nil

	// Scored is called for every position of a comparison with the number of the build, for each in the order of the text. It may be nil.
	Scored func(build int, p Position)
}

// Position is what a comparison finds out about one scored token.
type Position struct {
	Text, Window     int // where the token is: in the text, and in its window
	Token            int32
	KL               float64
	Reference, Build float64 // −ln p(token)
	Likeliest        [2]int  // what the reference and the build expected
}

// windows cuts a text as the options say, and refuses tokens that a model with vocab logits does not have.
func (o *Options) windows(text []int32, vocab int) ([]Window, error) {
	if len(o.Front) >= max(o.Context, 1) {
		return nil, fmt.Errorf("fidelity: a context of %d: the tokenizer begins every text with %d tokens of its own; take a longer context",
			o.Context, len(o.Front))
	}
	for i, id := range text {
		if id < 0 || int(id) >= vocab {
			return nil, fmt.Errorf("fidelity: token %d at position %d of the text: the model has %d", id, i, vocab)
		}
	}
	list, err := Windows(len(text), o.Context, o.Stride)
	if err == nil && o.MaxWindows > 0 {
		list = list[:min(len(list), o.MaxWindows)]
	}
	return list, err
}

func (o *Options) report(done, windows int) {
	if o.Progress != nil {
		o.Progress(done, windows)
	}
}

// overlaps reports whether windows do.
func (o *Options) overlaps() bool { return o.Stride > 0 && o.Stride < o.Context }

// Score is a perplexity under one convention.
type Score struct {
	Scoring      string   `json:"scoring"` // "second-half", "all" or "strided"
	Scored       int      `json:"scored"`  // positions
	NLL          float64  `json:"nll"`
	Stderr       float64  `json:"nll_stderr"`        // windows as clusters
	StderrTokens float64  `json:"nll_stderr_tokens"` // as if tokens were independent
	Perplexity   float64  `json:"perplexity"`
	PPLStderr    float64  `json:"perplexity_stderr"` // Perplexity·Stderr
	CI           Interval `json:"perplexity_ci"`
}

// series collects the score of every position.
type series struct {
	values []float64
	ends   []int // of the windows
}

func (s *series) endWindow() { s.ends = append(s.ends, len(s.values)) }

func (s *series) score(scoring string) *Score {
	c := newClusters(s.ends)
	sums := c.sums(s.values)
	x := &Score{Scoring: scoring, Scored: len(s.values), NLL: mean(s.values)}
	x.Stderr, x.StderrTokens = standardErrors(s.values, c)
	x.Perplexity = exp(x.NLL)
	x.PPLStderr = min(x.Perplexity*x.Stderr, math.MaxFloat64)
	x.CI = c.bootstrap(1, func(weights []int, out []float64) { out[0] = exp(c.mean(weights, sums)) })[0]
	return x
}

// Perplexities is a text's perplexity under each convention that its windows allow.
type Perplexities struct {
	Windows    int    `json:"windows"`
	SecondHalf *Score `json:"second_half,omitempty"`
	All        *Score `json:"all,omitempty"`
	Strided    *Score `json:"strided,omitempty"`
}

// Perplexity runs the text through the model.
func Perplexity(ctx context.Context, m *runtime.Model, text []int32, o Options) (*Perplexities, error) {
	windows, err := o.windows(text, m.Width())
	if err != nil {
		return nil, err
	}
	session, err := m.NewSession(o.Context, o.KV)
	if err != nil {
		return nil, err
	}
	var half, all series
	var tokens []int32
	kept := newBatch(m.Threads(), m.Width())
	var nlls [batchRows]float64
	score := func() error {
		positions, err := kept.empty(func(i int, scratch []float64) error {
			d, err := normalize(kept.row(i), scratch)
			if err == nil {
				nlls[i] = d.surprise(tokens[kept.positions[i]])
			}
			return err
		})
		for i, target := range positions {
			all.values = append(all.values, nlls[i])
			if target >= o.Context/2 {
				half.values = append(half.values, nlls[i])
			}
		}
		return err
	}
	for i, w := range windows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		session.Reset()
		tokens = w.tokens(tokens, text, o.Front)
		first := max(w.First, len(o.Front))
		var bad error
		err := m.ForwardContext(ctx, []runtime.Input{{Session: session, Tokens: tokens, All: true}}, func(_, at int, logits []float32) {
			target := at + 1
			if bad == nil && target >= first && target < len(tokens) && kept.add(target, logits) {
				bad = score()
			}
		})
		if err == nil {
			err = bad
		}
		if err == nil {
			err = score()
		}
		if err != nil {
			return nil, err
		}
		half.endWindow()
		all.endWindow()
		o.report(i+1, len(windows))
	}
	p := &Perplexities{Windows: len(windows)}
	if o.overlaps() {
		p.Strided = all.score("strided")
		return p, nil
	}
	p.SecondHalf, p.All = half.score("second-half"), all.score("all")
	return p, nil
}
