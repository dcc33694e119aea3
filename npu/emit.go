package npu

import (
	"encoding/binary"
	"fmt"
	"strings"

	"nibble/internal/version"
	"nibble/npu/onnx"
)

// The versions of what is written. RMSNormalization came with opset 23.
const (
	opset, ir       = 21, 10
	opsetRMS, irRMS = 23, 11
)

// emitter turns a graph into the nodes of a file.
type emitter struct {
	*onnx.Graph
	g     *graph
	s     *store
	q     *Quantizer // nil: the float graph, without quantizers
	have  map[string]bool
	reads map[string]int    // of a value, by other nodes so far
	alias map[*value]*value // in the float graph, what Convert makes is its input
}

// emit returns the file of a graph, or of a part of it, whose weights are in a store.
func emit(g *graph, s *store, metadata []onnx.Entry) *onnx.Model {
	m := &onnx.Model{IR: ir, Producer: "nibble", ProducerVersion: version.Number(), Opsets: []onnx.Opset{{Version: opset}}, Metadata: metadata}
	e := &emitter{Graph: &m.Graph, g: g, s: s, q: s.q, have: map[string]bool{}, reads: map[string]int{}, alias: map[*value]*value{}}
	e.Name = g.Name
	for _, v := range g.Inputs {
		e.input(v)
	}
	for _, n := range g.Nodes {
		if n.Op == "RMSNormalization" {
			m.IR, m.Opsets = irRMS, []onnx.Opset{{Version: opsetRMS}}
		}
		e.node(n)
	}
	for _, v := range g.Outputs {
		e.output(v)
	}
	return m
}

// types maps ours to those of files.
var types = [...]onnx.Type{Uint8: onnx.Uint8, Uint16: onnx.Uint16, Int4: onnx.Int4, Int8: onnx.Int8, Int16: onnx.Int16}

// codeName is the tensor that holds the codes of a value.
func codeName(v *value) string {
	switch {
	case v.Kind == fed && v.coded():
		return v.Name
	case v.Out != "" && v.coded():
		return v.Out
	}
	return v.Name + ".q"
}

// coded reports whether an input or output of the graph has codes, not floats.
func (v *value) coded() bool { return v.Class == cached || v.Crossing }

// inputName is an input of the graph as it is declared.
func inputName(v *value) string {
	if v.coded() && v.Kind == computed {
		return codeName(v)
	}
	return v.Name
}

func (e *emitter) info(v *value, name string) onnx.ValueInfo {
	x := onnx.ValueInfo{Name: name, Type: onnx.Float, Rank: true}
	switch {
	case v.Class == plain:
		x.Type = onnx.Int32
	case e.q != nil && v.coded():
		x.Type = types[e.q.encoding(v).Type]
	}
	for _, d := range v.Shape {
		x.Shape = append(x.Shape, int64(d))
	}
	return x
}

// input declares an input. Floats are quantized first of all.
func (e *emitter) input(v *value) {
	e.Inputs = append(e.Inputs, e.info(v, inputName(v)))
	if e.q == nil && v.Crossing {
		y := *v
		y.Name = inputName(v)
		e.alias[v] = &y
	}
	if e.q != nil && v.Class != plain && !v.coded() {
		e.quantize(v, v.Name)
	}
}

// output declares an output. Floats are dequantized last of all.
func (e *emitter) output(v *value) {
	e.Outputs = append(e.Outputs, e.info(v, v.Out))
	switch {
	case e.q == nil:
		v = e.origin(v)
		e.add(onnx.Node{Name: v.Out + ".copy", Op: "Identity", In: []string{v.Name}, Out: []string{v.Out}})
	case !v.coded():
		scale, zero := e.grid(v)
		e.add(onnx.Node{Name: v.Out + ".dequantize", Op: "DequantizeLinear", In: []string{codeName(v), scale, zero}, Out: []string{v.Out}})
	}
}

func (e *emitter) add(n onnx.Node) { e.Nodes = append(e.Nodes, n) }

// constant adds an initializer, once.
func (e *emitter) constant(name string, t onnx.Type, raw []byte, dims ...int64) string {
	if !e.have[name] {
		e.have[name] = true
		e.Initializers = append(e.Initializers, onnx.Tensor{Name: name, Type: t, Dims: dims, Raw: raw})
	}
	return name
}

// stored adds an initializer whose data are in the store, once.
func (e *emitter) stored(name string, t onnx.Type, dims ...int64) string {
	if !e.have[name] {
		e.have[name] = true
		e.Initializers = append(e.Initializers, onnx.Tensor{Name: name, Type: t, Dims: dims, External: e.s.places[name]})
	}
	return name
}

// integers adds a list of int64.
func (e *emitter) integers(name string, list ...int) string {
	var raw []byte
	for _, x := range list {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(x))
	}
	return e.constant(name, onnx.Int64, raw, int64(len(list)))
}

// grid adds scale and zero point of a value's encoding.
func (e *emitter) grid(v *value) (scale, zero string) {
	x, name := e.q.encoding(v), v.Enc
	return e.constant(name+".scale", onnx.Float, floatBytes([]float32{x.Scale})),
		e.constant(name+".zero", types[x.Type], x.Type.append(nil, x.Zero))
}

