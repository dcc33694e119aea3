package runtime

import (
	"slices"
	"testing"

	"nibble/build"
	"nibble/quant"
)

// Whole layers make of the residual stream, and the head makes of that, what a forward pass does, bit for bit.
func TestThrough(t *testing.T) {
	for _, g := range variants(t, true) {
		t.Run(g.Name, func(t *testing.T) {
			b := open(t, g.files(t))
			same(t, "logits", staged(t, openStages(t, b), g.Tokens, -1, nil), run(t, load(t, b, A16, 1), g.Tokens, KVF32), 0)
		})
	}
}

// A matrix that is replaced alone multiplies as the only quantized one of a build: gate and up too, which share panels otherwise,
// and one of several experts.
func TestReplaceAlone(t *testing.T) {
	for _, name := range []string{"llama-plain", "gpt2", "qwen2", "mixtral", "phi3-window"} {
		g := readGolden(t, name)
		b := open(t, g.files(t))
		st := openStages(t, b)
		for i := range b.Tensors {
			x := &b.Tensors[i]
			if !x.Role.Linear() || x.Layer != 1 || x.Expert > 1 {
				continue
			}
			q := quant.NewMatrix(x.Out(), x.In(), 4, 16, quant.Symmetric)
			for j := range q.Codes {
				q.Codes[j] = uint8(j*7) & 15
			}
			for j := range q.Scales {
				q.Scales[j] = 1. / 64
			}
			linears := map[string]quant.Linear{x.Name: quant.InMemory(q)}
			one, model := *b, *b.Model
			one.Linears = map[string]quant.Linear{x.Module(): quant.InMemory(q)}
			one.Model = &model
			one.Tensors = slices.Clone(b.Tensors)
			one.Tensors[i].Source = ""
			same(t, name+": "+x.Name, staged(t, st, g.Tokens, 1, linears), run(t, load(t, &one, A16, 1), g.Tokens, KVF32), 0)
		}
	}
}

func openStages(t *testing.T, b *build.Build) *Stages {
	t.Helper()
	st, err := OpenStages(b, A16, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	return st
}

// staged returns the logits of tokens, layer by layer, with matrices of one layer replaced.
func staged(t *testing.T, st *Stages, tokens []int32, layer int, linears map[string]quant.Linear) [][]float32 {
	t.Helper()
	var h []float32
	if err := st.Embed([][]int32{tokens}, func(_ int, x []float32) error { h = x; return nil }); err != nil {
		t.Fatal(err)
	}
	for i := range st.m.layers {
		if err := st.Enter(i); err != nil {
			t.Fatal(err)
		}
		if i == layer {
			if err := st.Replace(linears); err != nil {
				t.Fatal(err)
			}
		}
		st.Lane().Through(h)
	}
	if err := st.EnterHead(nil); err != nil {
		t.Fatal(err)
	}
	out := make([]float32, len(tokens)*st.Width())
	if err := st.Lane().Logits(out, h); err != nil {
		t.Fatal(err)
	}
	return slices.Collect(slices.Chunk(out, st.Width()))
}
