package runtime_test

import (
	"math"
	"slices"
	"testing"

	"nibble/runtime"
)

// shares draws n tokens and returns how often each came.
func shares(s runtime.Sampling, logits []float32, n int) []float64 {
	list := make([]float64, len(logits))
	sampler := runtime.NewSampler(s)
	for range n {
		list[sampler.Next(logits, nil)] += 1 / float64(n)
	}
	return list
}

// fifths are the logits of probabilities 0.1, 0.4, 0.2, 0.3.
var fifths = []float32{float32(math.Log(1)), float32(math.Log(4)), float32(math.Log(2)), float32(math.Log(3))}

func TestSampling(t *testing.T) {
	const n = 20000
	tolerance := 4 * math.Sqrt(0.25/n) // four deviations of a share
	for name, x := range map[string]struct {
		s    runtime.Sampling
		want []float64
	}{
		"plain":            {runtime.Sampling{Temperature: 1}, []float64{0.1, 0.4, 0.2, 0.3}},
		"half temperature": {runtime.Sampling{Temperature: 0.5}, []float64{1. / 30, 16. / 30, 4. / 30, 9. / 30}},
		"top-k 2":          {runtime.Sampling{Temperature: 1, TopK: 2}, []float64{0, 4. / 7, 0, 3. / 7}},
		"top-k of all":     {runtime.Sampling{Temperature: 1, TopK: 9}, []float64{0.1, 0.4, 0.2, 0.3}},
		"top-p 0.6":        {runtime.Sampling{Temperature: 1, TopP: 0.6}, []float64{0, 4. / 7, 0, 3. / 7}},
		"top-p 0.75":       {runtime.Sampling{Temperature: 1, TopP: 0.75}, []float64{0, 4. / 9, 2. / 9, 3. / 9}},
		"min-p 0.6":        {runtime.Sampling{Temperature: 1, MinP: 0.6}, []float64{0, 4. / 7, 0, 3. / 7}},
		"top-k then top-p": {runtime.Sampling{Temperature: 1, TopK: 2, TopP: 0.5}, []float64{0, 1, 0, 0}},
		"greedy":           {runtime.Sampling{Seed: 7}, []float64{0, 1, 0, 0}},
		"nearly greedy":    {runtime.Sampling{Temperature: 1e-9}, []float64{0, 1, 0, 0}},
	} {
		for i, have := range shares(x.s, fifths, n) {
			if math.Abs(have-x.want[i]) > tolerance || x.want[i] == 0 && have != 0 {
				t.Errorf("%s: token %d came with %.4f, want %.4f", name, i, have, x.want[i])
			}
		}
	}
}

func TestSamplingSeed(t *testing.T) {
	draw := func(seed uint64) (list []int32) {
		s := runtime.NewSampler(runtime.Sampling{Temperature: 1, TopP: 0.9, Seed: seed})
		for range 50 {
			list = append(list, s.Next(fifths, nil))
		}
		return list
	}
	if !slices.Equal(draw(3), draw(3)) {
		t.Error("the same seed gives other tokens")
	}
	if slices.Equal(draw(3), draw(4)) {
		t.Error("another seed gives the same 50 tokens")
	}
}

func TestRepetition(t *testing.T) {
	s := runtime.NewSampler(runtime.Sampling{Repetition: 2})
	logits := []float32{3, 2, -1, -1.5}
	if id := s.Next(logits, []int32{0, 0}); id != 1 { // 1.5 once, not 0.75
		t.Errorf("token %d after 0, want 1", id)
	}
	if id := s.Next([]float32{-1, -1.5}, []int32{0}); id != 1 {
		t.Errorf("token %d after 0, want 1: a negative logit is multiplied", id)
	}
	if id := s.Next(logits, nil); id != 0 || logits[0] != 3 {
		t.Errorf("token %d and logit %g, want 0 and 3: nothing is remembered or changed", id, logits[0])
	}
	if id := s.Next([]float32{1, 1, 1}, nil); id != 0 {
		t.Errorf("token %d of equals, want the lowest", id)
	}
}

func TestSamplingCheck(t *testing.T) {
	for _, bad := range []runtime.Sampling{{Temperature: -1}, {Temperature: math.NaN()}, {Temperature: math.Inf(1)}, {TopK: -1},
		{TopP: 1.5}, {TopP: math.NaN()}, {MinP: -0.1}, {Repetition: -1}} {
		if bad.Check() == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
	if err := (&runtime.Sampling{Temperature: 0.7, TopK: 40, TopP: 0.9, MinP: 0.05, Repetition: 1.1}).Check(); err != nil {
		t.Error(err)
	}
}
