package runtime

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"nibble/build"
	"nibble/hf"
	"nibble/internal/kernel"
	"nibble/quant"
)

// Stages runs a model layer by layer and stage by stage over whole sequences: a quantizer looks at what a matrix receives,
// puts the quantized one in its place, and goes on with what that makes of it. Matrices of one layer are in memory at a time.
//
// Inputs of matrices are rows of bfloat16, little-endian, one behind the other; the residual stream is float32.
type Stages struct {
	m     *Model
	b     build.Build // with the quantized matrices
	l     *reader
	own   map[string]quant.Linear // matrices that the build has quantized
	layer int                     // whose matrices are in memory; -1: none, or those outside the layers
}

// OpenStages prepares a model. Mode is that of the products; threads read weights.
func OpenStages(b *build.Build, mode Mode, threads int) (*Stages, error) {
	m, err := newModel(b, mode)
	if err != nil {
		return nil, err
	}
	s := &Stages{m: m, b: *b, own: b.Linears, layer: -1}
	if s.m.team, err = newTeam(1, nil); err != nil {
		return nil, err
	}
	s.l = &reader{b: &s.b, m: s.m, threads: max(threads, 1)}
	return s, s.m.readVectors(s.l)
}

// Close gives the memory back.
func (s *Stages) Close() { s.m.Close() }

// leave forgets the matrices that are in memory.
func (s *Stages) leave() {
	m := s.m
	m.weights.close()
	m.columns, m.embed, m.positions, m.head, m.logits = nil, nil, nil, nil, nil
	if s.layer >= 0 {
		l, was := &m.layers[s.layer], m.layers[s.layer]
		*l = layer{Block: was.Block, rope: was.rope, attnNorm: was.attnNorm, attnOut: was.attnOut,
			mlpNorm: was.mlpNorm, mlpOut: was.mlpOut, qNorm: was.qNorm, kNorm: was.kNorm}
	}
	s.layer, s.b.Linears = -1, map[string]quant.Linear{}
	maps.Copy(s.b.Linears, s.own)
}

// Embed calls put with every sequence's residual stream [len(ids), hidden] before the first layer.
func (s *Stages) Embed(sequences [][]int32, put func(i int, h []float32) error) error {
	s.leave()
	defer s.leave()
	row, d := s.b.Row(hf.Embedding), s.m.Arch.Hidden
	if row == nil {
		return errors.New("runtime: the embedding is missing")
	}
	rows, err := s.openLookup(row)
	if err != nil {
		return err
	}
	other := func(t hf.Tensor) bool { return t.Role != hf.Position }
	if err := s.m.readMatrices(s.l, slices.DeleteFunc(slices.Clone(s.b.Tensors), other)); err != nil {
		return err
	}
	v := verifier{}
	v.is("the embedding", s.m.embed, -1, d)
	if s.m.positions != nil {
		v.is("the table of positions", s.m.positions, -1, d)
	}
	if v.err != nil {
		return v.err
	}
	lane := s.Lane()
	for i, ids := range sequences {
		if m := s.m.positions; m != nil && len(ids) > m.n {
			return fmt.Errorf("runtime: a sequence of %d tokens: the model has %d positions", len(ids), m.n)
		}
		h := make([]float32, len(ids)*d)
		for at := 0; at < len(ids); at += chunk {
			part := ids[at:min(at+chunk, len(ids))]
			lane.begin(at, len(part), len(ids))
			for j, id := range part {
				if err := inVocabulary(id, at+j, row.Out()); err != nil {
					return err
				}
				if lane.s.slots[j].id = id; rows != nil {
					lane.s.slots[j].id = int32(j)
					if err := rows.fetch(j, id); err != nil {
						return err
					}
				}
			}
			lane.w.embed()
			copy(h[at*d:(at+len(part))*d], lane.s.x)
		}
		if err := put(i, h); err != nil {
			return err
		}
	}
	return nil
}

// Enter reads the matrices of a layer. Lanes made before are of no more use.
func (s *Stages) Enter(index int) error {
	s.leave()
	other := func(t hf.Tensor) bool { return t.Layer != index }
	if err := s.m.readMatrices(s.l, slices.DeleteFunc(slices.Clone(s.b.Tensors), other)); err != nil {
		return err
	}
	s.layer = index
	v := verifier{}
	s.m.verifyLayer(&v, index)
	if v.err != nil {
		return v.err
	}
	s.m.divideLayer(&s.m.layers[index], 1)
	return nil
}

