package npu

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"nibble/build"
	"nibble/hf"
	"nibble/internal/testmodel"
	"nibble/runtime"
)

// open writes a tiny checkpoint and opens it.
func open(t testing.TB, variant string) *build.Build {
	t.Helper()
	f, err := hf.Find(testmodel.Golden(t, variant).Write(t))
	if err != nil {
		t.Fatal(err)
	}
	b, err := build.Open(f, hf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Set.Close() })
	return b
}

// sequenceOf draws tokens.
func sequenceOf(n, vocab int) []int32 {
	r := rand.New(rand.NewPCG(1, 2))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(r.IntN(vocab))
	}
	return ids
}

// The dense variants, each with what its architecture is here for.
var dense = []string{"llama-plain", "llama-linear-bias", "llama-llama3", "llama-yarn", "mistral-window", "qwen2", "qwen2-window", "qwen3",
	"gemma2", "gemma3", "phi3-window", "smollm3", "smollm3-window", "granite", "olmo2", "olmo3", "spark2_5"}

// Prompts in pieces and single tokens behind them give the logits of the runtime, for norms with their epsilon, as
// convolutions, and with the table inside.
func TestFloatGraphIsTheRuntime(t *testing.T) {
	for _, name := range dense {
		for _, o := range []Options{{Context: 24, Prefill: 8}, {Context: 30, Prefill: 4, RMS: true, Conv: true, Inside: true, HeadBlock: 30}} {
			t.Run(fmt.Sprintf("%s/%d", name, o.Context), func(t *testing.T) {
				b := open(t, name)
				m, err := NewModel(b)
				if err != nil {
					t.Fatal(err)
				}
				ids := sequenceOf(22, m.Vocab)
				want := reference(t, b, ids)
				got := floatLogits(t, m, o, ids, 16)
				var signal, noise float64
				for i := range want {
					for j, x := range want[i] {
						d := float64(got[i][j]) - float64(x)
						signal += float64(x) * float64(x)
						noise += d * d
					}
				}
				if dB := sqnr(signal, noise); !(dB > 100) {
					t.Errorf("SQNR %.1f dB", dB)
				}
			})
		}
	}
}

// reference returns the logits of all tokens.
func reference(t testing.TB, b *build.Build, ids []int32) (logits [][]float32) {
	t.Helper()
	m, err := runtime.Load(b, runtime.Config{Mode: runtime.F32, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession(len(ids), runtime.KVF32)
	if err != nil {
		t.Fatal(err)
	}
	err = m.Forward([]runtime.Input{{Session: s, Tokens: ids, All: true}}, func(_, _ int, x []float32) {
		logits = append(logits, append([]float32(nil), x...))
	})
	if err != nil {
		t.Fatal(err)
	}
	return logits
}

// floatLogits runs the first prompt tokens in pieces and the others one by one.
func floatLogits(t testing.TB, m *Model, o Options, ids []int32, prompt int) (logits [][]float32) {
	t.Helper()
	l := newLane(m, 0, ids, 1)
	for _, part := range [][3]int{{0, prompt, o.Prefill}, {prompt, len(ids), 1}} {
		g := newGraph(m, "g", o, part[2])
		l.plan(part[0], part[1], part[2], func(int) bool { return true })
		p := &pass{ctx: context.Background(), graph: g, lanes: []*lane{l}, variants: []*Quantizer{nil}, threads: 2, hidden: -1000}
		p.look = func(l *lane, c int, v *value) {
			if v.Out == "logits" {
				x := l.values[c][0][v.ID]
				for i := range g.Tokens {
					logits = append(logits, append([]float32(nil), x[i*m.Vocab:(i+1)*m.Vocab]...))
				}
			}
		}
		if err := p.run(); err != nil {
			t.Fatal(err)
		}
	}
	return logits
}
