package loader

import (
	"nibble/build"
	"nibble/hf"
	"nibble/quant"
)

// Modules returns the linears, the head and the embedding of a build. Quantized ones have the spec that their tensors
// show, in the config's words where both say the same; those that cannot be opened have the config's.
func Modules(b *build.Build) []Module {
	var list []Module
	for i := range b.Tensors {
		t := &b.Tensors[i]
		if !t.Role.Linear() && t.Role != hf.Head && t.Role != hf.Embedding || len(t.Shape) != 2 {
			continue
		}
		m := NewModule(t)
		if t.Source == "" {
			m.Spec = specOf(b, m.Name)
		}
		list = append(list, m)
	}
	return list
}

// specOf returns the spec of a quantized module.
func specOf(b *build.Build, module string) *quant.Spec {
	expect := b.Reader.Expect(module)
	l := b.Linears[module]
	if l == nil {
		return expect
	}
	spec := l.Spec()
	if expect != nil {
		if _, k := l.Shape(); expect.GroupSize(k) == spec.GroupSize(k) {
			spec.Group = expect.Group // -1, not K
		}
	}
	return &spec
}

// NewModule describes a matrix of a table, in float.
func NewModule(t *hf.Tensor) Module {
	m := Module{Role: t.Role, Layer: t.Layer, Expert: t.Expert}
	m.Name, m.Fused, m.N, m.K = t.Module(), t.Fused, t.Out(), t.In()
	m.Head, m.Embed, m.Class = t.Role == hf.Head, t.Role == hf.Embedding, "Linear"
	switch {
	case t.Transposed:
		m.Class = "Conv1D"
	case m.Embed:
		m.Class = "Embedding"
	}
	return m
}
