package runtime

import (
	"slices"

	"nibble/hf"
	"nibble/internal/kernel"
)

// routing is the work of a mixture layer: which tokens go to which expert.
type routing struct {
	probs  []float32 // [n, experts]
	chosen []int     // [n, top k], in falling order of probability
	weight []float32 // [n, top k]
	tokens [][]int   // of every expert
	factor [][]float32
	in     []float32 // inputs of one expert's tokens [m, hidden]
	gate   []float32 // [m, width]
	up     []float32
	out    []float32 // [m, hidden]
}

func newRouting(a *hf.Architecture, width int) routing {
	r := routing{probs: make([]float32, chunk*a.Experts), chosen: make([]int, chunk*a.TopK), weight: make([]float32, chunk*a.TopK),
		tokens: make([][]int, a.Experts), factor: make([][]float32, a.Experts),
		in: make([]float32, chunk*a.Hidden), gate: make([]float32, chunk*width), up: make([]float32, chunk*width), out: make([]float32, chunk*a.Hidden)}
	for e := range r.tokens {
		r.tokens[e], r.factor[e] = make([]int, 0, chunk), make([]float32, 0, chunk)
	}
	return r
}

// mixture adds up the chosen experts of every token, in the order of the experts.
func (w *walker) mixture(l *layer, in []float32) {
	s, a := w.s, w.m.Arch
	r := &s.moe
	w.multiply(l.route, in, s.n, w.solo, target{r.probs, a.Experts})
	w.sync(opRouter)
	lo, hi := w.team.share(w.tid, s.n, 1)
	for t := lo; t < hi; t++ {
		w.choose(t)
		clear(s.out[t*a.Hidden : (t+1)*a.Hidden])
	}
	w.sync(opRouter)
	if w.tid == 0 {
		r.gather(s.n, a.TopK)
	}
	w.sync(opRouter)
	for e := range l.experts {
		if len(r.tokens[e]) > 0 {
			w.expert(&l.experts[e], in, r.tokens[e], r.factor[e])
		}
	}
}

// choose finds the experts of token t, all different. Of equal probabilities the first counts as larger.
func (w *walker) choose(t int) {
	a, r := w.m.Arch, &w.s.moe
	p := r.probs[t*a.Experts : (t+1)*a.Experts]
	kernel.Softmax(p)
	chosen, weight := r.chosen[t*a.TopK:(t+1)*a.TopK], r.weight[t*a.TopK:(t+1)*a.TopK]
	var sum float32
	for i := range chosen {
		best := -1
		for e := range p {
			if !slices.Contains(chosen[:i], e) && (best < 0 || p[e] > p[best]) {
				best = e
			}
		}
		chosen[i], weight[i] = best, p[best]
		sum += p[best]
	}
	if a.NormTopK {
		for i := range weight {
			weight[i] /= sum
		}
	}
}

// gather lists the tokens of every expert.
func (r *routing) gather(n, k int) {
	for e := range r.tokens {
		r.tokens[e], r.factor[e] = r.tokens[e][:0], r.factor[e][:0]
	}
	for i := range n * k {
		e := r.chosen[i]
		r.tokens[e] = append(r.tokens[e], i/k)
		r.factor[e] = append(r.factor[e], r.weight[i])
	}
}

// expert runs one expert over its tokens. With one token every thread has its input.
func (w *walker) expert(e *expert, in []float32, tokens []int, factor []float32) {
	s, d := w.s, w.m.Arch.Hidden
	r, n, f := &s.moe, len(tokens), e.down.k
	lo, hi := w.team.share(w.tid, n, 1)
	if !w.solo {
		for i := lo; i < hi; i++ {
			copy(r.in[i*d:(i+1)*d], in[tokens[i]*d:])
		}
		in = r.in
	}
	w.multiplyGated(e.expand, in, n, w.solo, r.gate, r.up, f)
	w.sync(opExperts)
	w.multiply(e.contract, r.up, n, w.solo, target{r.out, d})
	w.sync(opExperts)
	for i := lo; i < hi; i++ {
		kernel.Axpy(s.out[tokens[i]*d:(tokens[i]+1)*d], factor[i], r.out[i*d:(i+1)*d])
	}
	w.sync(opExperts)
}
