package npu

import (
	"testing"

	"nibble/npu/onnx"
)

// Whatever can be read can be looked at.
func FuzzLint(f *testing.F) {
	one := &onnx.Model{IR: 10, Opsets: []onnx.Opset{{Version: 21}}, Graph: onnx.Graph{
		Nodes: []onnx.Node{
			{Op: "QuantizeLinear", In: []string{"x", "s", "z"}, Out: []string{"q"}},
			{Op: "DequantizeLinear", In: []string{"q", "s", "z"}, Out: []string{"f"}},
			{Op: "MatMul", In: []string{"f", "f"}, Out: []string{"y"}},
		},
		Initializers: []onnx.Tensor{{Name: "s", Type: onnx.Float, Raw: []byte{0, 0, 0, 0}}, {Name: "z", Type: onnx.Uint16, Raw: []byte{1, 0}}},
		Inputs:       []onnx.ValueInfo{{Name: "x", Type: onnx.Float}},
	}}
	f.Add(one.Encode())
	f.Fuzz(func(_ *testing.T, raw []byte) {
		if m, err := onnx.Decode(raw); err == nil {
			newLinter(m).run()
		}
	})
}
