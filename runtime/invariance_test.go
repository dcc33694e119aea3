package runtime

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"nibble/build"
	"nibble/formats"
)

// A token's logits depend on its own sequence alone. Bit for bit the same come out of one prefill, token by token, odd
// pieces, and beside other sequences, for every type of cache and any number of threads. Types and modes take turns.
func TestInvariance(t *testing.T) {
	kvs := []KV{KVF32, KVBF16, KVF16, KVInt8}
	for i, g := range variants(t, true) {
		if i%every != 0 {
			continue
		}
		t.Run(g.Name, func(t *testing.T) {
			b := open(t, g.files(t))
			invariant(t, b, g.Tokens, F32, kvs[i%4])
			invariant(t, b, g.Tokens, F32, kvs[(i+i/4+1)%4])
			invariant(t, b, g.Tokens, A16, kvs[(i+2)%4])
		})
	}
	for i, name := range families {
		if i%every != every/2 {
			continue
		}
		g := readGolden(t, name)
		format := formats.All[i%len(formats.All)]
		t.Run(name+"/"+format.Name(), func(t *testing.T) {
			b := quantize(t, g, format, 16<<(i/4%2))
			for j, mode := range []Mode{F32, A16, A8, A8Row} {
				invariant(t, b, g.Tokens[:20], mode, kvs[(i+j)%4])
			}
		})
	}
}

func invariant(t *testing.T, b *build.Build, tokens []int32, mode Mode, kv KV) {
	t.Helper()
	m := load(t, b, mode, 2)
	want := run(t, m, tokens, kv)
	name := fmt.Sprintf("mode %d, cache %d: ", mode, kv)
	for _, threads := range []int{1, 5} {
		same(t, fmt.Sprintf("%s%d threads", name, threads), run(t, load(t, b, mode, threads), tokens, kv), want, 0)
	}

	// Two ropes depend on the length of the sequence. Under longrope the logits of a short beginning differ from those
	// that the same tokens have inside a long sequence; from the original length on they are equal. Under dynamic, keys
	// keep the rotation of the time when they came, in transformers too: pieces of a sequence beyond the model's
	// length are not comparable with one prefill.
	first, pieces := 0, true
	for _, r := range m.ropes {
		switch {
		case r.Type == "longrope" && len(tokens) > r.Orig:
			first = r.Orig
		case r.Type == "dynamic" && len(tokens) > r.Max:
			pieces = false
		}
	}
	if pieces {
		same(t, name+"token by token", pieced(t, m, tokens, kv, 1), want, first)
		same(t, name+"odd pieces", pieced(t, m, tokens, kv, 3, 7, 1), want, first)
		same(t, name+"beside others", beside(t, m, tokens, kv, len(tokens)/2), want, first)
	}
	same(t, name+"beside others", beside(t, m, tokens, kv, 0), want, 0)
}

// pieced runs a sequence in pieces of the given sizes, over and over.
func pieced(t *testing.T, m *Model, tokens []int32, kv KV, sizes ...int) [][]float32 {
	t.Helper()
	s := newSession(t, m, len(tokens), kv)
	var all [][]float32
	for i := 0; len(tokens) > 0; i++ {
		n := min(sizes[i%len(sizes)], len(tokens))
		all = append(all, forward(t, m, s, tokens[:n])...)
		tokens = tokens[n:]
	}
	return all
}

