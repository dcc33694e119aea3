package runtime

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"nibble/hf"
	"nibble/internal/kernel"
)

// attention is the state of a model that has nothing but attention.
func attention(t testing.TB, a *hf.Architecture, layers, window, threads int) *state {
	t.Helper()
	m := &Model{Arch: a, team: startTeam(threads), layers: make([]layer, layers)}
	t.Cleanup(m.Close)
	for i := range m.layers {
		m.layers[i].Window, m.layers[i].rope = window, -1
	}
	s := &state{m: m, stride: a.KVHeads * (4*a.HeadDim + 4)}
	rows := func(width int) []float32 { return make([]float32, chunk*width) }
	s.q, s.att, s.gates = rows(a.Heads*a.HeadDim), rows(a.Heads*a.HeadDim), rows(a.Heads)
	s.k, s.v = rows(a.KVHeads*a.HeadDim), rows(a.KVHeads*a.HeadDim)
	s.keys, s.values = make([]byte, chunk*s.stride), make([]byte, chunk*s.stride)
	for tid := range threads {
		s.walkers = append(s.walkers, &walker{s: s, m: m, team: m.team, tid: tid})
	}
	s.step = func(tid int) {
		w := s.walkers[tid]
		for i := range m.layers {
			w.positions(&m.layers[i])
			m.team.barrier()
			w.attend(&m.layers[i], i)
			m.team.barrier()
			w.remember(i)
			m.team.barrier()
		}
	}
	return s
}

// sequence makes an empty session of a state's model.
func (s *state) sequence(context int, kv KV) *Session {
	a, size := s.m.Arch, context
	if w := s.m.layers[0].Window; w > 0 {
		size = min(w, context)
	}
	n := a.KVHeads * size * kv.bytes(a.HeadDim)
	session := &Session{m: s.m, kv: kv, context: context}
	for range s.m.layers {
		session.layers = append(session.layers, ring{size, make([]byte, n), make([]byte, n)})
	}
	return session
}

// history is what the definition needs of a sequence: keys and values of all tokens, as the cache rounds them.
type history struct {
	session *Session
	k, v    []float32 // [tokens, kv heads, head_dim]
}

func (h *history) add(k, v []float32, dim int) {
	raw, scratch := make([]byte, h.session.kv.bytes(dim)), make([]float32, dim)
	for _, x := range []struct {
		src []float32
		dst *[]float32
	}{{k, &h.k}, {v, &h.v}} {
		for i := 0; i < len(x.src); i += dim {
			rounded := make([]float32, dim)
			h.session.kv.store(raw, x.src[i:i+dim])
			kernel.Values(rounded, 0, []float32{1}, 0, 1, dim, kernel.Vectors{Type: kernel.Stored(h.session.kv), Data: raw, N: 1}, scratch)
			*x.dst = append(*x.dst, rounded...)
		}
	}
}

// attended is attention of one head of one token, by its definition.
func (h *history) attended(a *hf.Architecture, q []float32, gate float32, kvHead, pos, window int) []float32 {
	d, first := a.HeadDim, 0
	if window > 0 {
		first = max(0, pos-window+1)
	}
	var scores []float32
	for p := first; p <= pos; p++ {
		score := kernel.Dot(q, h.k[(p*a.KVHeads+kvHead)*d:][:d]) * a.AttnScale
		if a.AttnSoftcap != 0 {
			score = kernel.Softcap(score, a.AttnSoftcap)
		}
		scores = append(scores, score)
	}
	kernel.Softmax(scores)
	out := make([]float32, d)
	for i, w := range scores {
		kernel.Axpy(out, w, h.v[((first+i)*a.KVHeads+kvHead)*d:][:d])
	}
	if gate != 0 {
		kernel.Scale(out, kernel.Sigmoid(gate))
	}
	return out
}

// However tokens are cut into chunks, and mixed with those of other sequences, every head of every token has the bits of
// the definition.
func TestAttention(t *testing.T) {
	for i, c := range []struct {
		heads, kvHeads, dim, window int
		softcap                     float32
		gate                        bool
		threads                     int
	}{
		{8, 1, 64, 0, 0, false, 1},
		{4, 4, 32, 0, 0, false, 2},
		{9, 3, 64, 37, 0, false, 2},
		{6, 2, 80, 50, 30, false, 3},
		{16, 2, 16, 9, 0, true, 5},
		{12, 1, 128, 0, 20, true, 4},
		{5, 5, 20, 130, 0, false, 2},
		{2, 2, 96, 1, 0, false, 3},
	} {
		for kv := range KV(4) {
			t.Run(fmt.Sprintf("%d/%d", i, kv), func(t *testing.T) {
				a := &hf.Architecture{Heads: c.heads, KVHeads: c.kvHeads, HeadDim: c.dim,
					Forward: hf.Forward{AttnScale: 0.17, AttnSoftcap: c.softcap}}
				s := attention(t, a, 1, c.window, c.threads)
				if c.gate {
					s.m.layers[0].headGate = &matrix{}
				}
				r := rand.New(rand.NewPCG(31, uint64(i)))
				first := &history{session: s.sequence(400, kv)}
				second := &history{session: s.sequence(150, (kv+1)%4)}
				for _, step := range [][2]int{{1, 0}, {0, 1}, {30, 5}, {1, 1}, {chunk, 0}, {1, 0}, {3, 70}, {7, 50}, {90, 0}, {1, 1}} {
					s.check(t, r, c.window, []*history{first, second}, step[:])
				}
			})
		}
	}
}

