package npu

import (
	"math"
	"slices"

	"nibble/npu/onnx"
)

// Operators that QNN's execution provider knows, as far as language models have them.
var operators = []string{"Add", "Cast", "Clip", "Concat", "Conv", "Cos", "DepthToSpace", "Div", "Elu", "Equal", "Exp", "Expand", "Flatten", "Floor", "Gather",
	"GatherElements", "GatherND", "Gelu", "Gemm", "Greater", "Identity", "LayerNormalization", "Less", "Log", "LpNormalization", "MatMul", "Max", "Min", "Mul", "Neg", "Pad", "Pow",
	"RMSNormalization", "Reciprocal", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Relu", "Reshape", "ScatterND", "Sigmoid", "SimplifiedLayerNormalization", "Sin", "Slice",
	"Softmax", "Split", "Sqrt", "Squeeze", "Sub", "Tanh", "Tile", "TopK", "Transpose", "Unsqueeze", "Where"}

var (
	movers   = []string{"Reshape", "Transpose", "Gather", "Expand", "Squeeze", "Unsqueeze", "Tile", "Flatten", "MaxPool"}
	slicers  = []string{"Slice", "Split", "Concat"}
	binaries = []string{"Add", "Sub", "Mul", "Div", "Min", "Max", "Pow"}
	products = []string{"MatMul", "Gemm", "Conv"}
)

// versions: 16-bit and 4-bit codes are in the standard only from opset 21 on, which needs IR 10.
func (l *linter) versions() {
	for _, o := range l.m.Opsets {
		if o.Domain != "" && o.Domain != "ai.onnx" {
			continue
		}
		if o.Version >= 21 {
			if l.m.IR < 10 {
				l.say(l.m.Graph.Name, "version", "opset %d needs IR 10, the file says %d: strict readers refuse it", o.Version, l.m.IR)
			}
			continue
		}
		for i := range l.m.Graph.Nodes {
			n := &l.m.Graph.Nodes[i]
			if kind := l.grid(n).kind; isQuantizer(n) && n.Domain == "" && (kind.Bits() == 16 || kind.Bits() == 4) {
				l.say(label(n), "version", "%s codes need opset 21, the file says %d: it is refused when it is loaded", kind, o.Version)
				return
			}
		}
	}
}

// shapes have to be fixed.
func (l *linter) shapes() {
	for _, v := range slices.Concat(l.m.Graph.Inputs, l.m.Graph.Outputs) {
		if !v.Rank || slices.ContainsFunc(v.Shape, func(d int64) bool { return d < 1 }) {
			l.say(v.Name, "free shape", "the NPU compiles fixed shapes only: the graph stays on the host's processor")
		}
	}
}

// storage: one graph has 2 GiB of weights at most, and external data begin where they can be mapped.
func (l *linter) storage() {
	var sum float64
	for i := range l.m.Graph.Initializers {
		t := &l.m.Graph.Initializers[i]
		sum += float64(float64(count(t)) * float64(t.Type.Bits()) / 8)
		e := t.External
		if e == nil {
			continue
		}
		if e.Offset%page != 0 {
			l.say(t.Name, "alignment", "external data at byte %d, no multiple of %d: they cannot be mapped and are copied", e.Offset, page)
		}
		if want := (float64(float64(count(t))*float64(t.Type.Bits())) + 7) / 8; t.Type.Bits() > 0 && math.Floor(want) != float64(e.Length) && e.Length > 0 {
			l.say(t.Name, "external data", "%d bytes for %d elements of %s: the file does not load", e.Length, count(t), t.Type)
		}
		if l.size == nil {
			continue
		}
		switch size := l.size(e.Location); {
		case size < 0:
			l.say(t.Name, "external data", "%s is missing: the file does not load", e.Location)
		case e.Offset > size || e.Length > size-e.Offset:
			l.say(t.Name, "external data", "bytes %d to %d of %s, which has %d: the file does not load", e.Offset, e.Offset+e.Length, e.Location, size)
		}
	}
	if sum >= 1<<31 {
		l.say(l.m.Graph.Name, "size", "%.2f GB of weights in one graph: what is compiled of it may have 2 GiB; split it", sum/1e9)
	}
}

// quantizer checks a quantizer by itself.
func (l *linter) quantizer(n *onnx.Node) {
	if len(n.In) < 2 || len(n.Out) == 0 {
		l.say(label(n), "quantizer", "no scale: the file does not load")
		return
	}
	s := l.constants[n.In[1]]
	if s == nil {
		l.say(label(n), "quantizer", "the scale is computed: the NPU needs one that is fixed")
		return
	}
	g := l.grid(n)
	if slices.ContainsFunc(g.scales, func(f float32) bool { return !(f > 0) || math.IsInf(float64(f), 0) }) {
		l.say(label(n), "quantizer", "a scale that is not a positive number: everything becomes infinite or NaN")
	}
	weight := l.constants[n.In[0]]
	switch {
	case g.channel && (n.Op == "QuantizeLinear" || weight == nil):
		l.say(label(n), "channel", "an activation with a scale per channel: the NPU has them for weights only")
	case weight != nil && g.kind != onnx.Uint8 && g.kind != onnx.Uint16 && g.kind != onnx.Uint4 && slices.ContainsFunc(g.zeros, func(z int64) bool { return z != 0 }):
		l.say(label(n), "weight zero", "a weight of %s with a zero point other than 0: the compiler refuses it, signed weights are symmetric", g.kind)
	}
	if v, fed := l.inputs[n.In[0]]; fed && n.Op == "DequantizeLinear" && v.Type == onnx.Uint8 && g.zero() != 128 {
		l.say(label(n), "cache zero", "8-bit keys or values with zero point %d: only 128 is symmetric, other ones take the slow way", g.zero())
	}
}