// quantize adds the codes of a value that is there in float.
func (e *emitter) quantize(v *value, float string) {
	scale, zero := e.grid(v)
	e.add(onnx.Node{Name: v.Name + ".quantize", Op: "QuantizeLinear", In: []string{float, scale, zero}, Out: []string{codeName(v)}})
}

// read returns the name of a value in float, for one more node.
func (e *emitter) read(v *value) string {
	switch {
	case v.Class == plain:
		return v.Name
	case v.Kind == constant || v.Kind == weight:
		return e.parameter(v)
	case e.q == nil:
		return e.origin(v).Name
	}
	scale, zero := e.grid(v)
	return e.dequantize(v, []string{codeName(v), scale, zero})
}

// dequantize adds a node that makes floats for one other node.
func (e *emitter) dequantize(v *value, in []string, attributes ...onnx.Attribute) string {
	name := fmt.Sprintf("%s.f%d", v.Name, e.reads[v.Name])
	e.reads[v.Name]++
	e.add(onnx.Node{Name: name + ".dequantize", Op: "DequantizeLinear", In: in, Out: []string{name}, Attributes: attributes})
	return name
}

// origin is the value itself, or what it was before it was brought into another type.
func (e *emitter) origin(v *value) *value {
	if x := e.alias[v]; x != nil {
		y := *v
		y.Name = e.origin(x).Name
		return &y
	}
	return v
}

// parameter returns the name of a weight or constant in float.
func (e *emitter) parameter(v *value) string {
	p := v.Param
	var dims []int64
	for _, d := range p.Shape {
		dims = append(dims, int64(d))
	}
	t := onnx.Float
	switch {
	case e.q == nil:
	case v.Kind == constant || p.Table:
		t = types[e.q.encoding(v).Type]
	default:
		t = map[int]onnx.Type{4: onnx.Int4, 8: onnx.Int8, 16: onnx.Int16}[e.q.bits(p)]
	}
	if e.s.places[p.Name] != nil {
		e.stored(p.Name, t, dims...)
	} else {
		e.constant(p.Name, t, e.s.vector(v), dims...)
	}
	switch {
	case e.q == nil:
		return p.Name
	case v.Kind == constant || p.Table:
		scale, zero := e.grid(v)
		return e.dequantize(v, []string{p.Name, scale, zero})
	}
	scale := e.stored(p.Name+".scale", onnx.Float, int64(p.from.n)) // no zero point: it is 0
	return e.dequantize(v, []string{p.Name, scale}, onnx.Int("axis", int64(p.Axis)))
}

// node adds an operation between the quantizers of what goes in and comes out.
func (e *emitter) node(n *node) {
	if n.Op == "Convert" {
		if e.q == nil {
			e.alias[n.Out] = n.In[0]
			return
		}
		e.quantize(n.Out, e.read(n.In[0]))
		return
	}
	x := onnx.Node{Name: n.Name, Op: n.Op, Out: []string{n.Out.Name}}
	for _, v := range n.In {
		x.In = append(x.In, e.read(v))
	}
	switch n.Op {
	case "Reshape":
		x.In = append(x.In, e.integers(n.Name+".shape", n.Out.Shape...))
	case "Slice":
		x.In = append(x.In, e.integers(n.Name+".begin", n.Begin), e.integers(n.Name+".end", n.End), e.integers("axis."+fmt.Sprint(n.Axis), n.Axis))
	case "Transpose":
		perm := onnx.Ints("perm")
		for _, p := range n.Perm {
			perm.Ints = append(perm.Ints, int64(p))
		}
		x.Attributes = append(x.Attributes, perm)
	case "Concat", "Softmax":
		x.Attributes = append(x.Attributes, onnx.Int("axis", int64(n.Axis)))
	case "LpNormalization":
		x.Attributes = append(x.Attributes, onnx.Int("axis", int64(n.Axis)), onnx.Int("p", 2))
	case "RMSNormalization":
		x.Attributes = append(x.Attributes, onnx.Int("axis", int64(n.Axis)), onnx.Real("epsilon", n.Eps))
	case "Gelu":
		if n.Tanh {
			x.Attributes = append(x.Attributes, onnx.Text("approximate", "tanh"))
		}
	}
	e.add(x)
	if e.q != nil {
		e.quantize(n.Out, n.Out.Name)
	}
}

// metadata is what a host has to know, as entries of the file.
func metadata(g *graph, q *Quantizer) []onnx.Entry {
	list := []onnx.Entry{{Key: "scheme", Value: q.Name}, {Key: "tokens", Value: fmt.Sprint(g.Tokens)}, {Key: "context", Value: fmt.Sprint(g.Context)},
		{Key: "mask_hidden", Value: fmt.Sprint(q.Hidden)}}
	for _, v := range g.Inputs {
		if strings.HasPrefix(v.Name, "past_key") {
			list = append(list, onnx.Entry{Key: v.Name + ".encoding", Value: q.encoding(v).String()})
		}
	}
	return list
}
