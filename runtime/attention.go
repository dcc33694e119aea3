package runtime

import "nibble/internal/kernel"

// positions norms and rotates q and k of every token, and brings k and v into the form of the cache, so that a token sees
// the same keys whether they came with it or long before.
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
			at, from := t*s.apart()+h*size, (t*a.KVHeads+h)*d
			kv.store(s.keys[at:at+size], k[h*d:(h+1)*d])
			kv.store(s.values[at:at+size], s.v[from:from+d])
		}
	}
}

// apart returns the bytes from one token's keys or values to the next one's in the chunk: room for any type of cache, and
// for heads of 16 elements and more a number of whole cache lines.
func (s *state) apart() int {
	a := s.m.Arch
	return a.KVHeads * max(KVF32.bytes(a.HeadDim), KVInt8.bytes(a.HeadDim))
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

// attending is what a thread needs for attention.
type attending struct {
	scores []float32 // of a block
	vector []float32 // [head_dim]
}

const (
	leastScores = 1 << 16  // that a thread has room for: what stays in its caches
	tile        = 8        // query rows that share a key while it is in a register
	nearBytes   = 16 << 10 // of keys or values that all rows of a block use before the next are read
)

// rowRoom returns how far the rows of scores of so many positions are apart: behind them is what kernel.Scores needs.
func rowRoom(positions int) int { return (positions + 31) &^ 15 }

// size makes room for the scores of contexts of so many tokens.
func (b *attending) size(m *Model, context int) {
	a := m.Arch
	if need := max(leastScores, min(a.Heads/a.KVHeads, tile)*rowRoom(context)); len(b.scores) < need {
		b.scores, b.vector = make([]float32, need), make([]float32, a.HeadDim)
	}
}

// attend computes the attention of all heads of all tokens. Rows of queries are in the order of key heads, tokens, and
// heads of the group. Threads share them by tokens or, where there are few, head by head.
func (w *walker) attend(l *layer, index int) {
	s, a := w.s, w.m.Arch
	unit := a.Heads / a.KVHeads
	if s.n*a.KVHeads < tile*w.team.size {
		unit = 1
	}
	lo, hi := w.team.share(w.tid, s.n*a.Heads, unit)
	for lo < hi {
		b := w.block(l, index, lo, hi)
		b.attend()
		lo += b.tokens * b.heads
	}
}

// block is a part of the queries: heads of the group of one key head, for consecutive tokens of one sequence.
type block struct {
	w            *walker
	l            *layer
	index        int   // of the layer
	x            *slot // the first token
	head         int   // of keys and values
	t, tokens    int
	h, heads     int  // query heads
	first, end   int  // positions that one of the tokens sees
	apart        int  // elements from one row of scores to the next
	across       bool // rows that share keys are those of one head, for all tokens; else of one token, for all heads
	inner, outer int  // rows that share keys, and how often there are so many
	step         int  // query heads from one of the rows that share keys to the next
}

// block returns the largest block at the front of the rows lo to hi.
func (w *walker) block(l *layer, index, lo, hi int) block {
	s, a := w.s, w.m.Arch
	group := a.Heads / a.KVHeads
	head, at := lo/(s.n*group), lo%(s.n*group)
	b := block{w: w, l: l, index: index, head: head, t: at / group, tokens: 1}
	b.x = &s.slots[b.t]
	w.att.size(w.m, b.x.session.context)
	b.first, b.end = b.sees(b.t)
	b.apart = rowRoom(b.end - b.first)
	b.h, b.heads = head*group+at%group, min(group-at%group, hi-lo, len(w.att.scores)/b.apart)
	if b.heads == group {
		most := min(hi-lo, s.n*group-at) / group
		for b.tokens < most && s.slots[b.t+b.tokens].session == b.x.session {
			_, end := b.sees(b.t + b.tokens)
			apart := rowRoom(end - b.first)
			if (b.tokens+1)*group*apart > leastScores {
				break
			}
			b.tokens, b.end, b.apart = b.tokens+1, end, apart
		}
	}
	b.across = b.tokens >= b.heads
	b.inner, b.outer, b.step = b.heads, b.tokens, 1
	if b.across {
		b.inner, b.outer, b.step = b.tokens, b.heads, a.Heads
	}
	return b
}

// sees returns the positions, end excluded, that a token of the chunk sees.
func (b *block) sees(t int) (first, end int) {
	pos := b.w.s.slots[t].pos
	if b.l.Window > 0 {
		first = max(0, pos-b.l.Window+1)
	}
	return first, pos + 1
}

// row returns the token and the query head of row i of the rows o that share keys.
func (b *block) row(o, i int) (t, h int) {
	if b.across {
		return b.t + i, b.h + o
	}
	return b.t + o, b.h + i
}

// attend computes the rows of a block.
func (b *block) attend() {
	w := b.w
	s, a := w.s, w.m.Arch
	d := a.HeadDim
	b.score()
	scale := a.AttnScale
	if a.ScaleByLayer {
		scale /= float32(b.index + 1)
	}
	for o := range b.outer {
		for i := range b.inner {
			t, h := b.row(o, i)
			first, end := b.sees(t)
			at := (o*b.inner+i)*b.apart - b.first
			scores := w.att.scores[at+first : at+end]
			if a.AttnSoftcap != 0 {
				kernel.Scale(scores, scale)
				kernel.Softcaps(scores, a.AttnSoftcap)
				kernel.Softmax(scores)
			} else {
				kernel.SoftmaxScaled(scores, scale)
			}
			if w.mass != nil {
				kernel.Axpy(w.mass[first:end], 1, scores)
				continue
			}
			clear(s.att[(t*a.Heads+h)*d:][:d])
		}
	}
	if w.mass != nil {
		return
	}
	b.sum()
	if b.l.headGate == nil {
		return
	}
	for t := b.t; t < b.t+b.tokens; t++ {
		for h := b.h; h < b.h+b.heads; h++ {
			i := t*a.Heads + h
			gate := kernel.Sigmoid
			if a.GateSiLU {
				gate = kernel.SiLU
			}
			kernel.Scale(s.att[i*d:(i+1)*d], gate(s.gates[i]))
		}
	}
}

// vectors returns keys or values from a position on, as many as lie one behind the other and are near. Those of tokens
// before the chunk are in the ring, those of the chunk beside it.
func (b *block) vectors(pos int, values bool) kernel.Vectors {
	s, a := b.w.s, b.w.m.Arch
	kv := b.x.session.kv
	size := kv.bytes(a.HeadDim)
	v := kernel.Vectors{Type: kernel.Stored(kv), N: min(b.end-pos, max(1, nearBytes/size))}
	if pos >= b.x.base {
		v.Data, v.Stride = s.keys, s.apart()
		if values {
			v.Data = s.values
		}
		v.Data = v.Data[(b.x.first+pos-b.x.base)*v.Stride+b.head*size:]
		return v
	}
	r := &b.x.session.layers[b.index]
	slot := pos % r.size
	v.N, v.Stride = min(v.N, b.x.base-pos, r.size-slot), size
	v.Data = r.keys
	if values {
		v.Data = r.values
	}
	v.Data = v.Data[(b.head*r.size+slot)*size:]
	return v
}

// score fills the scores of the block: in row r, from r·apart on, those of the positions from first on.
func (b *block) score() {
	w := b.w
	a, d := w.m.Arch, w.m.Arch.HeadDim
	for pos := b.first; pos < b.end; {
		keys := b.vectors(pos, false)
		for o := range b.outer {
			for i := 0; i < b.inner; i += tile {
				n := min(tile, b.inner-i)
				t, h := b.row(o, i)
				last, _ := b.row(o, i+n-1)
				lo, _ := b.sees(t)
				_, hi := b.sees(last)
				lo, hi = max(lo, pos), min(hi, pos+keys.N)
				if lo < hi {
					kernel.Scores(w.att.scores[(o*b.inner+i)*b.apart+lo-b.first:], b.apart, w.s.q[(t*a.Heads+h)*d:], b.step*d, n, d,
						keys.Slice(lo-pos, hi-pos), w.att.vector)
				}
			}
		}
		pos += keys.N
	}
}

// sum adds to every row of the result the values times their weights, in the order of positions.
func (b *block) sum() {
	for pos := b.first; pos < b.end; {
		values := b.vectors(pos, true)
		for o := range b.outer {
			for i := 0; i < b.inner; i += tile {
				n := min(tile, b.inner-i)
				t, _ := b.row(o, i)
				last, _ := b.row(o, i+n-1)
				// What all rows see, what only earlier tokens still see, and what only later ones do.
				_, hi := b.sees(t)
				lo, _ := b.sees(last)
				lo, hi = min(max(lo, pos), pos+values.N), max(min(hi, pos+values.N), pos)
				hi = max(lo, hi)
				for r := i; r < i+n; r++ {
					b.add(o, r, 1, &values, pos, pos, lo)
				}
				b.add(o, i, n, &values, pos, lo, hi)
				for r := i; r < i+n; r++ {
					b.add(o, r, 1, &values, pos, hi, pos+values.N)
				}
			}
		}
		pos += values.N
	}
}

// add adds the values of positions lo to hi, of which the first in v has position pos, to n rows that see them all or, if
// it is one row, those that it sees.
func (b *block) add(o, i, n int, v *kernel.Vectors, pos, lo, hi int) {
	t, h := b.row(o, i)
	if n == 1 {
		first, end := b.sees(t)
		lo, hi = max(lo, first), min(hi, end)
	}
	if lo >= hi {
		return
	}
	w := b.w
	a, d := w.m.Arch, w.m.Arch.HeadDim
	kernel.Values(w.s.att[(t*a.Heads+h)*d:], b.step*d, w.att.scores[(o*b.inner+i)*b.apart+lo-b.first:], b.apart, n, d,
		v.Slice(lo-pos, hi-pos), w.att.vector)
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
			to, from := (h*r.size+x.pos%r.size)*size, t*s.apart()+h*size
			copy(r.keys[to:to+size], s.keys[from:])
			copy(r.values[to:to+size], s.values[from:])
		}
	}
}
