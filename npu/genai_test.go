package npu

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nibble/npu/onnx"
)

// genaiFolder is a folder for ONNX Runtime GenAI, in two parts, of a model with layers of both kinds.
func genaiFolder(t *testing.T) (dir string, x *Export, config genaiFile) {
	t.Helper()
	m, err := NewModel(open(t, "gemma3"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewScheme("w8a16", "uint8")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Context: 32, Prefill: 8, Whole: true}
	q, err := Calibrate(t.Context(), m, &o, s, [][]int32{sequenceOf(16, m.Vocab)}, Calibration{RangeRule: RangeRule{Method: "minmax", Headroom: 2}, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	x = &Export{Model: m, Options: o, Quantizer: q, Threads: 1, Shards: 2}
	if err := x.Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := x.WriteGenAI(dir, Ends{2, []int32{1, 106}}); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, genaiConfig))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	return dir, x, config
}

// Every stage declares what its file has, and takes only what the host or an earlier stage of the same kind makes; all caches
// have the shape that the host slides, whatever the window of the layer is.
func TestGenAIPipeline(t *testing.T) {
	dir, x, config := genaiFolder(t)
	m, o := x.Model, x.Options
	if c := config.Model; c.Pad != m.Vocab || c.Context != 32 || c.Decoder.Window.Size != 8 || c.Decoder.Window.Pad != 128 || c.Begin != 2 || len(c.End) != 2 {
		t.Errorf("%+v", c)
	}
	if n := len(config.Model.Decoder.Pipeline); n != 6 {
		t.Fatalf("%d stages, want embedding, position-processor, and two parts of both graphs", n)
	}
	for _, prompt := range []bool{true, false} {
		made := map[string]bool{"input_ids": true, tokenMask: true, positionIDs: true}
		for i := range m.Layers {
			for _, what := range []string{"key", "value"} {
				made["past_"+what+"_"+string(rune('0'+i))+"_in"] = true
			}
		}
		for _, stages := range config.Model.Decoder.Pipeline {
			for name, s := range stages {
				if prompt && !s.Prompt || !prompt && !s.Token {
					continue
				}
				tokens := int64(1)
				if prompt {
					tokens = 8
				}
				f := decode(t, filepath.Join(dir, s.File))
				if !slices.Equal(s.Inputs, names(f.Graph.Inputs)) || !slices.Equal(s.Outputs, names(f.Graph.Outputs)) {
					t.Errorf("%s takes %v and makes %v, its file %v and %v", name, s.Inputs, s.Outputs, names(f.Graph.Inputs), names(f.Graph.Outputs))
				}
				for _, in := range f.Graph.Inputs {
					if !made[in.Name] {
						t.Errorf("%s takes %s, which nothing makes", name, in.Name)
					}
					key := []int64{int64(m.KVHeads), 1, int64(m.HeadDim), int64(o.Context) - tokens}
					value := []int64{key[0], 1, key[3], key[2]}
					if strings.HasPrefix(in.Name, "past_key") && !slices.Equal(in.Shape, key) || strings.HasPrefix(in.Name, "past_value") && !slices.Equal(in.Shape, value) {
						t.Errorf("%s: %s is %v", name, in.Name, in.Shape)
					}
				}
				for _, out := range s.Outputs {
					made[out] = true
				}
			}
		}
		if !made["logits"] || !made["past_value_1_out"] {
			t.Error("no logits, or no caches")
		}
	}
}

func names(list []onnx.ValueInfo) (names []string) {
	for _, v := range list {
		names = append(names, v.Name)
	}
	return names
}

// The tables have the angles of every position: that of pair 1 at position 3 is 3·theta^(-2/16), with theta 10000 for the layers
// with a window, and 1000000 and an eighth of the angle for the others, as the checkpoint's config says.
func TestGenAIAngles(t *testing.T) {
	dir, x, _ := genaiFolder(t)
	raw, err := os.ReadFile(filepath.Join(dir, positionData))
	if err != nil {
		t.Fatal(err)
	}
	pairs := x.Model.HeadDim / 2
	found := 0
	for _, c := range decode(t, filepath.Join(dir, positionFile)).Graph.Initializers {
		if c.External == nil {
			continue
		}
		found++
		if !slices.Equal(c.Dims, []int64{32, int64(pairs)}) {
			t.Errorf("%s is %v", c.Name, c.Dims)
		}
		at := raw[c.External.Offset+int64(4*(3*pairs+1)):]
		got := float64(math.Float32frombits(binary.LittleEndian.Uint32(at)))
		angle := 3 * math.Pow(1e4, -1/float64(pairs))
		if strings.Contains(c.Name, "_1.") {
			angle = 3 * math.Pow(1e6, -1/float64(pairs)) / 8
		}
		want := math.Cos(angle)
		if strings.Contains(c.Name, "_sin") {
			want = math.Sin(angle)
		}
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("%s has %g, want %g", c.Name, got, want)
		}
	}
	if found != 4 {
		t.Errorf("%d tables, want cosines and sines for both kinds of layers", found)
	}
}
