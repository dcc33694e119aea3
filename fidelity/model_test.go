package fidelity

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"nibble/build"
	"nibble/demo"
	"nibble/hf"
	"nibble/internal/testmodel"
	"nibble/runtime"
	"nibble/safetensors"
	"nibble/tokenizer"
)

func load(t *testing.T, f *hf.Folder, err error, mode runtime.Mode, threads int) *runtime.Model {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	b, err := build.Open(f, hf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := runtime.Load(b, runtime.Config{Mode: mode, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Close()
		b.Set.Close()
	})
	return m
}

func demoModel(t *testing.T, mode runtime.Mode) *runtime.Model {
	f, err := hf.NewFolder("", demo.FS(), "")
	return load(t, f, err, mode, 1)
}

// golden returns a tiny model with random weights.
func golden(t *testing.T, fill func(safetensors.Spec) []float32) *runtime.Model {
	x := testmodel.Golden(t, "llama-plain")
	x.Fill = fill
	dir := x.Write(t)
	f, err := hf.NewFolder(dir, os.DirFS(dir), "")
	return load(t, f, err, runtime.F32, 2)
}

// evaluation returns the first n tokens of the demo's text.
func evaluation(t *testing.T, n int) []int32 {
	t.Helper()
	tok, err := tokenizer.Load(demo.FS())
	if err != nil {
		t.Fatal(err)
	}
	ids, err := tok.Encode(demo.Evaluation()[:8*n], false)
	if err != nil {
		t.Fatal(err)
	}
	return ids[:n]
}

// relative bounds what float32 and another order of summation may change.
const relative = 1e-5

// TestDemo compares with a float32 program in numpy that shares nothing with this one, Hugging Face's tokenizer included.
func TestDemo(t *testing.T) {
	m := demoModel(t, runtime.F32)
	text := evaluation(t, 256)
	p, err := Perplexity(t.Context(), m, text, Options{Context: 32})
	if err != nil {
		t.Fatal(err)
	}
	if p.Windows != 8 || p.SecondHalf.Scored != 128 || p.All.Scored != 248 || p.Strided != nil {
		t.Errorf("%d windows, scored %d and %d", p.Windows, p.SecondHalf.Scored, p.All.Scored)
	}
	near(t, "second half", p.SecondHalf.Perplexity, 18.393147377496145, 19*relative)
	near(t, "all", p.All.Perplexity, 24.06560861449296, 25*relative)
	for _, s := range []*Score{p.SecondHalf, p.All} {
		if !(s.CI[0] < s.Perplexity && s.Perplexity < s.CI[1]) || !(s.Stderr > 0 && s.StderrTokens > 0) {
			t.Errorf("%+v", *s)
		}
	}
	if p, err = Perplexity(t.Context(), m, text, Options{Context: 32, MaxWindows: 4, Front: []int32{0}}); err != nil {
		t.Fatal(err)
	}
	near(t, "second half behind a token in front", p.SecondHalf.Perplexity, 22.984380796493124, 23*relative)
	near(t, "all behind a token in front", p.All.Perplexity, 31.15811837791961, 32*relative)
	if p, err = Perplexity(t.Context(), m, text[:100], Options{Context: 32, Stride: 12}); err != nil {
		t.Fatal(err)
	}
	if p.Windows != 7 || p.Strided.Scored != 99 || p.All != nil {
		t.Errorf("%d windows, %d scored", p.Windows, p.Strided.Scored)
	}
	near(t, "strided", p.Strided.Perplexity, 22.298459641003653, 23*relative)
}

func TestGreedy(t *testing.T) {
	raw, err := os.ReadFile("../demo/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var reference struct {
		Prompt []int32 `json:"prompt_ids"`
		Greedy []int32 `json:"greedy_ids"`
		First  []int32 `json:"first_64_ids"`
	}
	if err := json.Unmarshal(raw, &reference); err != nil {
		t.Fatal(err)
	}
	if have := evaluation(t, 64); !slices.Equal(have, reference.First) {
		t.Errorf("the text begins with %v, want %v", have, reference.First)
	}
	m := demoModel(t, runtime.F32)
	have, err := Continue(t.Context(), m, reference.Prompt, len(reference.Greedy), nil, runtime.KVF32)
	if err != nil || !slices.Equal(have, reference.Greedy) {
		t.Errorf("%v, %v, want %v", have, err, reference.Greedy)
	}
	stop := reference.Greedy[10]
	have, err = Continue(t.Context(), m, reference.Prompt, 40, []int32{stop}, runtime.KVF32)
	if err != nil || len(have) != 11 || have[10] != stop {
		t.Errorf("%v, %v, want to end with %d", have, err, stop)
	}
	// Against itself everything matches; a prompt longer than half the context is cut.
	m = golden(t, nil)
	long := slices.Repeat([]int32{1, 2, 3}, m.Limit())
	g, err := CompareGreedy(t.Context(), m, m, [][]int32{{5}, long}, 3, nil, runtime.KVF32)
	if err != nil {
		t.Fatal(err)
	}
	if g.Matches != 2 || g.Prompts != 2 || g.Prefix != 3 || g.MatchesCI[1] != 2 {
		t.Errorf("%+v", *g)
	}
	if list := Prompts(); len(list) != 12 {
		t.Errorf("%d prompts", len(list))
	}
}

func TestCompare(t *testing.T) {
	text := evaluation(t, 128)
	reference, half := demoModel(t, runtime.F32), demoModel(t, runtime.A16)
	o := Options{Context: 16}
	same, err := Compare(t.Context(), reference, reference, text, o)
	if err != nil {
		t.Fatal(err)
	}
	if same.KLMean != 0 || same.KLP99 != 0 || same.Ratio != 1 || same.RatioCI != (Interval{1, 1}) || same.Top1 != 1 || same.Delta() != 0 {
		t.Errorf("a model against itself: %+v", *same)
	}
	near(t, "perplexity", same.Reference, 29.880557156553706, 30*relative)
	calls := 0
	o.Progress = func(done, windows int) {
		if calls++; done != calls || windows != 8 {
			t.Errorf("progress %d of %d", done, windows)
		}
	}
	var scored []Position
	o.Scored = func(_ int, p Position) { scored = append(scored, p) }
	c, err := Compare(t.Context(), reference, half, text, o)
	if err != nil {
		t.Fatal(err)
	}
	// Every token but the first of a window, in the order of the text, and together they are the comparison.
	kl, nll := 0.0, 0.0
	for i, p := range scored {
		if p.Text != i/15*16+i%15+1 || p.Window != i%15+1 || p.Token != text[p.Text] {
			t.Errorf("position %d is %+v", i, p)
		}
		kl, nll = kl+p.KL, nll+p.Build
	}
	near(t, "KL of the positions", kl/120, c.KLMean, 1e-15)
	near(t, "perplexity of the positions", math.Exp(nll/120), c.Build, 1e-9)
	if c.Positions != 120 || len(scored) != 120 || c.Windows != 8 || calls != 8 || c.Scoring != "all" {
		t.Errorf("%d positions, %d windows, %d calls", c.Positions, c.Windows, calls)
	}
	if !(c.KLMean > 0 && c.KLMean < 1e-3 && c.KLMedian < c.KLMean && c.KLMean < c.KLP99 && c.Top1 > 0.95) {
		t.Errorf("bfloat16 inputs lose %+v", *c)
	}
	for i, x := range []Interval{c.KLMeanCI, c.KLMedianCI, c.KLP99CI, c.ReferenceCI, c.BuildCI, c.RatioCI, c.Top1CI} {
		v := []float64{c.KLMean, c.KLMedian, c.KLP99, c.Reference, c.Build, c.Ratio, c.Top1}[i]
		if !(x[0] <= v && v <= x[1]) {
			t.Errorf("figure %d: %g is not in %v", i, v, x)
		}
	}
	near(t, "ratio", c.Ratio, c.Build/c.Reference, 1e-12)

	// The last window of a strided text is short, and pieces of 5 do not divide a window.
	l, err := newLockstep(reference, []*runtime.Model{half}, o)
	if err != nil {
		t.Fatal(err)
	}
	l.chunk = 5
	for i := range 8 {
		if err := l.window(t.Context(), Window{16 * i, 16*i + 16, 1}, text, nil); err != nil {
			t.Fatal(err)
		}
	}
	if d := l.pairs[0].comparison(); d.KLMean != c.KLMean || d.KLP99 != c.KLP99 || d.Ratio != c.Ratio {
		t.Errorf("in pieces of 5: %+v, want %+v", *d, *c)
	}
	// Several builds behind one reference: each as alone.
	o.Progress = nil
	var builds []int
	o.Scored = func(build int, _ Position) { builds = append(builds, build) }
	all, err := CompareAll(t.Context(), reference, []*runtime.Model{reference, half, half}, text, o)
	if err != nil || *all[0] != *same || *all[1] != *c || *all[2] != *c || len(builds) != 360 || builds[0] != 0 || builds[359] != 2 {
		t.Errorf("%+v, %v, %v; want %+v and twice %+v", all, builds, err, *same, *c)
	}
	c, err = Compare(t.Context(), reference, half, text[:50], Options{Context: 16, Stride: 6})
	if err != nil || c.Positions != 49 || c.Scoring != "strided" {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestUniform has a head of zeros: every token is as likely, so the perplexity is the size of the vocabulary.
func TestUniform(t *testing.T) {
	m := golden(t, func(s safetensors.Spec) []float32 {
		if s.Name == "lm_head.weight" {
			return make([]float32, s.Shape[0]*s.Shape[1])
		}
		return nil
	})
	text := make([]int32, 40)
	for i := range text {
		text[i] = int32(7 * i % m.Width())
	}
	p, err := Perplexity(t.Context(), m, text, Options{Context: 8})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "perplexity", p.All.Perplexity, float64(m.Width()), 1e-9)
	near(t, "standard error", p.All.Stderr, 0, 1e-12)
	if x, err := json.Marshal(p); err != nil || strings.Contains(string(x), "strided\":null") {
		t.Errorf("%s, %v", x, err)
	}

	other := demoModel(t, runtime.F32)
	if _, err := Compare(t.Context(), m, other, text, Options{Context: 8}); err == nil || !strings.Contains(err.Error(), "different vocabularies") {
		t.Errorf("another vocabulary: %v", err)
	}
}

func TestRefused(t *testing.T) {
	m := demoModel(t, runtime.F32)
	text := evaluation(t, 64)
	for want, o := range map[string]Options{
		"less than one window": {Context: 65},
		"at least 2":           {Context: 1},
		"want 1 to":            {Context: 8, Stride: 9},
		"tokens of its own":    {Context: 8, Front: make([]int32, 8)},
		"the model has 1024":   {Context: 2000},
	} {
		long := text
		if o.Context == 2000 {
			long = slices.Repeat(text, 32)
		}
		if _, err := Perplexity(t.Context(), m, long, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	if _, err := Perplexity(t.Context(), m, []int32{1, 2, 1024}, Options{Context: 3}); err == nil ||
		!strings.Contains(err.Error(), "token 1024 at position 2") {
		t.Errorf("a token out of range: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Compare(ctx, m, m, text, Options{Context: 8}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if exp(1e4) != math.MaxFloat64 {
		t.Error("exp(1e4) is not finite")
	}
}
