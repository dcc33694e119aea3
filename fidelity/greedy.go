package fidelity

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"nibble/runtime"
)

//go:embed prompts.txt
var prompts string

// Prompts returns the built-in prompts.
func Prompts() []string { return strings.Split(strings.TrimSpace(prompts), "\n") }

// Greedy says how far two models continue prompts alike.
type Greedy struct {
	Prompts   int      `json:"greedy_prompts"`
	Tokens    int      `json:"greedy_tokens"` // most of a continuation
	Matches   int      `json:"greedy_matches"`
	MatchesCI Interval `json:"greedy_matches_ci"`
	Prefix    float64  `json:"greedy_prefix"` // mean number of tokens before the first that differs
	PrefixCI  Interval `json:"greedy_prefix_ci"`
}

// CompareGreedy continues every prompt by n tokens, fewer where one of the stop tokens comes or a model's limit. Of a
// prompt longer than half the limit the end is taken.
func CompareGreedy(ctx context.Context, reference, build *runtime.Model, prompts [][]int32, n int, stop []int32, kv runtime.KV) (*Greedy, error) {
	if err := Compatible(reference, build); err != nil {
		return nil, err
	}
	if len(prompts) == 0 || n < 1 {
		return nil, fmt.Errorf("fidelity: %d prompts of %d tokens: nothing to continue", len(prompts), n)
	}
	limit := min(reference.Limit(), build.Limit())
	g := &Greedy{Prompts: len(prompts), Tokens: n}
	var prefixes []float64
	var ends []int
	for i, prompt := range prompts {
		if len(prompt) == 0 {
			return nil, fmt.Errorf("fidelity: prompt %d is empty", i+1)
		}
		prompt = prompt[max(len(prompt)-max(limit/2, 1), 0):]
		m := min(n, limit-len(prompt)+1)
		want, err := Continue(ctx, reference, prompt, m, stop, runtime.KVF32)
		if err != nil {
			return nil, err
		}
		have, err := Continue(ctx, build, prompt, m, stop, kv)
		if err != nil {
			return nil, err
		}
		same := 0
		for same < min(len(want), len(have)) && want[same] == have[same] {
			same++
		}
		if slices.Equal(want, have) {
			g.Matches++
		}
		prefixes, ends = append(prefixes, float64(same)), append(ends, i+1)
	}
	g.MatchesCI = wilson(g.Matches, g.Prompts)
	g.Prefix = mean(prefixes)
	c := clusters{ends}
	g.PrefixCI = c.bootstrap(1, func(weights []int, out []float64) { out[0] = c.mean(weights, prefixes) })[0]
	return g, nil
}

// Continue returns the n likeliest next tokens, each given those before it, up to and with the first stop token.
func Continue(ctx context.Context, m *runtime.Model, prompt []int32, n int, stop []int32, kv runtime.KV) ([]int32, error) {
	session, err := m.NewSession(len(prompt)+n-1, kv)
	if err != nil {
		return nil, err
	}
	var list []int32
	sampler := runtime.NewSampler(runtime.Sampling{})
	input := prompt
	for len(list) < n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var next int32
		err := m.ForwardContext(ctx, []runtime.Input{{Session: session, Tokens: input}},
			func(_, _ int, logits []float32) { next = sampler.Next(logits, nil) })
		if err != nil {
			return nil, err
		}
		list = append(list, next)
		if slices.Contains(stop, next) {
			break
		}
		input = list[len(list)-1:]
	}
	return list, nil
}