// Replace puts quantized matrices in the place of rows of the table of the present layer. Where only one of gate and up of an
// MLP comes, the other is read again as it was, since they share panels no more.
func (s *Stages) Replace(linears map[string]quant.Linear) error {
	type pair struct {
		expert int
		is     bool
	}
	of := func(t *hf.Tensor) pair { return pair{t.Expert, t.Role == hf.Gate || t.Role == hf.Up} }
	touched := map[pair]bool{}
	for i := range s.b.Tensors {
		if t := &s.b.Tensors[i]; t.Layer == s.layer && linears[t.Name] != nil {
			s.b.Linears[t.Module()] = linears[t.Name]
			touched[of(t)] = of(t).is
		}
	}
	var rows []hf.Tensor
	for _, t := range s.b.Tensors {
		if t.Layer != s.layer || linears[t.Name] == nil && !touched[of(&t)] {
			continue
		}
		module := t.Module()
		if s.b.Linears[module] != nil {
			t.Source, t.PartOf = "", ""
		}
		rows = append(rows, t)
		for _, bias := range s.b.Tensors {
			if bias.Role == hf.Bias && bias.Name == module+".bias" {
				rows = append(rows, bias)
			}
		}
	}
	if len(rows) == 0 {
		return fmt.Errorf("runtime: no matrix to replace in layer %d", s.layer)
	}
	if err := s.m.readMatrices(s.l, rows); err != nil {
		return err
	}
	s.m.divideLayer(&s.m.layers[s.layer], 1)
	return nil
}

// SetNorm changes the weight of a norm.
func (s *Stages) SetNorm(t *hf.Tensor, weight []float32) { s.m.norm(t).weight = weight }

// Lane is one thread's part in the stages of a layer, for one sequence at a time. What it computes depends on the sequence
// alone.
type Lane struct {
	m       *Model
	s       *state
	w       *walker
	l       *layer
	index   int
	session *Session
}

// Lane returns a lane for the present layer.
func (s *Stages) Lane() *Lane {
	st := newState(s.m, s.m.team)
	x := &Lane{m: s.m, s: st, w: st.walkers[0], index: s.layer, session: &Session{m: s.m, kv: KVF32}}
	if s.layer >= 0 {
		x.l = &s.m.layers[s.layer]
		x.session.layers = make([]ring, s.layer+1)
	}
	return x
}

// begin starts a chunk: n tokens from position at on of a sequence of total tokens.
func (x *Lane) begin(at, n, total int) {
	x.s.begin()
	for i := range n {
		x.s.slots = append(x.s.slots, slot{session: x.session, pos: at + i, base: at, total: total, logit: -1})
	}
	x.s.n = n
}

// each runs f for every chunk of n rows.
func each(n int, f func(at, rows int)) {
	for at := 0; at < n; at += chunk {
		f(at, min(chunk, n-at))
	}
}

// normed sets x to the norm of the residual stream h [n, hidden], or to h itself where there is none.
func (x *Lane) normed(dst []byte, h []float32, n *norm) {
	d := x.m.Arch.Hidden
	for t := 0; t*d < len(h); t++ {
		row := h[t*d : (t+1)*d]
		if n.weight != nil {
			x.w.apply(x.w.norm, row, n)
			row = x.w.norm
		}
		kernel.NarrowBF16(dst[2*t*d:], row)
	}
}

// AttentionInput sets x [n, hidden] to what q, k and v receive.
func (x *Lane) AttentionInput(dst []byte, h []float32) { x.normed(dst, h, &x.l.attnNorm) }

// MLPInput sets x [n, hidden] to what the MLP receives.
func (x *Lane) MLPInput(dst []byte, h []float32) { x.normed(dst, h, &x.l.mlpNorm) }

// HeadInput sets x [n, hidden] to what the head receives.
func (x *Lane) HeadInput(dst []byte, h []float32) { x.normed(dst, h, &x.m.final) }

