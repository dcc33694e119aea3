package gguf

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzFile opens arbitrary bytes. What opens can be read in full and, but for the keys of parts, planned anew with the
// same result.
func FuzzFile(f *testing.F) {
	f.Add([]byte(example()))
	f.Add([]byte(file(0, 0)))
	f.Add([]byte(file(0, 1).str("k").u32(9).u32(9).u64(2).u32(8).u64(1).str("s").u32(7).u64(0)))
	for _, name := range []string{"big.gguf", "split-00002-of-00002.gguf"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupported) {
				t.Fatal(err)
			}
			return
		}
		var specs []Spec
		for _, tensor := range file.Tensors() {
			if err := file.ReadAt(tensor, make([]byte, tensor.Bytes), 0); err != nil {
				t.Fatal(err)
			}
			specs = append(specs, Spec{tensor.Name, tensor.Type, tensor.Shape})
		}
		plan, err := NewPlan("m", file.Metadata(), specs, 0)
		if err != nil {
			return // longer names, larger alignments and the keys of parts can be read, not planned
		}
		again, err := New(sparse(plan.Files[0].Header), plan.Files[0].Size)
		if err != nil {
			t.Fatal(err)
		}
		if !cmp.Equal(again.Metadata(), file.Metadata(), equalNaN, equalNaN32) || len(again.Tensors()) != len(specs) {
			t.Fatalf("%v came back as %v", file.Metadata(), again.Metadata())
		}
		for i, tensor := range again.Tensors() {
			want := file.Tensors()[i]
			want.Offset = tensor.Offset
			if !cmp.Equal(tensor, want) {
				t.Fatalf("%+v came back as %+v", want, tensor)
			}
		}
	})
}

var equalNaN32 = cmp.Comparer(func(a, b float32) bool { return a == b || a != a && b != b })
