package safetensors

import (
	"bytes"
	"errors"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// FuzzFile opens arbitrary bytes. What opens can be read in full, covers the data once, and can be planned anew with
// the same result.
func FuzzFile(f *testing.F) {
	f.Add(example())
	f.Add([]byte("\x08\x00\x00\x00\x00\x00\x00\x00{}      "))
	f.Add(fileOf(`{"__metadata__":{"\u00fc\n":"\ud83d\ude00"},"b":{"dtype":"F4","shape":[2,0],"data_offsets":[0,0],"x":[{}]}}`, 0))
	f.Add(fileOf(nested(9), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := open(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		var data []byte
		var specs []Spec
		for _, tensor := range file.Tensors() {
			p := make([]byte, tensor.Bytes())
			if err := file.ReadAt(tensor, p, 0); err != nil {
				t.Fatal(err)
			}
			data = append(data, p...)
			specs = append(specs, Spec{tensor.Name, tensor.DType, tensor.Shape})
		}
		if !bytes.Equal(data, b[file.DataStart():]) {
			t.Fatal("the tensors are not the data")
		}
		plan, err := NewPlan(specs, file.Metadata(), 0)
		if err != nil {
			t.Fatal(err)
		}
		again, err := open(append(plan.Files[0].Header, data...))
		if err != nil {
			t.Fatal(err)
		}
		if len(again.Tensors()) != len(specs) || !cmp.Equal(again.Metadata(), file.Metadata()) {
			t.Fatalf("%d tensors of %d, metadata %q", len(again.Tensors()), len(specs), again.Metadata())
		}
		for _, want := range file.Tensors() {
			got, ok := again.Lookup(want.Name)
			want.Begin, want.End = got.Begin, got.Begin+want.Bytes() // the order may differ
			if !ok || !cmp.Equal(got, want) {
				t.Fatalf("%v came back as %v", want, got)
			}
		}
	})
}

// FuzzIndex opens a set by an arbitrary index. What opens has exactly the tensors of the shards.
func FuzzIndex(f *testing.F) {
	one, two := fileOf(tensor("U8", "[1]", "[0,1]"), 1), fileOf(`{"b":{"dtype":"I8","shape":[],"data_offsets":[0,1]}}`, 1)
	for _, seed := range []string{
		`{"metadata": {"total_size": 2}, "weight_map": {"a": "1.safetensors", "b": "s/2.safetensors"}}`,
		`{"weight_map": {"\u0061": "1.safetensors"}}`,
		`{"weight_map": {"a": "../1.safetensors", "b": "..\\1"}}`,
		`{"x": [{"y": null}, -1.5e3], "weight_map": {"b": "s/2.safetensors"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, index []byte) {
		s, err := OpenSet(fstest.MapFS{
			"m/i.index.json": {Data: index}, "m/1.safetensors": {Data: one}, "m/s/2.safetensors": {Data: two},
			"1.safetensors": {Data: one}, // outside
		}, "m/i.index.json")
		if err != nil {
			return
		}
		for _, tensor := range s.Tensors() {
			want := map[string]string{"a": "m/1.safetensors", "b": "m/s/2.safetensors"}[tensor.Name]
			if got := s.FileOf(tensor.Name); got != want {
				t.Fatalf("%q is in %q", tensor.Name, got)
			}
		}
		if len(s.Tensors()) != len(s.Files()) || len(s.Files()) == 0 {
			t.Fatalf("%d tensors in %d files", len(s.Tensors()), len(s.Files()))
		}
	})
}