// node checks an operation with the quantizers around it: only together they become one operation of the NPU.
func (l *linter) node(n *onnx.Node) {
	if n.Op == "Identity" || n.Op == "Constant" {
		return
	}
	if !slices.Contains(operators, n.Op) {
		l.say(label(n), "operator", "%s is not an operation of the NPU: the graph is cut here, and the host's processor runs it", n.Op)
	}
	in := make([]*grid, len(n.In))
	for i, name := range n.In {
		switch p := l.producer[name]; {
		case name == "" || l.integer(name):
		case p != nil && p.Op == "DequantizeLinear" && len(p.In) > 1:
			in[i] = l.grid(p)
		case l.constants[name] != nil && l.constants[name].Type == onnx.Int32: // a bias
		default:
			l.say(label(n), "float input", "input %s does not come from a DequantizeLinear: the node runs in float, or on the host's processor", name)
		}
	}
	if len(in) == 0 || in[0] == nil {
		return
	}
	var out *grid
	for _, name := range n.Out {
		users := l.consumers[name]
		switch {
		case l.outputs[name]:
			l.say(label(n), "graph output", "%s leaves the graph as float without quantizer: the node is not quantized", name)
		case len(users) != 1 || users[0].Op != "QuantizeLinear":
			l.say(label(n), "output quantizer", "%s goes to %d nodes, want one QuantizeLinear: the node is not quantized", name, len(users))
		case out == nil:
			out = l.grid(users[0])
		}
	}
	if out != nil {
		l.grids(n, in, out)
	}
}

// integer reports whether a tensor holds indices or shapes.
func (l *linter) integer(name string) bool {
	if t := l.constants[name]; t != nil {
		return t.Type == onnx.Int64 || t.Type == onnx.Bool
	}
	if v, ok := l.inputs[name]; ok {
		return v.Type == onnx.Int64 || v.Type == onnx.Int32 || v.Type == onnx.Bool
	}
	return false
}

// grids compares what goes into a node with what comes out.
func (l *linter) grids(n *onnx.Node, in []*grid, out *grid) {
	switch {
	case slices.Contains(movers, n.Op) && !in[0].same(out):
		l.say(label(n), "moved grid", "%s from %s to %s with another grid: no node of the NPU does both", n.Op, in[0].kind, out.kind)
	case slices.Contains(slicers, n.Op):
		for _, g := range in {
			if g != nil && g.kind != out.kind {
				l.say(label(n), "moved grid", "%s of %s to %s: the types have to be the same", n.Op, g.kind, out.kind)
				break
			}
		}
	case slices.Contains(binaries, n.Op):
		for _, g := range in {
			if g != nil && g.kind != out.kind {
				l.say(label(n), "operand types", "%s of %s to %s: operands and result need one type", n.Op, g.kind, out.kind)
				break
			}
		}
	case slices.Contains(products, n.Op):
		l.product(n, in, out)
	case in[0].kind != out.kind:
		l.say(label(n), "operand types", "%s of %s to %s: the types have to be the same", n.Op, in[0].kind, out.kind)
	}
	l.fixed(n, out)
}

// fixed: the NPU has its own grids behind these functions, whatever the file says.
func (l *linter) fixed(n *onnx.Node, out *grid) {
	class := map[string]valueClass{"Sigmoid": unitGrid, "Tanh": signedGrid}
	c, ok := class[n.Op]
	if !ok || len(out.scales) != 1 {
		return
	}
	d := Uint16
	if out.kind == onnx.Uint8 {
		d = Uint8
	}
	if want := fixed(c, d); out.scales[0] != want.Scale || out.zero() != int64(want.Zero) {
		l.say(label(n), "fixed grid", "%s with scale %g and zero point %d: the NPU takes %g and %d without a word", n.Op, out.scales[0], out.zero(), want.Scale, want.Zero)
	}
}

// product checks a product with a weight, or of two activations.
func (l *linter) product(n *onnx.Node, in []*grid, out *grid) {
	if in[0].kind != out.kind {
		l.say(label(n), "operand types", "%s of %s to %s: the types have to be the same", n.Op, in[0].kind, out.kind)
	}
	if len(in) < 2 || in[1] == nil {
		return
	}
	w := in[1]
	dq := l.producer[n.In[1]]
	weight := l.constants[dq.In[0]]
	if weight == nil {
		if w.kind == onnx.Uint16 && w.zero() != 32768 {
			l.say(label(n), "second activation", "the second activation is uint16 with zero point %d: the compiler turns it into 8 bits without a word; take uint8 or a symmetric type", w.zero())
		}
		return
	}
	if w.channel {
		rank := int64(len(weight.Dims))
		axis, want := w.axis, int64(0) // of convolutions
		if axis < 0 {
			axis += rank
		}
		switch n.Op {
		case "MatMul":
			want = rank - 1
		case "Gemm":
			if a := n.Attribute("transB"); a == nil || a.I == 0 {
				want = 1
			}
		}
		if axis != want {
			l.say(label(n), "channel axis", "the weight has scales along axis %d, the output channels are axis %d: the compiler refuses it", axis, want)
		}
	}
	if weight.Type.Bits() == 16 {
		l.findings = append(l.findings, Finding{Node: label(n), Rule: "16-bit weight", Consequence: "16-bit weights with 16-bit activations need HTP 73 or later", Note: true})
	}
}
