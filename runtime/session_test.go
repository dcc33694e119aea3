package runtime

import (
	"math"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"nibble/formats"
	"nibble/internal/kernel"
)

// What cannot be run is refused in one line, and changes nothing.
func TestRefusals(t *testing.T) {
	g := readGolden(t, "qwen2")
	m := g.load(t, F32, 2)
	stranger := newSession(t, g.load(t, F32, 1), 8, KVF32)
	s, other := newSession(t, m, 8, KVF32), newSession(t, m, 8, KVF32)
	forward(t, m, s, []int32{1, 2, 3})
	tests := []struct {
		inputs []Input
		want   string
	}{
		{[]Input{{s, nil, false}}, "no tokens"},
		{[]Input{{s, []int32{1, 2, 3, 4, 5, 6}, false}}, "9 tokens do not fit the context of 8"},
		{[]Input{{s, []int32{1, 256}, false}}, "token 256 at position 4: the model has 256"},
		{[]Input{{s, []int32{-1}, false}}, "token -1 at position 3"},
		{[]Input{{stranger, []int32{1}, false}}, "another model"},
		{[]Input{{nil, []int32{1}, false}}, "another model"},
		{[]Input{{s, []int32{1}, false}, {other, []int32{1}, false}, {s, []int32{1}, false}}, "two inputs of one session"},
		{[]Input{{other, []int32{1}, false}, {s, []int32{math.MaxInt32}, false}}, "token 2147483647"},
	}
	for _, tt := range tests {
		err := m.Forward(tt.inputs, func(int, int, []float32) { t.Error("logits of a refused call") })
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want %q", err, tt.want)
		}
		if s.Len() != 3 || other.Len() != 0 {
			t.Fatalf("%s: lengths %d and %d", tt.want, s.Len(), other.Len())
		}
	}
	if err := m.Forward(nil, nil); err != nil {
		t.Error(err)
	}
	rest := []int32{4, 5, 6, 7, 8}
	got := forward(t, m, s, rest)
	same(t, "after refusals", got, run(t, m, []int32{1, 2, 3, 4, 5, 6, 7, 8}, KVF32)[3:], 0)
	s.Reset()
	same(t, "after a reset", forward(t, m, s, rest), run(t, m, rest, KVF32), 0)

	err := m.Forward([]Input{{other, rest, false}}, func(int, int, []float32) {
		if err := m.Forward(nil, nil); err == nil || !strings.Contains(err.Error(), "is running") {
			t.Errorf("a pass inside a pass: %v", err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestContext(t *testing.T) {
	for name, limit := range map[string]int{"qwen2": 128, "gpt2": 64, "llama-dynamic": 16} {
		m := readGolden(t, name).load(t, F32, 1)
		if m.Limit() != limit {
			t.Errorf("%s: limit %d, want %d", name, m.Limit(), limit)
		}
		if s := newSession(t, m, 0, KVF32); s.Context() != limit || s.Len() != 0 {
			t.Errorf("%s: context %d", name, s.Context())
		}
		_, err := m.NewSession(limit+1, KVF32)
		if name == "llama-dynamic" { // which stretches
			if err != nil {
				t.Error(err)
			}
			_, err = m.NewSession(math.MaxInt, KVF32)
			if err == nil || !strings.Contains(err.Error(), "GiB") {
				t.Errorf("the largest context: %v", err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "the model has") {
			t.Errorf("%s: one token too many: %v", name, err)
		}
		for _, context := range []int{-1, math.MinInt} {
			if _, err := m.NewSession(context, KVF32); err == nil {
				t.Errorf("a context of %d", context)
			}
		}
		if _, err := m.NewSession(1, KVInt8+1); err == nil {
			t.Error("an unknown cache type")
		}
	}
}

// Sessions of any context run on one model, a larger one after a smaller.
func TestContextsGrow(t *testing.T) {
	g := readGolden(t, "qwen2")
	m := g.load(t, F32, 2)
	forward(t, m, newSession(t, m, 2, KVF32), g.Tokens[:2])
	s := newSession(t, m, 100, KVF32)
	same(t, "a larger context", forward(t, m, s, g.Tokens), run(t, g.load(t, F32, 1), g.Tokens, KVF32), 0)
	forward(t, m, newSession(t, m, 3, KVF32), g.Tokens[:3])
	forward(t, m, s, g.Tokens)
}

// CacheBytes is what a session allocates.
func TestCacheBytes(t *testing.T) {
	for _, name := range []string{"gemma3", "llama-linear-bias", "gpt2"} {
		m := readGolden(t, name).load(t, F32, 1)
		for _, kv := range KVs {
			s := newSession(t, m, 33, kv)
			n := 4 * cap(s.tokens)
			for _, r := range s.layers {
				n += len(r.keys) + len(r.values)
			}
			if got := m.CacheBytes(33, kv); got != int64(n) {
				t.Errorf("%s: %d bytes, %d allocated", name, got, n)
			}
		}
	}
}

// Bytes counts every matrix once, in the form in which it is kept.
func TestBytes(t *testing.T) {
	g := readGolden(t, "llama-llama3") // tied
	b := open(t, g.files(t))
	var want int64
	for _, x := range b.Set.Tensors() {
		if len(x.Shape) == 2 {
			want += x.Bytes()
		}
	}
	m := load(t, b, F32, 1)
	if m.Bytes() != want {
		t.Errorf("%d bytes, the file has %d", m.Bytes(), want)
	}
	if q := load(t, quantize(t, g, formats.All[0], 32), A8, 1); q.Bytes() > want*2/3 || q.Width() != m.Width() {
		t.Errorf("quantized: %d bytes of %d", q.Bytes(), want)
	}
}

// After the first token, a token of any kind of model allocates nothing.
func TestAllocations(t *testing.T) {
	check := func(name string, m *Model, kv KV) {
		t.Helper()
		s := newSession(t, m, 30, kv)
		token := []int32{7}
		inputs := []Input{{s, token, false}}
		emit := func(_, _ int, logits []float32) { token[0] = argmax(logits) }
		forward(t, m, s, []int32{1, 2, 3})
		n := testing.AllocsPerRun(20, func() {
			if err := m.Forward(inputs, emit); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations per token", name, n)
		}
	}
	for i, name := range []string{"llama-linear-bias", "gemma3", "qwen3moe", "gpt2", "spark2_5", "phi3-longrope-short", "olmo2"} {
		check(name, readGolden(t, name).load(t, F32, 1+i%3), KV(i%4))
	}
	for i, mode := range []Mode{F32, A16, A8, A8Row} {
		b := quantize(t, readGolden(t, "qwen3moe"), formats.All[i], 16)
		check(formats.All[i].Name(), load(t, b, mode, 2), KV(i))
	}
}

// threads counts the goroutines of all teams.
func threads() int {
	raw := make([]byte, 1<<20)
	return strings.Count(string(raw[:goruntime.Stack(raw, true)]), "created by nibble/runtime.newTeam")
}

// settles waits until so many threads are left: they end a moment after Close.
func settles(t *testing.T, want int) {
	t.Helper()
	for i := 0; threads() != want; i++ {
		if i == 1<<20 {
			t.Fatalf("%d threads are left, want %d", threads(), want)
		}
		goruntime.Gosched()
	}
}

// Close ends the threads, and a model that is closed runs no more.
func TestClose(t *testing.T) {
	settles(t, 0)
	g := readGolden(t, "qwen2")
	var models []*Model
	for range 3 {
		m := g.load(t, F32, 8)
		run(t, m, g.Tokens[:3], KVF32)
		models = append(models, m)
	}
	settles(t, 21)
	for _, m := range models {
		m.Close()
		m.Close()
		s := newSession(t, m, 3, KVF32)
		if err := m.Forward([]Input{{s, []int32{1}, false}}, nil); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("a closed model: %v", err)
		}
	}
	settles(t, 0)
}

// The threads of a team meet at every barrier, with more of them than processors.
func TestBarrier(t *testing.T) {
	for _, size := range []int{1, 2, 3, 9} {
		team := startTeam(size)
		counts := make([]int, size) // each written by one thread, read by all behind a barrier
		for range 20 {
			clear(counts)
			team.run(func(tid int) {
				for round := 1; round <= 10; round++ {
					if tid == round%size && round%4 == 0 {
						for range 1 << 14 { // long enough for the others to sleep
							goruntime.Gosched()
						}
					}
					counts[tid]++
					team.barrier()
					for i, n := range counts {
						if n != round {
							t.Errorf("round %d: thread %d is in round %d", round, i, n)
						}
					}
					team.barrier()
				}
			})
		}
		team.close()
	}
}

// Parts are in order, without gaps, and as equal as the unit allows.
func TestShare(t *testing.T) {
	for _, size := range []int{1, 2, 5} {
		for _, unit := range []int{1, 4} {
			for n := range 40 {
				at := 0
				for tid := range size {
					lo, hi := (&team{size: size}).share(tid, n, unit)
					if lo != at || hi < lo || hi-lo > (n/unit/size+1)*unit {
						t.Fatalf("thread %d of %d: %d to %d of %d", tid, size, lo, hi, n)
					}
					at = hi
				}
				if at != n {
					t.Fatalf("%d threads: %d of %d", size, at, n)
				}
			}
		}
	}
}

// Every type of cache gives back what it holds, and rounding once more changes nothing.
func TestCacheTypes(t *testing.T) {
	x := []float32{0, 1, -1, 0.3, -127, 1e-3, 65504, 100.7, float32(math.Pi), -0.0625, 5}
	rounded := func(kv KV, x []float32) []float32 {
		raw, got := make([]byte, kv.bytes(len(x))), make([]float32, len(x))
		kv.store(raw, x)
		v := kernel.Vectors{Type: kernel.Stored(kv), Data: raw, N: 1}
		kernel.Values(got, 0, []float32{1}, 0, 1, len(x), v, make([]float32, len(x)))
		return got
	}
	tolerance := map[KV]float64{KVF32: 0, KVBF16: 1.0 / 256, KVF16: 1.0 / 2048, KVInt8: 0}
	for kv, tol := range tolerance {
		once := rounded(kv, x)
		for i, v := range once {
			bound := tol * math.Abs(float64(x[i]))
			if kv == KVInt8 {
				bound = 65504.0 / 127 / 2 * 1.0001
			}
			if math.Abs(float64(v-x[i])) > bound {
				t.Errorf("cache %d: %v became %v", kv, x[i], v)
			}
		}
		if got := rounded(kv, once); !slices.Equal(got, once) {
			t.Errorf("cache %d: rounded twice %v, once %v", kv, got, once)
		}
	}
	// int8 of a vector with a NaN is NaN throughout, not noise.
	bad := rounded(KVInt8, []float32{1, float32(math.NaN()), 2})
	if slices.ContainsFunc(bad, func(v float32) bool { return v == v }) {
		t.Errorf("a NaN became %v", bad)
	}
}
