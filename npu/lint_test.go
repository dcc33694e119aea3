package npu

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nibble/npu/onnx"
)

// written is a small export, and its decode graph.
func written(t *testing.T, o Options) (dir string, x *Export) {
	t.Helper()
	b := open(t, "llama-plain")
	m, err := NewModel(b)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewScheme("w8a16", "uint8")
	if err != nil {
		t.Fatal(err)
	}
	q, err := Calibrate(t.Context(), m, &o, s, [][]int32{sequenceOf(16, m.Vocab)}, Calibration{RangeRule: RangeRule{Method: "minmax", Headroom: 2}, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	x = &Export{Model: m, Options: o, Quantizer: q, Threads: 1}
	if err := x.Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir, x
}

func decode(t *testing.T, path string) *onnx.Model {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// What we write breaks no rule, in any form.
func TestLintFindsNothing(t *testing.T) {
	for _, o := range []Options{{Context: 24, Prefill: 8}, {Context: 24, Prefill: 8, Conv: true, RMS: true, Inside: true, HeadBlock: 20}} {
		dir, x := written(t, o)
		list, err := x.Lint(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			t.Error(f)
		}
	}
}

// Every rule finds the graph that was broken for it, and no other rule cries about it.
func TestLintRules(t *testing.T) {
	dir, _ := written(t, Options{Context: 24, Prefill: 8})
	conv, _ := written(t, Options{Context: 24, Prefill: 8, Conv: true})
	path := filepath.Join(dir, "decode.onnx")
	node := func(m *onnx.Model, name string) *onnx.Node {
		i := slices.IndexFunc(m.Graph.Nodes, func(n onnx.Node) bool { return n.Name == name })
		if i < 0 {
			t.Fatalf("no node %s", name)
		}
		return &m.Graph.Nodes[i]
	}
	constant := func(m *onnx.Model, name string) *onnx.Tensor {
		i := slices.IndexFunc(m.Graph.Initializers, func(x onnx.Tensor) bool { return x.Name == name })
		if i < 0 {
			t.Fatalf("no constant %s", name)
		}
		return &m.Graph.Initializers[i]
	}
	// other gives a quantizer a grid of its own.
	other := func(m *onnx.Model, quantizer string, kind onnx.Type, scale float32, zero ...byte) {
		m.Graph.Initializers = append(m.Graph.Initializers, onnx.Tensor{Name: "s", Type: onnx.Float, Raw: floatBytes([]float32{scale})},
			onnx.Tensor{Name: "z", Type: kind, Raw: zero})
		n := node(m, quantizer)
		n.In = []string{n.In[0], "s", "z"}
	}
	const gate = "layers.0.act.sigmoid"
	for rule, bend := range map[string]func(m *onnx.Model){
		"version":       func(m *onnx.Model) { m.Opsets[0].Version = 17 },
		"free shape":    func(m *onnx.Model) { m.Graph.Inputs[0].Shape[1] = -1 },
		"alignment":     func(m *onnx.Model) { constant(m, "layers.0.q.weight").External.Offset++ },
		"external data": func(m *onnx.Model) { constant(m, "layers.0.q.weight").External.Length-- },
		"size": func(m *onnx.Model) {
			constant(m, "layers.0.q.weight.scale").Dims[0], constant(m, "layers.0.q.weight.scale").External.Length = 1<<29, 0
		},
		"no quantizers": func(m *onnx.Model) {
			m.Graph.Nodes = slices.DeleteFunc(m.Graph.Nodes, func(n onnx.Node) bool { return isQuantizer(&n) })
		},
		"quantizer": func(m *onnx.Model) { constant(m, "layers.0.o.scale").Raw = floatBytes([]float32{-1}) },
		"channel":   func(m *onnx.Model) { constant(m, "layers.0.q.scale").Dims = []int64{2} },
		"weight zero": func(m *onnx.Model) {
			n := node(m, "layers.0.q.weight.f0.dequantize")
			m.Graph.Initializers = append(m.Graph.Initializers, onnx.Tensor{Name: "one", Type: onnx.Int8, Dims: []int64{64}, Raw: []byte(strings.Repeat("\x01", 64))})
			n.In = append(n.In, "one")
		},
		"cache zero":  func(m *onnx.Model) { constant(m, "past_key_0.zero").Raw = []byte{127} },
		"operator":    func(m *onnx.Model) { node(m, "layers.0.q").Op = "Einsum" },
		"float input": func(m *onnx.Model) { node(m, "layers.0.q").In[0] = "position_ids_cos" },
		"graph output": func(m *onnx.Model) {
			m.Graph.Outputs = append(m.Graph.Outputs, onnx.ValueInfo{Name: "layers.0.q", Type: onnx.Float, Rank: true, Shape: []int64{1, 1, 64}})
		},
		"output quantizer": func(m *onnx.Model) {
			m.Graph.Nodes = append(m.Graph.Nodes, onnx.Node{Name: "more", Op: "Identity", In: []string{"layers.0.q"}, Out: []string{"x"}})
		},
		"moved grid":        func(m *onnx.Model) { other(m, "layers.0.context.heads.quantize", onnx.Uint16, 0.5, 0, 0) },
		"operand types":     func(m *onnx.Model) { other(m, "layers.0.attn_residual.quantize", onnx.Uint8, 0.5, 0) },
		"fixed grid":        func(m *onnx.Model) { constant(m, gate+".scale").Raw = floatBytes([]float32{1.0 / 65535}) },
		"second activation": func(m *onnx.Model) { other(m, "layers.0.keys.f0.dequantize", onnx.Uint16, 0.5, 1, 0) },
		"channel axis":      func(m *onnx.Model) { node(m, "layers.0.q.weight.f0.dequantize").Attributes[0].I = 0 },
		"16-bit weight": func(m *onnx.Model) {
			constant(m, "layers.0.q.weight").Type, constant(m, "layers.0.q.weight").External.Length = onnx.Int16, 0
		},
	} {
		m := decode(t, path)
		if list := newLinter(m).run(); len(list) > 0 {
			t.Fatal(list)
		}
		bend(m)
		list := newLinter(m).run()
		if len(list) == 0 {
			t.Errorf("%s: nothing found", rule)
		}
		for _, f := range list {
			if f.Rule != rule && !(rule == "operand types" && f.Rule == "moved grid") {
				t.Errorf("%s: %s", rule, f)
			}
		}
	}
	m := decode(t, filepath.Join(conv, "decode.onnx")) // of a convolution the output channels are axis 0
	node(m, "layers.0.q.weight.f0.dequantize").Attributes[0].I = 1
	if list := newLinter(m).run(); len(list) != 1 || list[0].Rule != "channel axis" {
		t.Errorf("%v", list)
	}
}

// A file whose weights are missing or too short does not load.
func TestLintData(t *testing.T) {
	dir, _ := written(t, Options{Context: 24, Prefill: 8})
	for _, size := range []int64{5000, -1} {
		path := filepath.Join(dir, weightsFile)
		var err error
		if size < 0 {
			err = os.Remove(path)
		} else {
			err = os.Truncate(path, size)
		}
		if err != nil {
			t.Fatal(err)
		}
		list, err := LintFile(filepath.Join(dir, "decode.onnx"))
		if err != nil || len(list) == 0 || list[len(list)-1].Rule != "external data" {
			t.Errorf("%v, %v", list, err)
		}
	}
}

// The float graphs come in the parts that the others have: what one part makes the next takes, by the same name, and has an encoding there.
func TestAIMETParts(t *testing.T) {
	dir, x := written(t, Options{Context: 24, Prefill: 8})
	x.Shards, x.stages = 2, nil
	if err := x.Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := x.WriteAIMET(dir); err != nil {
		t.Fatal(err)
	}
	for _, graph := range []string{"prefill", "decode"} {
		first := decode(t, filepath.Join(dir, graph+"_1_of_2_float.onnx")).Graph
		second := decode(t, filepath.Join(dir, graph+"_2_of_2_float.onnx")).Graph
		encodings, err := os.ReadFile(filepath.Join(dir, graph+"_2_of_2_float.encodings"))
		if err != nil {
			t.Fatal(err)
		}
		crossing := 0
		for _, in := range second.Inputs {
			if slices.Contains(names(first.Outputs), in.Name) {
				crossing++
				if in.Type != onnx.Float || !strings.Contains(string(encodings), `"name": "`+in.Name+`"`) {
					t.Errorf("%s: %s is %v, or has no encoding", graph, in.Name, in.Type)
				}
			}
		}
		if crossing == 0 {
			t.Errorf("%s: nothing goes from one part to the next", graph)
		}
	}
}
