package runtime

import (
	"fmt"
	"slices"

	"nibble/hf"
	"nibble/quant"
)

// Through takes the residual stream h [n, hidden] of a whole sequence through the layer, as a forward pass would.
func (x *Lane) Through(h []float32) {
	d := x.m.Arch.Hidden
	n := len(h) / d
	x.room(n)
	x.w.mass = nil
	each(n, func(at, rows int) {
		x.begin(at, rows, n)
		x.w.angles()
		part := h[at*d : (at+rows)*d]
		copy(x.s.x, part)
		x.w.layerStep(x.l, x.index)
		copy(part, x.s.x)
	})
}

// room makes place for the keys and values of n tokens.
func (x *Lane) room(n int) {
	a := x.m.Arch
	if r := &x.session.layers[x.index]; r.size < n {
		size := n * a.KVHeads * KVF32.bytes(a.HeadDim)
		*r = ring{n, make([]byte, size), make([]byte, size)}
	}
	x.session.context = n
}

// EnterHead reads the head, or takes a quantized one in its place that is not nil. Lanes made before are of no more use.
func (s *Stages) EnterHead(quantized quant.Linear) error {
	s.leave()
	role := hf.Embedding
	if slices.ContainsFunc(s.b.Tensors, func(t hf.Tensor) bool { return t.Role == hf.Head }) {
		role = hf.Head
	}
	other := func(t hf.Tensor) bool {
		return t.Role != role && !(t.Role == hf.Bias && role == hf.Head && t.Layer < 0)
	}
	rows := slices.DeleteFunc(slices.Clone(s.b.Tensors), other)
	for i := range rows {
		if t := &rows[i]; t.Role == role && quantized != nil {
			s.b.Linears[t.Module()], t.Source, t.PartOf = quantized, "", ""
		}
	}
	m := s.m
	if err := m.readMatrices(s.l, rows); err != nil {
		return err
	}
	if role == hf.Embedding {
		m.head = m.embed
	}
	v := verifier{}
	v.is("the head", m.head, -1, m.Arch.Hidden)
	if v.err != nil {
		return v.err
	}
	m.logits = newGroup(m.Mode, 1, m.head)
	return nil
}

// Width returns the number of logits of a token, behind EnterHead.
func (s *Stages) Width() int { return s.m.head.n }

// logitRows is the number of tokens whose logits a lane computes at a time.
const logitRows = 16

// Logits sets out [n, vocab] to what the head makes of the residual stream h [n, hidden] behind the last layer.
func (x *Lane) Logits(out, h []float32) error {
	d, width := x.m.Arch.Hidden, x.m.head.n
	if len(x.s.logits) < logitRows*width {
		x.s.logits = make([]float32, logitRows*width)
	}
	for at := 0; at*d < len(h); at += logitRows {
		rows := min(logitRows, len(h)/d-at)
		x.begin(at, rows, len(h)/d)
		for i := range rows {
			x.s.slots[i].logit = i
		}
		copy(x.s.x, h[at*d:(at+rows)*d])
		x.w.output()
		to := out[at*width : (at+rows)*width]
		copy(to, x.s.logits)
		if i := quant.NonFinite(to); i >= 0 {
			return fmt.Errorf("runtime: logit %d is %v: weights or config make a number that is not finite: %w", i%width, to[i], ErrNonFinite)
		}
	}
	return nil
}
