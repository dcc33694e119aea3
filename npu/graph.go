package npu

import (
	"fmt"
	"slices"
)

// valueKind is where a value comes from.
type valueKind uint8

// The kinds of values.
const (
	computed valueKind = iota // by a node
	fed                       // by the host
	weight                    // matrix of the model
	constant                  // vector of the model, or a number
)

// valueClass is how a value is quantized.
type valueClass uint8

// The classes of values.
const (
	byRange    valueClass = iota // activations: asymmetric, over the range that was seen
	cached                       // keys and values: symmetric, in the type of the cache
	unitGrid                     // sigmoid: a fixed grid over [0, 1)
	shareGrid                    // softmax: a fixed grid over [0, 1]
	signedGrid                   // tanh: a fixed grid over [-1, 1)
	plain                        // not quantized: token ids
)

// value is a tensor of a graph.
type value struct {
	ID    int
	Name  string
	Shape []int
	Kind  valueKind
	Class valueClass
	Enc   string // name of its encoding; values with the same name share one
	Param *param // of weight and constant
	Out   string // name as an output of the graph, "" for none
	Layer int    // of a cache; -1 otherwise

	Crossing bool // goes from one part of a split graph to the next, as codes
}

// elements is the number of elements.
func (v *value) elements() int {
	n := 1
	for _, d := range v.Shape {
		n *= d
	}
	return n
}

// node is an operation. Convert, which only changes the encoding, is a pair of DequantizeLinear and QuantizeLinear in the file.
type node struct {
	Op    string
	Name  string
	In    []*value
	Out   *value
	Perm  []int // Transpose
	Axis  int   // Concat, Slice, Softmax, LpNormalization, RMSNormalization, Gather
	Begin int   // Slice
	End   int
	Eps   float32 // LpNormalization, which drops it on the device, and RMSNormalization
	Tanh  bool    // Gelu: the tanh approximation
	Layer int     // decoder layer; -1 before, the number of layers behind
}

// graph is a model with fixed shapes: Tokens new tokens behind at most Context-Tokens earlier ones. Nodes are in an order in
// which they can run.
type graph struct {
	Name    string
	Tokens  int
	Context int
	Inputs  []*value
	Nodes   []*node
	Outputs []*value
	values  []*value
	Model   *Model

	whole   bool // Options.Whole
	length  int  // of the sequences for which rotary embeddings are made
	layer   int
	columns map[*value]*value // inputs of convolutions, by the rows they are made of
}

// kept is the number of earlier tokens that a layer with a window (0: none) keeps.
func (g *graph) kept(window int) int {
	if window == 0 || window >= g.Context || g.whole {
		return g.Context - g.Tokens
	}
	return min(window-1, g.Context-g.Tokens)
}

func (g *graph) value(name string, kind valueKind, class valueClass, shape ...int) *value {
	v := &value{ID: len(g.values), Name: name, Shape: shape, Kind: kind, Class: class, Enc: name, Layer: -1}
	if class == plain {
		v.Enc = ""
	}
	g.values = append(g.values, v)
	return v
}

// input adds an input; the first call with a name makes it.
func (g *graph) input(name string, class valueClass, shape ...int) *value {
	if i := slices.IndexFunc(g.Inputs, func(v *value) bool { return v.Name == name }); i >= 0 {
		return g.Inputs[i]
	}
	v := g.value(name, fed, class, shape...)
	g.Inputs = append(g.Inputs, v)
	return v
}

// param adds a weight or a constant.
func (g *graph) param(kind valueKind, p *param) *value {
	v := g.value(p.Name, kind, byRange, p.Shape...)
	v.Param = p
	return v
}

// node adds an operation whose result has a range of its own.
func (g *graph) node(op, name string, shape []int, in ...*value) *node {
	n := &node{Op: op, Name: name, In: in, Out: g.value(name, computed, byRange, shape...), Layer: g.layer}
	g.Nodes = append(g.Nodes, n)
	return n
}

// move is node for operations that only move data: the result has the encoding of the first input.
func (g *graph) move(op, name string, shape []int, in ...*value) *node {
	n := g.node(op, name, shape, in...)
	n.Out.Class, n.Out.Enc, n.Out.Layer = in[0].Class, in[0].Enc, in[0].Layer
	return n
}

func (g *graph) reshape(name string, x *value, shape ...int) *value {
	if slices.Equal(shape, x.Shape) {
		return x
	}
	return g.move("Reshape", name, shape, x).Out
}

func (g *graph) transpose(name string, x *value, perm ...int) *value {
	shape := make([]int, len(perm))
	for i, p := range perm {
		shape[i] = x.Shape[p]
	}
	n := g.move("Transpose", name, shape, x)
	n.Perm = perm
	return n.Out
}

// slice takes the elements begin to end of the last axis.
func (g *graph) slice(name string, x *value, begin, end int) *value {
	shape := slices.Clone(x.Shape)
	axis := len(shape) - 1
	shape[axis] = end - begin
	n := g.move("Slice", name, shape, x)
	n.Axis, n.Begin, n.End = axis, begin, end
	return n.Out
}

// concat joins values along an axis; all get the encoding of the first.
func (g *graph) concat(name string, axis int, list ...*value) *value {
	if len(list) == 1 {
		return list[0]
	}
	shape := slices.Clone(list[0].Shape)
	shape[axis] = 0
	for _, v := range list {
		shape[axis] += v.Shape[axis]
		g.tie(v.Enc, list[0].Enc)
	}
	n := g.move("Concat", name, shape, list...)
	n.Axis = axis
	return n.Out
}

// tie gives everything that has one encoding another one.
func (g *graph) tie(from, to string) {
	if from == to {
		return
	}
	for _, v := range g.values {
		if v.Enc == from {
			v.Enc = to
		}
	}
}

// binary is Add, Sub or Mul with broadcasting.
func (g *graph) binary(op, name string, a, b *value) *value {
	shape := slices.Clone(a.Shape)
	if len(b.Shape) > len(shape) {
		shape = slices.Clone(b.Shape)
	}
	for i := range b.Shape {
		at := len(shape) - len(b.Shape) + i
		shape[at] = max(shape[at], b.Shape[i])
	}
	return g.node(op, name, shape, a, b).Out
}

// fixed is an operation whose result has a fixed grid.
func (g *graph) fixed(op, name string, class valueClass, x *value) *node {
	n := g.node(op, name, x.Shape, x)
	n.Out.Class = class
	return n
}

// output makes a value an output.
func (g *graph) output(v *value, name string) {
	v.Out = name
	g.Outputs = append(g.Outputs, v)
}

// in names something in a layer.
func in(layer int, name string) string { return fmt.Sprintf("layers.%d.%s", layer, name) }