// beside runs a sequence between two others, whose caches have other types, in two calls: cut tokens, then the rest.
func beside(t *testing.T, m *Model, tokens []int32, kv KV, cut int) [][]float32 {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	other := slices.Clone(tokens)
	r.Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
	before := newSession(t, m, len(other), (kv+1)%4)
	s := newSession(t, m, len(tokens), kv)
	behind := newSession(t, m, len(other)-1, (kv+2)%4)
	var all [][]float32
	call := func(inputs []Input) {
		err := m.Forward(inputs, func(input, i int, logits []float32) {
			if inputs[input].Session == s {
				all = append(all, slices.Clone(logits))
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if cut == 0 {
		call([]Input{{before, other[:9], true}, {s, tokens, true}, {behind, other[5:], false}})
		return all
	}
	call([]Input{{behind, other[:5], false}, {before, other[:1], true}, {s, tokens[:cut], true}})
	call([]Input{{before, other[1:], false}, {s, tokens[cut:], true}, {behind, other[5:12], true}})
	return all
}

// Sequences of more tokens than walk through the layers together, and several of them in one call.
func TestLongPrompt(t *testing.T) {
	m := readGolden(t, "llama-llama3").load(t, F32, 2)
	tokens := make([]int32, 2*chunk+37)
	for i := range tokens {
		tokens[i] = int32(i * i % m.Width())
	}
	want := run(t, m, tokens, KVBF16)
	same(t, "pieces", pieced(t, m, tokens, KVBF16, 100), want, 0)
	same(t, "beside others", beside(t, m, tokens, KVBF16, 100), want, 0)
	var last [][]float32
	s := newSession(t, m, len(tokens), KVBF16)
	if err := m.Forward([]Input{{s, tokens, false}}, func(_, i int, logits []float32) {
		if i != len(tokens)-1 {
			t.Errorf("logits of token %d", i)
		}
		last = append(last, slices.Clone(logits))
	}); err != nil {
		t.Fatal(err)
	}
	same(t, "the last alone", last, want[len(want)-1:], 0)
}

// A cache of window size, which forgets, gives what a full recomputation of every prefix gives, up to more than three
// windows; and a context smaller than the window is no window.
func TestSlidingWindow(t *testing.T) {
	for _, name := range []string{"mistral-window", "phi3-window", "qwen2-window", "smollm3-window", "gemma2", "gemma3", "olmo3", "spark2_5"} {
		g := readGolden(t, name)
		m := g.load(t, F32, 1)
		window := 0
		for i := range m.layers {
			window = max(window, m.layers[i].Window)
		}
		if window == 0 || len(g.Tokens) < 3*window {
			t.Fatalf("%s: %d tokens, window %d", name, len(g.Tokens), window)
		}
		ring := pieced(t, m, g.Tokens, KVF16, 1)
		for n := 1; n <= len(g.Tokens); n += 5 {
			whole := run(t, m, g.Tokens[:n], KVF16)
			same(t, name, ring[n-1:n], whole[n-1:], 0)
		}
		s := newSession(t, m, 0, KVF16)
		for i := range s.layers {
			if w := m.layers[i].Window; w > 0 && s.layers[i].size != w {
				t.Errorf("%s: layer %d keeps %d tokens, window %d", name, i, s.layers[i].size, w)
			}
		}
	}
}

// When a sequence passes the original length of longrope, everything before is run anew with the long factors.
func TestLongRopeCrosses(t *testing.T) {
	g := readGolden(t, "phi3-longrope-cross")
	m := g.load(t, F32, 2)
	tokens := append(slices.Clone(g.Tokens), g.Greedy...)
	orig := m.ropes[0].Orig
	if len(g.Tokens) > orig || len(tokens) <= orig {
		t.Fatal("the fixture does not cross")
	}
	same(t, "token by token", pieced(t, m, tokens, KVInt8, 1), run(t, m, tokens, KVInt8), orig)
	// Another sequence in the same call stays short.
	long, short := newSession(t, m, 0, KVF32), newSession(t, m, 0, KVF32)
	forward(t, m, long, tokens[:orig])
	want := run(t, m, g.Tokens, KVF32)
	i := 0
	err := m.Forward([]Input{{long, tokens[orig : orig+1], true}, {short, g.Tokens, true}}, func(input, at int, logits []float32) {
		if input == 1 {
			same(t, "the short one", [][]float32{logits}, want[at:at+1], 0)
			i++
		} else if at != 0 {
			t.Errorf("logits of token %d of the long one", at)
		}
	})
	if err != nil || i != len(g.Tokens) || long.Len() != orig+1 {
		t.Errorf("%d logits, length %d, error %v", i, long.Len(), err)
	}
}