// Attend sets ctx [n, heads·head_dim] to what o receives when q, k and v receive x [n, hidden]. With a mass [n] that is not
// nil it sets that instead, to the attention that each position receives: the sum of its probabilities over all queries,
// divided by the number of heads. Its mean is 1.
func (x *Lane) Attend(ctx []byte, mass []float32, in []byte) {
	a := x.m.Arch
	d, q := a.Hidden, a.Heads*a.HeadDim
	n := len(in) / 2 / d
	x.room(n)
	clear(mass)
	x.w.mass = mass
	each(n, func(at, rows int) {
		x.begin(at, rows, n)
		x.w.angles()
		kernel.WidenBF16(x.s.norm[:rows*d], in[2*at*d:])
		x.w.attention(x.l, x.index, x.s.norm)
		if mass == nil {
			kernel.NarrowBF16(ctx[2*at*q:], x.s.att[:rows*q])
		}
	})
	if mass != nil {
		kernel.Scale(mass, 1/float32(a.Heads))
	}
}

// AddAttention adds to h [n, hidden] what the layer's o makes of ctx [n, heads·head_dim].
func (x *Lane) AddAttention(h []float32, ctx []byte) {
	a := x.m.Arch
	d, q := a.Hidden, a.Heads*a.HeadDim
	each(len(h)/d, func(at, rows int) {
		x.begin(at, rows, len(h)/d)
		kernel.WidenBF16(x.s.att[:rows*q], ctx[2*at*q:])
		x.w.multiply(x.l.output, x.s.att, rows, false, target{x.s.out, d})
		x.add(h[at*d:(at+rows)*d], x.s.out, &x.l.attnOut)
	})
}

// add adds out, normed where the architecture says so, to h.
func (x *Lane) add(h, out []float32, n *norm) {
	d := x.m.Arch.Hidden
	for t := 0; t*d < len(h); t++ {
		row := out[t*d : (t+1)*d]
		if n.weight != nil {
			x.w.apply(x.w.norm, row, n)
			row = x.w.norm
		}
		kernel.Axpy(h[t*d:(t+1)*d], x.m.Arch.ResidualScale, row)
	}
}

// AddMLP adds to h [n, hidden] the outputs of the layer's MLP or of its experts, out [n, hidden].
func (x *Lane) AddMLP(h, out []float32) { x.add(h, out, &x.l.mlpOut) }

// Route sets the experts of n tokens, [n, top k], and their weights, for what the MLP receives.
func (x *Lane) Route(chosen []int, weight []float32, in []byte) {
	a := x.m.Arch
	d, r := a.Hidden, &x.s.moe
	each(len(in)/2/d, func(at, rows int) {
		x.begin(at, rows, len(in)/2/d)
		kernel.WidenBF16(x.s.norm[:rows*d], in[2*at*d:])
		x.w.multiply(x.l.route, x.s.norm, rows, false, target{r.probs, a.Experts})
		for t := range rows {
			x.w.choose(t)
		}
		copy(chosen[at*a.TopK:], r.chosen[:rows*a.TopK])
		copy(weight[at*a.TopK:], r.weight[:rows*a.TopK])
	})
}

// mlp returns the matrices of an expert, or of the dense MLP for -1.
func (x *Lane) mlp(e int) (expand, contract *group, width int) {
	if e < 0 {
		return x.l.expand, x.l.contract, x.l.down.k
	}
	m := &x.l.experts[e]
	return m.expand, m.contract, m.down.k
}

// Expand sets act [n, width] to what down receives when gate and up of an expert, or of the dense MLP for -1, receive in
// [n, hidden].
func (x *Lane) Expand(act []byte, e int, in []byte) {
	d := x.m.Arch.Hidden
	g, _, f := x.mlp(e)
	each(len(in)/2/d, func(at, rows int) {
		kernel.WidenBF16(x.s.norm[:rows*d], in[2*at*d:])
		x.w.multiplyGated(g, x.s.norm, rows, false, x.s.gate, x.s.up, f)
		kernel.NarrowBF16(act[2*at*f:], x.s.up[:rows*f])
	})
}

// Contract sets out [n, hidden] to what down makes of act [n, width].
func (x *Lane) Contract(out []float32, e int, act []byte) {
	d := x.m.Arch.Hidden
	_, g, f := x.mlp(e)
	each(len(act)/2/f, func(at, rows int) {
		kernel.WidenBF16(x.s.up[:rows*f], act[2*at*f:])
		x.w.multiply(g, x.s.up, rows, false, target{out[at*d:], d})
	})
}
