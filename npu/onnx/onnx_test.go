package onnx

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

// small has one of everything.
func small() *Model {
	return &Model{IR: 10, Producer: "p", ProducerVersion: "1", Opsets: []Opset{{"", 21}, {"com.microsoft", 1}}, Metadata: []Entry{{"k", "v"}},
		Graph: Graph{Name: "g",
			Nodes: []Node{{Name: "n", Op: "Softmax", Domain: "d", In: []string{"x", "", "w"}, Out: []string{"y"},
				Attributes: []Attribute{Int("axis", -1), Real("eps", 0.5), Text("mode", "tanh"), Ints("perm", 1, 0, 300), {Name: "f", Kind: FloatsKind, Floats: []float32{1, 2}}}}},
			Initializers: []Tensor{{Name: "w", Type: Int8, Dims: []int64{2, 3}, External: &External{"w.data", 4096, 6}},
				{Name: "s", Type: Float, Raw: []byte{0, 0, 128, 63}}},
			Inputs:  []ValueInfo{{Name: "x", Type: Float, Rank: true, Shape: []int64{1, -1, 0}}},
			Outputs: []ValueInfo{{Name: "y", Type: Uint16, Rank: true, Shape: []int64{7}}},
			Infos:   []ValueInfo{{Name: "z", Type: Int4, Rank: true}}}}
}

func TestRoundTrip(t *testing.T) {
	m := small()
	got, err := Decode(m.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, m) {
		t.Errorf("%+v\nwant %+v", got, m)
	}
}

// The bytes, field by field, by the numbers of onnx.proto3.
func TestBytes(t *testing.T) {
	m := &Model{IR: 10, Opsets: []Opset{{Version: 21}}, Graph: Graph{Name: "g", Nodes: []Node{{Op: "Identity", In: []string{"x"}, Out: []string{"y"}}},
		Inputs: []ValueInfo{{Name: "x", Type: Float, Rank: true, Shape: []int64{2}}}}}
	want := strings.Join([]string{
		"080a",                     // ir_version 10
		"3a26",                     // graph, 38 bytes
		"0a10", "0a0178", "120179", // node, 16 bytes: input x, output y
		"22084964656e74697479",         // op_type Identity
		"120167",                       // name g
		"5a0f",                         // input, 15 bytes
		"0a0178",                       // name x
		"120a0a08", "0801", "12040a02", // type: tensor_type: elem_type 1, shape: dim
		"0802",         // dim_value 2
		"4202", "1015", // opset_import: version 21
	}, "")
	if got := hex.EncodeToString(m.Encode()); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestHostile(t *testing.T) {
	good := small().Encode()
	for n := range good {
		if _, err := Decode(good[:n]); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	for what, raw := range map[string][]byte{
		"nothing":              nil,
		"no operators":         (&Model{IR: 10}).Encode(),
		"text":                 []byte("not a model"),
		"a path that leads up": bytes.Replace(good, []byte("w.data"), []byte("../../"), 1),
		"an offset of text":    bytes.Replace(good, []byte("4096"), []byte("4x96"), 1),
		"a negative length":    bytes.Replace(good, []byte("\x016"), []byte("\x01-"), 1),
		"broken UTF-8":         bytes.Replace(good, []byte("com.microsoft"), []byte("com.micr\xffsoft"), 1),
		"a group":              append(bytes.Clone(good), 0x0b),
		"a string as number":   append(bytes.Clone(good), 0x0a, 1, 'x'),
	} {
		_, err := Decode(raw)
		var f *FormatError
		if !errors.As(err, &f) || !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What other writers do: packed lists, typed data, unknown fields.
func TestForeign(t *testing.T) {
	tensor := []byte{0x0a, 2, 2, 3, 0x10, 1, 0x22, 8, 0, 0, 128, 63, 0, 0, 0, 64} // dims packed [2,3]; float; float_data packed 1, 2
	graph := append([]byte{0x2a, byte(len(tensor))}, tensor...)
	raw := append([]byte{0x08, 10, 0x42, 2, 0x10, 21, 0x28, 5, 0x3a, byte(len(graph))}, graph...) // model_version is passed over
	m, err := Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	x := m.Graph.Initializers[0]
	if !reflect.DeepEqual(x.Dims, []int64{2, 3}) || !reflect.DeepEqual(x.Floats, []float32{1, 2}) {
		t.Errorf("%+v", x)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(small().Encode())
	f.Add([]byte{0x08, 10, 0x42, 2, 0x10, 21})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := Decode(raw)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		for i := range m.Graph.Nodes {
			for _, a := range m.Graph.Nodes[i].Attributes {
				if math.IsNaN(float64(a.F)) {
					return // not equal to itself
				}
			}
		}
		if _, err := Decode(m.Encode()); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
	})
}
