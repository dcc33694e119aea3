package npu

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"nibble/npu/onnx"
)

// Finding is something in a graph that an NPU's compiler refuses or does worse than the graph says.
type Finding struct {
	File        string `json:"file,omitempty"`
	Node        string `json:"node"`
	Rule        string `json:"rule"`
	Consequence string `json:"consequence"`
	Note        bool   `json:"note,omitempty"` // nothing is wrong, but not every device can do it
}

// String is the finding in a line.
func (f Finding) String() string {
	s := fmt.Sprintf("%s: %s: %s", f.Node, f.Rule, f.Consequence)
	if f.File != "" {
		s = f.File + ": " + s
	}
	return s
}

// mostFile is the most bytes of a protobuf.
const mostFile = 1<<31 - 1

// LintFile returns what a compiler for an NPU would trip over in the ONNX file at path; an error wraps onnx.ErrCorrupt if it is none. Of
// data beside the file only names and sizes count.
func LintFile(path string) ([]Finding, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > mostFile {
		return nil, fmt.Errorf("onnx: %s has %d bytes, a protobuf at most %d", path, info.Size(), mostFile)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := onnx.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	l := newLinter(m)
	l.size = func(location string) int64 {
		info, err := os.Stat(filepath.Join(filepath.Dir(path), filepath.Clean(location)))
		if err != nil {
			return -1
		}
		return info.Size()
	}
	return l.run(), nil
}

// Lint looks at all graphs of an export.
func (x *Export) Lint(dir string) (all []Finding, err error) {
	for _, f := range x.Files {
		if filepath.Ext(f.Name) != ".onnx" || !x.quantized(f.Name) {
			continue
		}
		list, err := LintFile(filepath.Join(dir, f.Name))
		if err != nil {
			return nil, err
		}
		for i := range list {
			list[i].File = f.Name
		}
		all = append(all, list...)
	}
	return all, nil
}

// linter looks at one graph.
type linter struct {
	m         *onnx.Model
	size      func(location string) int64 // of a file beside the model; nil: unknown, -1: missing
	producer  map[string]*onnx.Node
	consumers map[string][]*onnx.Node
	constants map[string]*onnx.Tensor
	inputs    map[string]onnx.ValueInfo
	outputs   map[string]bool
	findings  []Finding
}

func newLinter(m *onnx.Model) *linter {
	l := &linter{m: m, producer: map[string]*onnx.Node{}, consumers: map[string][]*onnx.Node{}, constants: map[string]*onnx.Tensor{},
		inputs: map[string]onnx.ValueInfo{}, outputs: map[string]bool{}}
	g := &m.Graph
	for i := range g.Initializers {
		l.constants[g.Initializers[i].Name] = &g.Initializers[i]
	}
	for _, v := range g.Inputs {
		l.inputs[v.Name] = v
	}
	for _, v := range g.Outputs {
		l.outputs[v.Name] = true
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		for _, name := range n.Out {
			l.producer[name] = n
		}
		for _, name := range n.In {
			l.consumers[name] = append(l.consumers[name], n)
		}
	}
	return l
}

func (l *linter) say(node, rule, format string, args ...any) {
	l.findings = append(l.findings, Finding{Node: node, Rule: rule, Consequence: fmt.Sprintf(format, args...)})
}

// label is how a node is called.
func label(n *onnx.Node) string {
	if n.Name != "" {
		return n.Name
	}
	if len(n.Out) > 0 {
		return n.Op + " of " + n.Out[0]
	}
	return n.Op
}

// run applies the rules, those of the file first.
func (l *linter) run() []Finding {
	l.versions()
	l.shapes()
	l.storage()
	quantizers := 0
	for i := range l.m.Graph.Nodes {
		n := &l.m.Graph.Nodes[i]
		if isQuantizer(n) {
			quantizers++
			l.quantizer(n)
		}
	}
	if quantizers == 0 {
		l.say(l.m.Graph.Name, "no quantizers", "the graph is in float: the NPU runs it in fp16 or not at all")
		return l.findings
	}
	for i := range l.m.Graph.Nodes {
		if n := &l.m.Graph.Nodes[i]; !isQuantizer(n) {
			l.node(n)
		}
	}
	return l.findings
}

func isQuantizer(n *onnx.Node) bool { return n.Op == "QuantizeLinear" || n.Op == "DequantizeLinear" }

// grid is what a quantizer says.
type grid struct {
	kind    onnx.Type
	scales  []float32 // nil where they are not at hand
	zeros   []int64
	channel bool // per channel
	axis    int64
}

// same reports whether two grids are one.
func (a *grid) same(b *grid) bool {
	return a.kind == b.kind && slices.Equal(a.scales, b.scales) && slices.Equal(a.zeros, b.zeros)
}

// zero is the zero point of a grid of a whole tensor.
func (a *grid) zero() int64 {
	if len(a.zeros) == 0 {
		return 0
	}
	return a.zeros[0]
}

// grid reads the parameters of a quantizer. Without a zero point the type is that of the codes.
func (l *linter) grid(n *onnx.Node) *grid {
	g := &grid{axis: 1}
	if a := n.Attribute("axis"); a != nil {
		g.axis = a.I
	}
	if len(n.In) > 1 {
		if s := l.constants[n.In[1]]; s != nil {
			g.channel = len(s.Dims) > 0 && count(s) != 1
			g.scales = floatsOf(s)
		}
	}
	if len(n.In) > 2 && n.In[2] != "" {
		if z := l.constants[n.In[2]]; z != nil {
			g.kind, g.zeros = z.Type, integersOf(z)
		}
	}
	if g.kind == 0 && n.Op == "DequantizeLinear" && len(n.In) > 0 {
		g.kind = l.typeOf(n.In[0])
	}
	if g.kind == 0 {
		g.kind = onnx.Uint8
	}
	return g
}

// typeOf is the type of codes.
func (l *linter) typeOf(name string) onnx.Type {
	if t := l.constants[name]; t != nil {
		return t.Type
	}
	if v, ok := l.inputs[name]; ok {
		return v.Type
	}
	if p := l.producer[name]; p != nil && p.Op == "QuantizeLinear" {
		return l.grid(p).kind
	}
	return 0
}

// count is the number of elements.
func count(t *onnx.Tensor) int64 {
	n := int64(1)
	for _, d := range t.Dims {
		if d > 0 && n > math.MaxInt64/d {
			return math.MaxInt64
		}
		n *= d
	}
	return n
}

func floatsOf(t *onnx.Tensor) []float32 {
	if t.Type != onnx.Float || t.External != nil {
		return nil
	}
	if t.Floats != nil {
		return t.Floats
	}
	var list []float32
	for b := t.Raw; len(b) >= 4; b = b[4:] {
		list = append(list, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return list
}

func integersOf(t *onnx.Tensor) (list []int64) {
	for _, v := range t.Int32s {
		list = append(list, int64(v))
	}
	for b := t.Raw; len(b) > 0; {
		switch {
		case t.Type == onnx.Uint8:
			list, b = append(list, int64(b[0])), b[1:]
		case t.Type == onnx.Int8:
			list, b = append(list, int64(int8(b[0]))), b[1:]
		case t.Type == onnx.Uint16 && len(b) > 1:
			list, b = append(list, int64(binary.LittleEndian.Uint16(b))), b[2:]
		case t.Type == onnx.Int16 && len(b) > 1:
			list, b = append(list, int64(int16(binary.LittleEndian.Uint16(b)))), b[2:]
		case t.Type == onnx.Int32 && len(b) > 3:
			list, b = append(list, int64(int32(binary.LittleEndian.Uint32(b)))), b[4:]
		case t.Type == onnx.Int4 || t.Type == onnx.Uint4: // not 0 is all that matters
			list, b = append(list, int64(b[0]&15), int64(b[0]>>4)), b[1:]
		default:
			return list
		}
	}
	return list
}
