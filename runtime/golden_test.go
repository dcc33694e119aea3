package runtime

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"nibble/internal/kernel"
)

// Every variant gives the reference's logits within float32 noise, its score of the prompt, and its greedy tokens.
func TestGolden(t *testing.T) {
	for _, g := range variants(t, false) {
		t.Run(g.Name, func(t *testing.T) {
			m := g.load(t, F32, 2)
			s := newSession(t, m, len(g.Tokens)+len(g.Greedy), KVF32)
			got := forward(t, m, s, g.Tokens)
			worst := distance(got, g.Logits)
			t.Logf("worst logit %.1e from the reference, noise %.1e, allowed %.0e", worst, g.Noise, g.Atol)
			if worst > g.Atol {
				t.Errorf("worst logit %.1e from the reference, noise %.1e, allowed %.0e", worst, g.Noise, g.Atol)
			}
			var sum float64
			for i, next := range g.Tokens[1:] {
				sum += logprob(got[i], next)
			}
			if math.Abs(sum-g.SumLogprob) > 1e-5*math.Abs(g.SumLogprob) {
				t.Errorf("log probability %v, want %v", sum, g.SumLogprob)
			}
			next := argmax(got[len(got)-1])
			for i, want := range g.Greedy {
				if next != want {
					t.Fatalf("token %d of the continuation is %d, want %d", i, next, want)
				}
				if i < len(g.Greedy)-1 {
					next = argmax(forward(t, m, s, []int32{next})[0])
				}
			}
		})
	}
}

// logprob returns log softmax(logits)[id].
func logprob(logits []float32, id int32) float64 {
	most := slices.Max(logits)
	var sum float64
	for _, v := range logits {
		sum += math.Exp(float64(v - most))
	}
	return float64(logits[id]-most) - math.Log(sum)
}

// The frequencies of every layer are the reference's but for its float32: a few units in the last place.
func TestRope(t *testing.T) {
	const rounding = 1e-6 // relative; the reference is off by up to 5e-7
	for _, g := range variants(t, false) {
		m := g.load(t, F32, 1)
		for i := range m.layers {
			l := &m.layers[i]
			want, ok := g.Rope["all"]
			if !ok && l.Window > 0 {
				want = g.Rope["sliding_attention"]
			} else if !ok {
				want = g.Rope["full_attention"]
			}
			if l.rope < 0 {
				if g.Rope != nil && g.Name[:7] != "smollm3" { // which has layers without
					t.Errorf("%s: layer %d has no rope", g.Name, i)
				}
				continue
			}
			freq, factor := m.ropes[l.rope].InvFreq(len(g.Tokens))
			if len(freq) != len(want.InvFreq) {
				t.Errorf("%s: layer %d rotates %d pairs, want %d", g.Name, i, len(freq), len(want.InvFreq))
				continue
			}
			for j, f := range append(freq, factor) {
				w := append(slices.Clone(want.InvFreq), want.Factor)[j]
				if math.Abs(float64(f-w)) > rounding*float64(w) {
					t.Errorf("%s: layer %d: frequency %d is %v, want %v", g.Name, i, j, f, w)
				}
			}
		}
	}
}

// Between the layers the residual stream is the reference's, and the last token goes to the same experts. This finds the
// layer where TestGolden only says that something is wrong.
func TestHidden(t *testing.T) {
	for _, g := range variants(t, false) {
		t.Run(g.Name, func(t *testing.T) {
			m := g.load(t, F32, 1)
			s := newState(m, m.team)
			session := newSession(t, m, len(g.Tokens), KVF32)
			s.begin()
			for i, id := range g.Tokens {
				s.push(session, id, len(g.Tokens), 0, i, true)
			}
			w, d := s.walkers[0], m.Arch.Hidden
			s.logits = make([]float32, len(g.Tokens)*m.Width())
			check := func(name string, x []float32) {
				want, ok := g.Hidden[name]
				if !ok {
					t.Fatalf("no %s in the fixture", name)
				}
				tol := 8*want.Noise + 1e-6
				n := len(g.Tokens)
				for i, v := range want.First {
					if got := float64(x[(n-1)*d+i]); !(math.Abs(got-v) <= tol) {
						t.Errorf("%s: value %d of the last token is %v, want %v", name, i, got, v)
					}
				}
				if got := norm2(x[:n*d]); !(math.Abs(got-want.Norm) <= tol*math.Sqrt(float64(n*d))) {
					t.Errorf("%s: norm %v, want %v", name, got, want.Norm)
				}
			}
			w.embed()
			w.angles()
			check("embed", s.x)
			for i := range m.layers {
				w.layerStep(&m.layers[i], i)
				check(fmt.Sprintf("layer.%d", i), s.x)
				if want, ok := g.Router[fmt.Sprintf("router.%d", i)]; ok {
					last := len(g.Tokens) - 1
					got := s.moe.chosen[last*m.Arch.TopK : (last+1)*m.Arch.TopK]
					if !slices.Equal(got, want.Experts) {
						t.Errorf("layer %d: experts %v, want %v", i, got, want.Experts)
					}
					checkRouter(t, s.moe.probs[last*m.Arch.Experts:(last+1)*m.Arch.Experts], want.Logits)
				} else if m.layers[i].router != nil {
					t.Errorf("no router.%d in the fixture", i)
				}
			}
			w.output()
			check("final_norm", s.norm)
		})
	}
}

func norm2(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}

func checkRouter(t *testing.T, probs []float32, logits []float64) {
	t.Helper()
	want := make([]float32, len(logits))
	for i, v := range logits {
		want[i] = float32(v)
	}
	kernel.Softmax(want)
	for i, p := range probs {
		if !(math.Abs(float64(p-want[i])) < 1e-5) {
			t.Errorf("router: expert %d has %v, want %v", i, p, want[i])
		}
	}
}
