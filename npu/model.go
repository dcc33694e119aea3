package npu

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"nibble/build"
	"nibble/hf"
	"nibble/quant"
	"nibble/safetensors"
)

// Model is a checkpoint seen as what graphs need: every matrix with its place, every vector in memory.
type Model struct {
	*hf.Architecture
	set    *safetensors.Set
	layers []block
	embed  *hf.Tensor
	head   matrix
	final  []float32
	ropes  []*hf.Rope // the different ones
}

// matrix is rows of a tensor, and its bias.
type matrix struct {
	t    *hf.Tensor // nil: there is none
	row  int
	n, k int
	bias []float32
}

// block is what a decoder layer is made of. What an architecture does not have is nil.
type block struct {
	hf.Block
	rope                               int // index in Model.ropes; -1: none
	attnNorm, attnOut, mlpNorm, mlpOut []float32
	qNorm, kNorm                       []float32
	q, k, v, o, headGate               matrix
	gate, up, down                     matrix
}

// ErrUnsupported is the cause where a model cannot be a graph.
var ErrUnsupported = errors.New("not supported by this export")

// NewModel takes a checkpoint in float, of which it reads the vectors; matrices are read when they are needed. The error wraps
// ErrUnsupported where the model cannot be a graph.
func NewModel(b *build.Build) (*Model, error) {
	a := b.Arch
	refuse := func(why string) error { return fmt.Errorf("npu: %s: %w: %s", a.Name, ErrUnsupported, why) }
	switch {
	case a.Refused != nil:
		return nil, a.Refused
	case a.Experts > 0:
		return nil, refuse("graphs have no mixtures of experts, whose matrices depend on the token")
	case a.LayerNorm:
		return nil, refuse("graphs have rotary positions and RMS norms, not learned positions and LayerNorms")
	case len(b.Linears) > 0 || len(b.Defects) > 0 || len(b.Missing) > 0:
		return nil, fmt.Errorf("npu: %w: the checkpoint is quantized already, and the graph has a grid of its own; take the original, or expand this one with dequantize", ErrUnsupported)
	}
	m := &Model{Architecture: a, set: b.Set, layers: make([]block, a.Layers), ropes: a.Ropes()}
	for i := range m.layers {
		l := &m.layers[i]
		l.Block, l.rope = a.Blocks[i], slices.Index(m.ropes, a.Blocks[i].Rope)
	}
	for i := range b.Tensors {
		if err := m.take(b, &b.Tensors[i]); err != nil {
			return nil, err
		}
	}
	if m.head.t == nil {
		m.head = matrix{t: m.embed, n: m.embed.Out(), k: m.embed.In()}
	}
	return m, nil
}

// take puts a row of the table in its place.
func (m *Model) take(b *build.Build, t *hf.Tensor) (err error) {
	if t.Layer < 0 {
		switch t.Role {
		case hf.Embedding:
			m.embed = t
		case hf.Head:
			m.head = matrix{t: t, n: t.Out(), k: t.In()}
		case hf.FinalNorm:
			m.final, err = m.vector(t)
		}
		return err
	}
	l := &m.layers[t.Layer]
	whole := matrix{t: t, n: t.Shape[0], k: t.Shape[len(t.Shape)-1]}
	q, kv := m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	norms := map[hf.Role]*[]float32{hf.AttnNorm: &l.attnNorm, hf.AttnOutNorm: &l.attnOut, hf.MLPNorm: &l.mlpNorm,
		hf.MLPOutNorm: &l.mlpOut, hf.QNorm: &l.qNorm, hf.KNorm: &l.kNorm}
	whose := map[hf.Role]*matrix{hf.Q: &l.q, hf.K: &l.k, hf.V: &l.v, hf.O: &l.o, hf.HeadGate: &l.headGate, hf.Gate: &l.gate,
		hf.Up: &l.up, hf.Down: &l.down}
	switch {
	case norms[t.Role] != nil:
		*norms[t.Role], err = m.vector(t)
	case whose[t.Role] != nil:
		*whose[t.Role] = whole
	case t.Role == hf.QKV:
		l.q, l.k, l.v = matrix{t: t, n: q, k: whole.k}, matrix{t: t, row: q, n: kv, k: whole.k}, matrix{t: t, row: q + kv, n: kv, k: whole.k}
	case t.Role == hf.GateUp:
		f := whole.n / 2
		l.gate, l.up = matrix{t: t, n: f, k: whole.k}, matrix{t: t, row: f, n: f, k: whole.k}
	case t.Role == hf.Bias:
		return m.bias(l, t)
	case t.Role == hf.Other && strings.HasSuffix(t.Name, ".sinks"):
		return fmt.Errorf("npu: %s: %w: attention sinks", t.Name, ErrUnsupported)
	}
	return err
}

// bias gives a bias to the matrix it belongs to, which stands before it in the table.
func (m *Model) bias(l *block, t *hf.Tensor) error {
	v, err := m.vector(t)
	if err != nil {
		return err
	}
	module := strings.TrimSuffix(t.Name, ".bias")
	for _, x := range []*matrix{&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down} {
		if x.t != nil && x.t.Module() == module {
			x.bias = v
			return nil
		}
	}
	return fmt.Errorf("npu: %s belongs to no matrix of layer %d", t.Name, t.Layer)
}

// vector reads a one-dimensional tensor.
func (m *Model) vector(t *hf.Tensor) ([]float32, error) {
	x, _ := m.set.Lookup(t.Source)
	v := make([]float32, t.Elements())
	if err := m.read(t, x.DType, v, 0); err != nil {
		return nil, err
	}
	return v, nil
}

// read fills v with elements of a tensor from element at on.
func (m *Model) read(t *hf.Tensor, d safetensors.DType, v []float32, at int64) error {
	if !d.IsFloat() || d == safetensors.F64 {
		return fmt.Errorf("npu: %s is %s: weights are BF16, F16 or F32", t.Name, d)
	}
	size := d.Bits() / 8
	raw := make([]byte, len(v)*size)
	if err := m.set.ReadAt(t.Source, raw, (t.Offset+at)*int64(size)); err != nil {
		return err
	}
	quant.DecodeFloats(v, raw, d)
	if i := quant.NonFinite(v); i >= 0 {
		return fmt.Errorf("npu: %s: element %d is %v: %w", t.Name, at+int64(i), v[i], quant.ErrNonFinite)
	}
	return nil
}

// rows reads rows of a matrix, k elements each, into w, whose rows are ld apart.
func (m *Model) rows(p *param, w []float32, ld, row, n int) error {
	x, _ := m.set.Lookup(p.from.t.Source)
	flat := make([]float32, n*p.from.k)
	if err := m.read(p.from.t, x.DType, flat, int64(p.from.row+row)*int64(p.from.k)); err != nil {
		return err
	}
	for i := range n {
		dst := w[i*ld : i*ld+p.from.k]
		copy(dst, flat[i*p.from.k:])
		if p.Fold != 1 {
			for j := range dst {
				dst[j] *= p.Fold
			}
		}
	}
	return nil
}
