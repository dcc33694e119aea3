package runtime

import "nibble/internal/kernel"

// positions norms and rotates q and k of every token, and rounds k and v to what the cache will hold, so that a token
// sees the same keys whether they came with it or long before.
func (w *walker) positions(l *layer) {
	s, a := w.s, w.m.Arch
	d := a.HeadDim
	lo, hi := w.team.share(w.tid, s.n, 1)
	for t := lo; t < hi; t++ {
		q, k := s.q[t*a.Heads*d:(t+1)*a.Heads*d], s.k[t*a.KVHeads*d:(t+1)*a.KVHeads*d]
		w.normHeads(q, &l.qNorm, d)
		w.normHeads(k, &l.kNorm, d)
		if l.rope >= 0 {
			pairs := w.m.ropes[l.rope].Dim / 2
			cos, sin := s.cos[l.rope][t*pairs:(t+1)*pairs], s.sin[l.rope][t*pairs:(t+1)*pairs]
			for h := range a.Heads {
				kernel.Rotate(q[h*d:(h+1)*d], cos, sin)
			}
			for h := range a.KVHeads {
				kernel.Rotate(k[h*d:(h+1)*d], cos, sin)
			}
		}
		kv := s.slots[t].session.kv
		size := kv.bytes(d)
		for h := range a.KVHeads {
			at, from := t*s.stride+h*size, (t*a.KVHeads+h)*d
			kv.round(s.keys[at:at+size], k[h*d:(h+1)*d], w.bytes)
			kv.round(s.values[at:at+size], s.v[from:from+d], w.bytes)
		}
	}
}

// normHeads norms a vector of heads: as a whole if the weight is as long, else head by head.
func (w *walker) normHeads(x []float32, n *norm, d int) {
	switch {
	case n.weight == nil:
	case len(n.weight) == len(x):
		w.apply(x, x, n)
	default:
		for h := 0; h < len(x); h += d {
			w.apply(x[h:h+d], x[h:h+d], n)
		}
	}
}

// attend computes the attention of all heads of all tokens.
func (w *walker) attend(l *layer, index int) {
	s, a := w.s, w.m.Arch
	d := a.HeadDim
	scale := a.AttnScale
	if a.ScaleByLayer {
		scale /= float32(index + 1)
	}
	lo, hi := w.team.share(w.tid, s.n*a.Heads, 1)
	for i := lo; i < hi; i++ {
		t, h := i/a.Heads, i%a.Heads
		x := &s.slots[t]
		first := 0 // position of the earliest visible token
		if l.Window > 0 {
			first = max(0, x.pos-l.Window+1)
		}
		scores := w.scores[:x.pos-first+1]
		v := w.view(x, index, h/(a.Heads/a.KVHeads))
		v.scores(scores, s.q[i*d:(i+1)*d], first)
		for j, score := range scores {
			score *= scale
			if a.AttnSoftcap != 0 {
				score = kernel.Softcap(score, a.AttnSoftcap)
			}
			scores[j] = score
		}
		kernel.Softmax(scores)
		out := s.att[i*d : (i+1)*d]
		clear(out)
		v.sum(out, scores, first)
		if l.headGate != nil {
			g := s.gates[i]
			if a.GateSiLU {
				g = kernel.SiLU(g)
			} else {
				g = kernel.Sigmoid(g)
			}
			for j := range out {
				out[j] *= g
			}
		}
	}
}

// view is what a token sees of one key/value head: tokens before the chunk in the ring, those of the chunk beside it.
type view struct {
	kv          KV
	ring        *ring
	dim, size   int // of a vector: elements, bytes
	base        int // position of the first token of the chunk
	heads, head int
	k, v        []float32 // [tokens from base, heads, dim]
	buffer      []float32 // [dim]
}

func (w *walker) view(x *slot, layer, head int) view {
	s, a := w.s, w.m.Arch
	from := x.first * a.KVHeads * a.HeadDim
	return view{kv: x.session.kv, ring: &x.session.layers[layer], dim: a.HeadDim, size: x.session.kv.bytes(a.HeadDim), base: x.base,
		heads: a.KVHeads, head: head, k: s.k[from:], v: s.v[from:], buffer: w.head}
}

// scores sets scores[j] = q · key of position first+j.
func (v *view) scores(scores, q []float32, first int) {
	slot := first % v.ring.size
	for j := range scores {
		if pos := first + j; pos >= v.base {
			at := ((pos-v.base)*v.heads + v.head) * v.dim
			scores[j] = kernel.Dot(q, v.k[at:at+v.dim])
			continue
		}
		scores[j] = v.kv.dot(q, v.ring.keys[(slot*v.heads+v.head)*v.size:], v.buffer)
		if slot++; slot == v.ring.size {
			slot = 0
		}
	}
}

// sum adds weights[j] · value of position first+j to out, in the order of positions.
func (v *view) sum(out, weights []float32, first int) {
	slot := first % v.ring.size
	for j, weight := range weights {
		if pos := first + j; pos >= v.base {
			at := ((pos-v.base)*v.heads + v.head) * v.dim
			kernel.Axpy(out, weight, v.v[at:at+v.dim])
			continue
		}
		v.kv.load(v.buffer, v.ring.values[(slot*v.heads+v.head)*v.size:])
		kernel.Axpy(out, weight, v.buffer)
		if slot++; slot == v.ring.size {
			slot = 0
		}
	}
}

// remember puts keys and values of the chunk into the caches. Later tokens of a chunk may take the slots of earlier ones.
func (w *walker) remember(index int) {
	s, a := w.s, w.m.Arch
	lo, hi := w.team.share(w.tid, a.KVHeads, 1)
	for t := range s.n {
		x := &s.slots[t]
		r := &x.session.layers[index]
		size := x.session.kv.bytes(a.HeadDim)
		for h := lo; h < hi; h++ {
			to, from := (x.pos%r.size*a.KVHeads+h)*size, t*s.stride+h*size
			copy(r.keys[to:to+size], s.keys[from:])
			copy(r.values[to:to+size], s.values[from:])
		}
	}
}
