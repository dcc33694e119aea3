package gguf

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The entries and tensors of testdata, as golden.py names them.
var goldenMetadata = []Entry{
	{"general.architecture", "test"}, {"k.uint8", uint8(200)}, {"k.int8", int8(-100)}, {"k.uint16", uint16(60000)},
	{"k.int16", int16(-30000)}, {"k.uint32", uint32(4000000000)}, {"k.int32", int32(-2000000000)},
	{"k.uint64", uint64(1<<63 + 1)}, {"k.int64", int64(-1 << 62)}, {"k.float32", float32(0.15625)}, {"k.float64", -1e300},
	{"k.bool", true}, {"k.string", "héllo"}, {"a.uint16", []uint16{1, 65535}}, {"a.int64", []int64{-1, 1 << 62}},
	{"a.float32", []float32{0.5, -2}}, {"a.bool", []bool{true, false, true}}, {"a.string", []string{"a", "", "世"}},
	{"a.nested", []any{[]int32{1, 2}, []int32{3}}},
}

var goldenShapes = map[string][]int{"f32": {3, 5}, "f16": {7}, "i32": {2, 3, 4}, "q8_0": {2, 64}}

// contents returns the little-endian bytes of all tensors.
func contents(t *testing.T, s *Set) map[string][]byte {
	t.Helper()
	data := map[string][]byte{}
	for _, tensor := range s.Tensors() {
		p := make([]byte, tensor.Bytes)
		if err := s.ReadAt(tensor.Name, p, 0); err != nil {
			t.Fatal(err)
		}
		if s.BigEndian() {
			if err := tensor.Type.Swap(p); err != nil {
				t.Fatal(err)
			}
		}
		data[tensor.Name] = p
	}
	return data
}

// rewrite writes what a set holds to a new folder.
func rewrite(t *testing.T, s *Set, metadata []Entry, maxPart int64) (dir string) {
	t.Helper()
	var specs []Spec
	for _, tensor := range s.Tensors() {
		specs = append(specs, Spec{tensor.Name, tensor.Type, tensor.Shape})
	}
	p, err := NewPlan("out", metadata, specs, maxPart)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	w, err := Create(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range contents(t, s) {
		if err := w.WriteAt(name, b, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func openGolden(t *testing.T, fsys, name string) *Set {
	t.Helper()
	s, err := OpenSet(os.DirFS(fsys), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestGolden reads the files of another writer, and writes the same bytes.
func TestGolden(t *testing.T) {
	little, err := os.ReadFile("testdata/little.gguf")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"little.gguf", "big.gguf", "split-00001-of-00002.gguf", "split-00002-of-00002.gguf"} {
		t.Run(name, func(t *testing.T) {
			s := openGolden(t, "testdata", name)
			metadata := s.Metadata()[:len(goldenMetadata)] // without the entries of parts
			if diff := cmp.Diff(goldenMetadata, metadata); diff != "" {
				t.Errorf("metadata:\n%s", diff)
			}
			for _, tensor := range s.Tensors() {
				if !cmp.Equal(tensor.Shape, goldenShapes[tensor.Name]) {
					t.Errorf("%s: %v", tensor.Name, tensor.Shape)
				}
			}
			dir := rewrite(t, s, metadata, 0)
			if got, err := os.ReadFile(filepath.Join(dir, "out.gguf")); err != nil || !bytes.Equal(got, little) {
				t.Errorf("%v\n%q, want\n%q", err, got, little)
			}
		})
	}
}

// TestGoldenSplit writes the parts of another writer: 136 and 60 bytes, 96 and 14.
func TestGoldenSplit(t *testing.T) {
	dir := rewrite(t, openGolden(t, "testdata", "little.gguf"), goldenMetadata, 200)
	for _, part := range []string{"-00001-of-00002.gguf", "-00002-of-00002.gguf"} {
		want, err := os.ReadFile("testdata/split" + part)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "out"+part)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v\n%q, want\n%q", part, err, got, want)
		}
	}
}

// TestVersion2 reads a file of version 2, which has the same layout.
func TestVersion2(t *testing.T) {
	b, err := os.ReadFile("testdata/little.gguf")
	if err != nil {
		t.Fatal(err)
	}
	b[4] = 2
	f, err := New(bytes.NewReader(b), int64(len(b)))
	if err != nil || f.Version() != 2 || len(f.Tensors()) != 4 || len(f.Metadata()) != len(goldenMetadata) {
		t.Errorf("%+v, %v", f, err)
	}
}
