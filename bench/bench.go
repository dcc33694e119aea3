// Package bench measures how fast a model runs, and how close that is to what the machine could do.
//
// A test is a prompt that is run at once (pp512) or tokens that are decoded one after another (tg128), by one sequence or
// by several together, with an empty cache or with tokens in it. Decoding is bound by memory, so its bytes are held
// against the rate at which the same threads read memory; a prompt is bound by arithmetic, so its multiply-adds are held
// against what the same threads multiply and add from registers.
package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"nibble/runtime"
)

// Test is one thing to measure.
type Test struct {
	Prompt int // tokens of a prompt, run at once; 0: the test decodes
	Decode int // tokens decoded one after another by every sequence; 0: the test is a prompt
	Batch  int // sequences decoded together
	Depth  int // tokens in the cache of every sequence before
}

// Tests lists all combinations: prompts, then decoding with every batch, at every depth. Lengths of 0 are left out.
func Tests(prompts, decodes, batches, depths []int) (list []Test) {
	for _, depth := range depths {
		for _, n := range prompts {
			if n > 0 {
				list = append(list, Test{Prompt: n, Batch: 1, Depth: depth})
			}
		}
		for _, n := range decodes {
			for _, batch := range batches {
				if n > 0 {
					list = append(list, Test{Decode: n, Batch: batch, Depth: depth})
				}
			}
		}
	}
	return list
}

// String names the test: "pp512", "tg128 b8 @ d4096".
func (t Test) String() string {
	name := fmt.Sprintf("tg%d", t.Decode)
	if t.Prompt > 0 {
		name = fmt.Sprintf("pp%d", t.Prompt)
	}
	if t.Batch > 1 {
		name += fmt.Sprintf(" b%d", t.Batch)
	}
	if t.Depth > 0 {
		name += fmt.Sprintf(" @ d%d", t.Depth)
	}
	return name
}

// Context returns the length of the test's sequences at the end.
func (t Test) Context() int { return t.Depth + t.Prompt + t.Decode }

// tokens returns how many tokens the measured part runs.
func (t Test) tokens() int { return (t.Prompt + t.Decode) * t.Batch }

// Options say how tests are run.
type Options struct {
	KV          runtime.KV
	Repetitions int
	Int8        bool // matrices multiply int8: whose peak prompts are held against
	Profile     bool // one more repetition, to see what the time goes to
}

// Run measures a test: a repetition that does not count, those that do, and one for the profile if it is wanted.
func Run(ctx context.Context, m *runtime.Model, t Test, o Options) (*Result, error) {
	r := &run{ctx: ctx, m: m, test: t}
	if err := r.prepare(o.KV); err != nil {
		return nil, err
	}
	if _, err := r.repeat(); err != nil {
		return nil, err
	}
	var rates []float64
	for range o.Repetitions {
		spent, err := r.repeat()
		if err != nil {
			return nil, err
		}
		rates = append(rates, float64(t.tokens())/spent.Seconds())
	}
	x := newResult(m, t, o, rates)
	if o.Profile {
		r.profiled = true
		if _, err := r.repeat(); err != nil {
			return nil, err
		}
		x.Profile = newProfile(r.profile)
	}
	return x, nil
}

// run is a test under way.
type run struct {
	ctx      context.Context
	m        *runtime.Model
	test     Test
	prompt   []int32
	inputs   []runtime.Input
	profiled bool
	profile  runtime.Profile
}

// prepare makes the sequences.
func (r *run) prepare(kv runtime.KV) error {
	random := rand.New(rand.NewPCG(1, 1))
	for range r.test.Context() {
		r.prompt = append(r.prompt, int32(random.IntN(min(r.m.Width(), r.m.Arch.Vocab))))
	}
	for range r.test.Batch {
		s, err := r.m.NewSession(r.test.Context(), kv)
		if err != nil {
			return err
		}
		r.inputs = append(r.inputs, runtime.Input{Session: s})
	}
	return nil
}

// repeat runs the test once and returns how long its measured part took.
func (r *run) repeat() (spent time.Duration, err error) {
	for i := range r.inputs {
		r.inputs[i].Session.Reset()
	}
	depth := r.test.Depth
	if depth > 0 {
		if err := r.forward(r.prompt[:depth], nil); err != nil {
			return 0, err
		}
	}
	if r.profiled {
		r.m.StartProfile()
		defer func() { r.profile = r.m.StopProfile() }()
	}
	logits := func(int, int, []float32) {} // are computed because there is somebody to take them
	start := time.Now()
	if r.test.Prompt > 0 {
		err = r.forward(r.prompt[depth:], logits)
	}
	for i := 0; i < r.test.Decode && err == nil; i++ {
		err = r.forward(r.prompt[depth+i:depth+i+1], logits)
	}
	return time.Since(start), err
}

// forward runs the same tokens in every sequence.
func (r *run) forward(tokens []int32, emit runtime.Emit) error {
	for i := range r.inputs {
		r.inputs[i].Tokens = tokens
	}
	return r.m.ForwardContext(r.ctx, r.inputs, emit)
}
