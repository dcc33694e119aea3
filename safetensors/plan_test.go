package safetensors

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlanRefuses(t *testing.T) {
	long := strings.Repeat("x", maxHeader)
	var nine []Spec // of nearly 2^60 bytes each
	for i := range 9 {
		nine = append(nine, Spec{fmt.Sprint(i), U8, []int{1 << 30, 1<<30 - 1}})
	}
	tests := []struct {
		name     string
		specs    []Spec
		metadata map[string]string
		want     string
	}{
		{"duplicate name", []Spec{{"a", U8, nil}, {"a", I8, nil}}, nil, `tensor "a": the name occurs twice`},
		{"reserved name", []Spec{{"__metadata__", U8, nil}}, nil, `tensor "__metadata__": the name is reserved`},
		{"name not UTF-8", []Spec{{"\xff", U8, nil}}, nil, `tensor "\xff": the name is not UTF-8`},
		{"metadata not UTF-8", nil, map[string]string{"k": "\xff"}, `metadata "k": not UTF-8`},
		{"unknown dtype", []Spec{{"a", 255, nil}}, nil, `tensor "a": dtype 255 does not exist`},
		{"negative dimension", []Spec{{"a", U8, []int{2, -1}}}, nil, `tensor "a": [2 -1] has a negative dimension`},
		{"half a byte", []Spec{{"a", F4, []int{3}}}, nil, `tensor "a": not a whole number of bytes: F4 [3]`},
		{"product overflows", []Spec{{"a", U8, []int{1 << 30, 1 << 30, 8, 0}}}, nil, `tensor "a": size overflows`},
		{"sum overflows", nine, nil, `tensor "8": size overflows: all tensors together`},
		{"header too large", nil, map[string]string{"k": long}, `model.safetensors: header too large`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := NewPlan(test.specs, test.metadata, 0)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

func TestShardsAreFilledInOrder(t *testing.T) {
	specs := []Spec{{"e", U8, []int{4}}, {"d", U8, []int{6}}, {"c", U8, []int{1}}, {"b", U8, []int{25}},
		{"a\"", F16, []int{5}}, {"empty", U8, []int{0}}}
	p := plan(t, specs, map[string]string{"format": "pt"}, 10)
	// By hand: 4+6 fill 10 bytes exactly, 1 begins the second shard, 25 exceed the limit alone, 2*5+0 fill the last.
	want := [][]string{{"d", "e"}, {"c"}, {"b"}, {"a\"", "empty"}}
	var got [][]string
	for i, f := range p.Files {
		if name := fmt.Sprintf("model-0000%d-of-00004.safetensors", i+1); f.Name != name {
			t.Errorf("file %d is called %s, want %s", i, f.Name, name)
		}
		var names []string
		for _, tensor := range f.Tensors {
			names = append(names, tensor.Name)
		}
		got = append(got, names)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if p.TotalSize != 4+6+1+25+10 {
		t.Errorf("total size %d", p.TotalSize)
	}
	const index = `{
  "metadata": {
    "total_size": 46
  },
  "weight_map": {
    "a\"": "model-00004-of-00004.safetensors",
    "b": "model-00003-of-00004.safetensors",
    "c": "model-00002-of-00004.safetensors",
    "d": "model-00001-of-00004.safetensors",
    "e": "model-00001-of-00004.safetensors",
    "empty": "model-00004-of-00004.safetensors"
  }
}
`
	if diff := cmp.Diff(index, string(p.Index())); diff != "" {
		t.Error(diff)
	}
	if single := plan(t, specs, nil, 46); len(single.Files) != 1 || single.Index() != nil {
		t.Errorf("%d files where all tensors fit into one", len(single.Files))
	}
}

func TestHeaderLengthIsWritten(t *testing.T) {
	for n := range 20 { // all remainders modulo 8
		h := plan(t, []Spec{{strings.Repeat("n", n), U8, nil}}, nil, 0).Files[0].Header
		if got := binary.LittleEndian.Uint64(h); len(h)%8 != 0 || got != uint64(len(h)-8) {
			t.Errorf("length %d in a header of %d bytes", got, len(h))
		}
	}
}
