package onnx

import (
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Encode returns the bytes of a file.
func (m *Model) Encode() []byte {
	var b []byte
	b = number(b, 1, m.IR)
	b = text(b, 2, m.Producer)
	b = text(b, 3, m.ProducerVersion)
	b = message(b, 7, m.Graph.encode())
	for _, o := range m.Opsets {
		b = message(b, 8, number(text(nil, 1, o.Domain), 2, o.Version))
	}
	for _, e := range m.Metadata {
		b = message(b, 14, e.encode())
	}
	return b
}

func (g *Graph) encode() (b []byte) {
	for i := range g.Nodes {
		b = message(b, 1, g.Nodes[i].encode())
	}
	b = text(b, 2, g.Name)
	for i := range g.Initializers {
		b = message(b, 5, g.Initializers[i].encode())
	}
	b = infos(b, 11, g.Inputs)
	b = infos(b, 12, g.Outputs)
	return infos(b, 13, g.Infos)
}

func infos(b []byte, field protowire.Number, list []ValueInfo) []byte {
	for i := range list {
		b = message(b, field, list[i].encode())
	}
	return b
}

func (n *Node) encode() (b []byte) {
	for _, s := range n.In { // an input that is left out has an empty name
		b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), s)
	}
	for _, s := range n.Out {
		b = protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), s)
	}
	b = text(b, 3, n.Name)
	b = text(b, 4, n.Op)
	for i := range n.Attributes {
		b = message(b, 5, n.Attributes[i].encode())
	}
	return text(b, 7, n.Domain)
}

func (a *Attribute) encode() (b []byte) {
	b = text(b, 1, a.Name)
	switch a.Kind {
	case FloatKind:
		b = protowire.AppendFixed32(protowire.AppendTag(b, 2, protowire.Fixed32Type), math.Float32bits(a.F))
	case IntKind:
		b = protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.VarintType), uint64(a.I))
	case StringKind:
		b = protowire.AppendString(protowire.AppendTag(b, 4, protowire.BytesType), a.S)
	case FloatsKind:
		for _, f := range a.Floats {
			b = protowire.AppendFixed32(protowire.AppendTag(b, 7, protowire.Fixed32Type), math.Float32bits(f))
		}
	case IntsKind:
		for _, i := range a.Ints {
			b = protowire.AppendVarint(protowire.AppendTag(b, 8, protowire.VarintType), uint64(i))
		}
	}
	return number(b, 20, int64(a.Kind))
}

func (t *Tensor) encode() (b []byte) {
	for _, d := range t.Dims {
		b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), uint64(d))
	}
	b = number(b, 2, int64(t.Type))
	b = text(b, 8, t.Name)
	if t.External == nil {
		return protowire.AppendBytes(protowire.AppendTag(b, 9, protowire.BytesType), t.Raw)
	}
	for _, e := range []Entry{{"location", t.External.Location}, {"offset", strconv.FormatInt(t.External.Offset, 10)},
		{"length", strconv.FormatInt(t.External.Length, 10)}} {
		b = message(b, 13, e.encode())
	}
	return number(b, 14, 1)
}

func (v *ValueInfo) encode() []byte {
	var shape []byte
	for _, d := range v.Shape { // 0 is a value like any other
		shape = message(shape, 1, dimension(d))
	}
	tensor := message(number(nil, 1, int64(v.Type)), 2, shape)
	return message(text(nil, 1, v.Name), 2, message(nil, 1, tensor))
}

func (e Entry) encode() []byte { return text(text(nil, 1, e.Key), 2, e.Value) }

// number appends an integer, unless it is 0, which is what a missing one means.
func number(b []byte, field protowire.Number, v int64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(v))
}

// text appends a string, unless it is empty.
func text(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

func message(b []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
}

// dimension is a fixed one, or the only free one that graphs here have.
func dimension(d int64) []byte {
	if d < 0 {
		return text(nil, 2, "tokens")
	}
	return protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(d))
}