// check runs so many random tokens of every sequence through attention in one chunk.
func (s *state) check(t *testing.T, r *rand.Rand, window int, sequences []*history, tokens []int) {
	t.Helper()
	a := s.m.Arch
	d := a.HeadDim
	s.begin()
	var of []*history
	for i, n := range tokens {
		for range n {
			s.push(sequences[i].session, 0, 0, i, 0, false)
			of = append(of, sequences[i])
		}
	}
	for _, x := range [][]float32{s.q, s.k, s.v, s.gates} {
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
	}
	for i, h := range of {
		h.add(s.k[i*a.KVHeads*d:(i+1)*a.KVHeads*d], s.v[i*a.KVHeads*d:(i+1)*a.KVHeads*d], d)
	}
	q := slices.Clone(s.q)
	s.m.team.run(s.step)
	for i, h := range of {
		for head := range a.Heads {
			var gate float32
			at := i*a.Heads + head
			if s.m.layers[0].headGate != nil {
				gate = s.gates[at]
			}
			want := h.attended(a, q[at*d:(at+1)*d], gate, head/(a.Heads/a.KVHeads), s.slots[i].pos, window)
			if got := s.att[at*d : (at+1)*d]; !slices.Equal(got, want) {
				t.Fatalf("chunk %v, token %d at position %d, head %d: %v, want %v", tokens, i, s.slots[i].pos, head, got[:4], want[:4])
			}
		}
	}
}

// A block's scores fit what is there, also where a context is as long as the room allows.
func TestAttentionRoom(t *testing.T) {
	a := &hf.Architecture{Heads: 16, KVHeads: 1, HeadDim: 16, Forward: hf.Forward{AttnScale: 1}}
	s := attention(t, a, 1, 0, 1)
	const context = leastScores/tile + 100
	h := &history{session: s.sequence(context, KVInt8)}
	r := rand.New(rand.NewPCG(31, 99))
	for range context - 5 {
		h.session.tokens = append(h.session.tokens, 0)
		h.k, h.v = append(h.k, make([]float32, 16)...), append(h.v, make([]float32, 16)...)
	}
	s.check(t, r, 0, []*history{h}, []int{4})
	s.check(t, r, 0, []*history{h}, []int{1})
	if n := len(s.walkers[0].att.scores); n > 2*leastScores {
		t.Errorf("room for %d scores", n)
	}
}

// BenchmarkAttention is attention in all layers of a model: for a token behind depth others, or for the prefill of so many.
func BenchmarkAttention(b *testing.B) {
	for _, c := range []struct {
		name                        string
		layers, heads, kvHeads, dim int
		depth, tokens               int
		kv                          KV
	}{
		{"1.1B/decode/f32", 22, 32, 4, 64, 4096, 1, KVF32}, {"1.1B/decode/bf16", 22, 32, 4, 64, 4096, 1, KVBF16},
		{"1.1B/decode/f16", 22, 32, 4, 64, 4096, 1, KVF16}, {"1.1B/decode/int8", 22, 32, 4, 64, 4096, 1, KVInt8},
		{"1.1B/prefill/f32", 22, 32, 4, 64, 0, 512, KVF32}, {"1.1B/prefill/bf16", 22, 32, 4, 64, 0, 512, KVBF16},
		{"135M/decode/f32", 30, 9, 3, 64, 128, 1, KVF32}, {"135M/prefill/f32", 30, 9, 3, 64, 0, 512, KVF32},
	} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", c.name, threads), func(b *testing.B) {
				a := &hf.Architecture{Heads: c.heads, KVHeads: c.kvHeads, HeadDim: c.dim, Forward: hf.Forward{AttnScale: 0.125}}
				s := attention(b, a, c.layers, 0, threads)
				for _, x := range [][]float32{s.q, s.k, s.v} {
					for i := range x {
						x[i] = float32(i%17)/8 - 1
					}
				}
				session := s.sequence(c.depth+c.tokens, c.kv)
				for i := range session.layers {
					for _, x := range [][]byte{session.layers[i].keys, session.layers[i].values} {
						for size := c.kv.bytes(c.dim); len(x) > 0; x = x[size:] {
							c.kv.store(x, s.k[:c.dim])
						}
					}
				}
				session.tokens = make([]int32, 0, c.depth+c.tokens)
				for b.Loop() {
					session.tokens = session.tokens[:c.depth]
					for left := c.tokens; left > 0; left -= chunk {
						s.begin()
						for range min(left, chunk) {
							s.push(session, 0, 0, 0, 0, false)
						}
						s.m.team.run(s.step)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*c.layers), "µs/layer")
			})
		}
	}
}
