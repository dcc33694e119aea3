package runtime

import (
	"context"
	"errors"
	"fmt"

	"nibble/hf"
	"nibble/internal/kernel"
)

// Input is a run of new tokens of one sequence.
type Input struct {
	Session *Session
	Tokens  []int32
	All     bool // logits of every token are wanted, not of the last alone
}

// Emit receives the logits [vocab] of token i of an input. The slice is reused.
type Emit func(input, i int, logits []float32)

// chunk is the most tokens that walk through the layers together.
const chunk = 128

// Forward runs tokens through the model and appends them to their sequences. The inputs belong to different sessions. A
// refused call changes nothing. emit may be nil, and may not call Forward.
func (m *Model) Forward(inputs []Input, emit Emit) error {
	return m.ForwardContext(context.Background(), inputs, emit)
}

// ForwardContext is Forward that ends early, between two chunks, when the context does. After that, and after logits that
// are not finite, the sessions of the call are good for Reset only.
func (m *Model) ForwardContext(ctx context.Context, inputs []Input, emit Emit) error {
	if !m.running.CompareAndSwap(false, true) {
		return errors.New("runtime: the model is closed or a forward pass is running")
	}
	defer m.running.Store(false)
	m.calls++
	for i := range inputs {
		if err := m.check(&inputs[i]); err != nil {
			return err
		}
	}
	if m.state == nil {
		m.state = newState(m, m.team)
	}
	s := m.state
	s.begin()
	for i := range inputs {
		in := &inputs[i]
		history, base := in.Tokens, len(in.Session.tokens)
		total := base + len(in.Tokens)
		if base > 0 && m.recomputes(base, total) {
			// The frequencies of all positions change: what the layers keep is of no use.
			history = append(append([]int32(nil), in.Session.tokens...), in.Tokens...)
			in.Session.Reset()
		}
		skip := len(history) - len(in.Tokens) // tokens that were run before
		for j, id := range history {
			want := emit != nil && j >= skip && (in.All || j == len(history)-1)
			s.push(in.Session, id, total, i, j-skip, want)
			if s.n < chunk {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := s.run(emit); err != nil {
				return err
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.run(emit)
}

// recomputes reports whether a sequence that grows from base to total tokens must be run anew: when longrope changes
// from its short to its long factors, as in transformers.
func (m *Model) recomputes(base, total int) bool {
	for _, r := range m.ropes {
		if r.Type == "longrope" && !r.Same(base, total) {
			return true
		}
	}
	return false
}

// check refuses tokens that cannot be run.
func (m *Model) check(in *Input) error {
	switch {
	case len(in.Tokens) == 0:
		return errors.New("runtime: no tokens to run")
	case in.Session == nil || in.Session.m != m:
		return errors.New("runtime: a session of another model")
	case in.Session.call == m.calls:
		return errors.New("runtime: two inputs of one session")
	}
	in.Session.call = m.calls
	if n := len(in.Session.tokens) + len(in.Tokens); n > in.Session.context {
		return fmt.Errorf("runtime: %d tokens do not fit the context of %d; start with a longer one (--context, the model has %d) or fewer tokens",
			n, in.Session.context, m.Limit())
	}
	for i, id := range in.Tokens {
		if err := inVocabulary(id, len(in.Session.tokens)+i, m.embed.n); err != nil {
			return err
		}
	}
	return nil
}

// inVocabulary refuses an id that a model does not have.
func inVocabulary(id int32, position, vocab int) error {
	if id < 0 || int(id) >= vocab {
		return fmt.Errorf("runtime: token %d at position %d: the model has %d", id, position, vocab)
	}
	return nil
}

// layerStep is one decoder block for one thread.
func (w *walker) layerStep(l *layer, index int) {
	s, a := w.s, w.m.Arch
	in := w.normed(&l.attnNorm)
	w.attention(l, index, in)
	w.multiply(l.output, s.att, s.n, w.solo, target{s.out, a.Hidden})
	w.sync(opO)
	w.residual(&l.attnOut)
	in = w.normed(&l.mlpNorm)
	if l.router != nil {
		w.mixture(l, in)
	} else {
		w.mlp(l, in)
	}
	w.residual(&l.mlpOut)
}

// attention fills att from the inputs of q, k and v, and the caches.
func (w *walker) attention(l *layer, index int, in []float32) {
	s, a := w.s, w.m.Arch
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	w.multiply(l.attention, in, s.n, w.solo, target{s.q, q}, target{s.k, kv}, target{s.v, kv}, target{s.gates, a.Heads})
	w.sync(opQKV)
	w.positions(l)
	w.sync(opAttention)
	w.attend(l, index)
	w.sync(opAttention)
	w.remember(index)
}

// normed returns the residual stream after a norm, or itself where the architecture has none there; this thread's rows.
func (w *walker) normed(n *norm) []float32 {
	lo, hi, x, dst := w.mine()
	if n.weight == nil {
		return x
	}
	d := w.m.Arch.Hidden
	for t := lo; t < hi; t++ {
		w.apply(dst[t*d:(t+1)*d], x[t*d:(t+1)*d], n)
	}
	w.clock.lap(opNorm)
	return dst
}

// apply norms one vector.
func (w *walker) apply(dst, x []float32, n *norm) {
	a := w.m.Arch
	if a.LayerNorm {
		kernel.LayerNorm(dst, x, n.weight, n.bias, a.Eps)
		return
	}
	kernel.RMSNorm(dst, x, n.weight, a.Eps, a.NormPlusOne)
}

// residual adds out, normed where the architecture says so, to this thread's rows of the residual stream.
func (w *walker) residual(n *norm) {
	s, a := w.s, w.m.Arch
	d := a.Hidden
	lo, hi, x, scratch := w.mine()
	for t := lo; t < hi; t++ {
		out := s.out[t*d : (t+1)*d]
		if n.weight != nil {
			w.apply(scratch[t*d:(t+1)*d], out, n)
			out = scratch[t*d : (t+1)*d]
		}
		kernel.Axpy(x[t*d:(t+1)*d], a.ResidualScale, out)
	}
	w.clock.lap(opNorm)
}

// mlp is down(act(gate·x) ⊙ up·x), or down(act(up·x)) without a gate.
func (w *walker) mlp(l *layer, in []float32) {
	s, f := w.s, l.down.k
	w.multiplyGated(l.expand, in, s.n, w.solo, s.gate, s.up, f)
	w.sync(opGateUp)
	w.multiply(l.contract, s.up, s.n, w.solo, target{s.out, w.m.Arch.Hidden})
	w.sync(opDown)
}

// multiplyGated sets up = act(gate·x) ⊙ up·x, or act(up·x) for a group without a gate.
func (w *walker) multiplyGated(g *group, in []float32, n int, solo bool, gate, up []float32, width int) {
	if g.gated || g.activated {
		w.multiply(g, in, n, solo, target{up, width})
		return
	}
	w.multiply(g, in, n, solo, target{gate, width}, target{up, width})
	w.sync(opGateUp)
	lo, hi := w.team.share(w.tid, n*width, 1) // elements, so that a single token is shared too
	w.gated(up[lo:hi], gate[lo:hi], up[lo:hi])
}

// gated sets dst = act(gate) ⊙ up.
func (w *walker) gated(dst, gate, up []float32) {
	switch w.m.Arch.Activation {
	case hf.GELUTanh:
		kernel.GELUTanhGated(dst, gate, up)
	case hf.GELUErf:
		kernel.GELUGated(dst, gate, up)
	default:
		kernel.SiLUGated(dst, gate, up)
	}
}

// activate sets x = act(x).
func (w *walker) activate(x []float32) {
	switch w.m.Arch.Activation {
	case hf.GELUTanh:
		kernel.GELUTanhs(x, x)
	case hf.GELUErf:
		kernel.GELUs(x, x)
	default:
		kernel.SiLUs(x, x)
	}
}
