package gguf

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nibble/gguf/block"
)

// TestPlanExample plans the file of the package comment.
func TestPlanExample(t *testing.T) {
	p, err := NewPlan("m", []Entry{{"k", uint8(7)}}, []Spec{{"a", block.F32, []int{2}}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := p.Files[0]
	if f.Name != "m.gguf" || !bytes.Equal(f.Header, example()[:96]) || f.Size != 128 || p.Bytes != 8 {
		t.Errorf("%+v", p)
	}
}

func TestPlanRefusals(t *testing.T) {
	deep := any([]int8{1})
	for range maxDepth {
		deep = []any{deep}
	}
	one := []Spec{{"a", block.F32, []int{1}}}
	for _, test := range []struct {
		name     string
		metadata []Entry
		specs    []Spec
		want     string
	}{
		{"empty key", []Entry{{"", true}}, one, "UTF-8 of 1 to 65535"},
		{"key not UTF-8", []Entry{{"\xff", true}}, one, "UTF-8 of 1 to 65535"},
		{"key too long", []Entry{{strings.Repeat("k", 65536), true}}, one, "UTF-8 of 1 to 65535"},
		{"key twice", []Entry{{"k", true}, {"k", true}}, one, `"k": it occurs twice`},
		{"key of a part", []Entry{{"split.count", uint16(2)}}, one, "split.count"},
		{"int", []Entry{{"k", 1}}, one, "a value of type int cannot"},
		{"nil", []Entry{{"k", nil}}, one, "a value of type <nil> cannot"},
		{"number in an array of arrays", []Entry{{"k", []any{uint8(1)}}}, one, "a uint8 in an array of arrays"},
		{"int in an array of arrays", []Entry{{"k", []any{[]int{1}}}}, one, "a value of type []int cannot"},
		{"nested too deep", []Entry{{"k", deep}}, one, "more than 4 deep"},
		{"alignment of another type", []Entry{{alignmentKey, uint64(32)}}, one, "not a power of two"},
		{"alignment 24", []Entry{{alignmentKey, uint32(24)}}, one, "not a power of two"},
		{"alignment of 2 MiB", []Entry{{alignmentKey, uint32(2 << 20)}}, one, "not a power of two up to 1048576"},
		{"empty name", nil, []Spec{{"", block.F32, nil}}, "UTF-8 of 1 to 63"},
		{"name that llama.cpp does not read", nil, []Spec{{strings.Repeat("a", 64), block.F32, nil}}, "UTF-8 of 1 to 63"},
		{"name twice", nil, []Spec{one[0], one[0]}, `"a": the name occurs twice`},
		{"unknown type", nil, []Spec{{"a", 99, nil}}, "type 99 is not known"},
		{"five dimensions", nil, []Spec{{"a", block.F32, []int{1, 1, 1, 1, 1}}}, "more than 4 dimensions"},
		{"negative dimension", nil, []Spec{{"a", block.F32, []int{-1}}}, "negative dimension"},
		{"half a block", nil, []Spec{{"a", block.Q4_K, []int{2, 128}}}, "Q4_K [2 128]: rows are not whole blocks"},
		{"scalar of a block type", nil, []Spec{{"a", block.Q8_0, nil}}, "rows are not whole blocks"},
		{"overflow", nil, []Spec{{"a", block.F32, []int{math.MaxInt64 / 2}}}, "overflows"},
		{"overflow of the sum", nil, []Spec{{"a", block.I8, []int{1 << 62}}, {"b", block.I8, []int{1 << 62}}}, "together overflows"},
		{"overflow by padding", nil, []Spec{{"a", block.I8, []int{math.MaxInt64}}}, "together overflows"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := NewPlan("m", test.metadata, test.specs, 0); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// TestRoundTrip writes metadata and tensors of all kinds, in any number of parts, and reads them again.
func TestRoundTrip(t *testing.T) {
	var types []block.Type
	for i := range block.Type(50) {
		if i.Known() {
			types = append(types, i)
		}
	}
	values := rapid.OneOf(
		rapid.Uint8().AsAny(), rapid.Int8().AsAny(), rapid.Uint16().AsAny(), rapid.Int16().AsAny(), rapid.Uint32().AsAny(),
		rapid.Int32().AsAny(), rapid.Uint64().AsAny(), rapid.Int64().AsAny(), rapid.Float32().AsAny(), rapid.Float64().AsAny(),
		rapid.Bool().AsAny(), rapid.String().AsAny(), rapid.SliceOf(rapid.Uint8()).AsAny(), rapid.SliceOf(rapid.Int16()).AsAny(),
		rapid.SliceOf(rapid.Uint32()).AsAny(), rapid.SliceOf(rapid.Int64()).AsAny(), rapid.SliceOf(rapid.Float64()).AsAny(),
		rapid.SliceOf(rapid.Bool()).AsAny(), rapid.SliceOf(rapid.String()).AsAny(),
		rapid.SliceOf(rapid.SliceOf(rapid.Int8()).AsAny()).AsAny(),
	)
	rapid.Check(t, func(rt *rapid.T) {
		metadata := []Entry{{alignmentKey, uint32(1) << rapid.IntRange(0, 8).Draw(rt, "alignment")}}
		for _, key := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,4}`), 0, 6, rapid.ID).Draw(rt, "keys") {
			metadata = append(metadata, Entry{key, values.Draw(rt, key)})
		}
		var specs []Spec
		for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z.]{1,5}`), 0, 6, rapid.ID).Draw(rt, "names") {
			typ := rapid.SampledFrom(types).Draw(rt, "type")
			shape := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 4).Draw(rt, "shape")
			shape[len(shape)-1] *= typ.Size()
			specs = append(specs, Spec{name, typ, shape})
		}
		p, err := NewPlan("m", metadata, specs, rapid.Int64Range(0, 3000).Draw(rt, "part"))
		if err != nil {
			rt.Fatal(err)
		}
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		w, err := Create(dir, p)
		if err != nil {
			rt.Fatal(err)
		}
		for i := len(specs) - 1; i >= 0; i-- {
			size, _ := sizeOf(specs[i].Type, specs[i].Shape)
			if err := w.WriteAt(specs[i].Name, bytes.Repeat([]byte{byte(i + 1)}, int(size)), 0); err != nil {
				rt.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			rt.Fatal(err)
		}
		s, err := OpenSet(os.DirFS(dir), p.Files[len(p.Files)-1].Name)
		if err != nil {
			rt.Fatal(err)
		}
		defer s.Close()
		if diff := cmp.Diff(metadata, s.Metadata()[:len(metadata)], equalNaN); diff != "" {
			rt.Fatalf("metadata:\n%s", diff)
		}
		if len(s.Tensors()) != len(specs) {
			rt.Fatalf("%d tensors of %d", len(s.Tensors()), len(specs))
		}
		for i, tensor := range s.Tensors() { // in the order given, also over parts
			if (tensor.Name != specs[i].Name) || tensor.Type != specs[i].Type || !cmp.Equal(tensor.Shape, specs[i].Shape) {
				rt.Fatalf("%+v came back as %+v", specs[i], tensor)
			}
			b := make([]byte, tensor.Bytes)
			if err := s.ReadAt(tensor.Name, b, 0); err != nil || len(bytes.Trim(b, string(rune(i+1)))) != 0 {
				rt.Fatalf("%q: % x, %v", tensor.Name, b, err)
			}
		}
		for i, f := range s.Files() {
			if f.File.Size() != p.Files[i].Size || !cmp.Equal(f.File.Tensors(), append([]Tensor(nil), p.Files[i].Tensors...)) {
				rt.Fatalf("%s is not as planned", f.Name)
			}
		}
	})
}

// equalNaN compares floats by value, NaN with NaN.
var equalNaN = cmp.Comparer(func(a, b float64) bool { return a == b || a != a && b != b })

func TestWriter(t *testing.T) {
	p, err := NewPlan("m", nil, []Spec{{"a", block.I8, []int{8}}, {"b", block.I8, []int{8}}}, 8)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	w, err := Create(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{w.WriteAt("a", make([]byte, 9), 0), w.WriteAt("a", []byte{1}, 8), w.WriteAt("c", nil, 0),
		w.ReadAt("b", make([]byte, 1), -1)} {
		if err == nil || !strings.HasPrefix(err.Error(), "gguf: tensor ") {
			t.Errorf("error %v", err)
		}
	}
	if err := errors.Join(w.WriteAt("b", []byte{5}, 7), w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, p); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v", err)
	}
	again, err := Reopen(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 8)
	if err := again.ReadAt("b", got, 0); err != nil || !bytes.Equal(got, []byte{0, 0, 0, 0, 0, 0, 0, 5}) {
		t.Errorf("% x, %v", got, err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, p.Files[1].Name), 100); err != nil {
		t.Fatal(err)
	}
	if _, err := Reopen(dir, p); err == nil || !strings.Contains(err.Error(), "the file has 100 bytes, the plan") {
		t.Errorf("error %v", err)
	}
}
