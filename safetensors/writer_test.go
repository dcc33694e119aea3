package safetensors

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// pattern is the data of a test tensor of n bytes.
func pattern(n int64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + 3)
	}
	return b
}

// store creates the files of a plan in a new folder, each tensor filled with pattern.
func store(t *testing.T, p *Plan) (dir string) {
	t.Helper()
	dir = t.TempDir()
	w, err := Create(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range p.Files {
		for _, tensor := range f.Tensors {
			if err := w.WriteAt(tensor.Name, pattern(tensor.Bytes()), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func plan(t *testing.T, specs []Spec, metadata map[string]string, maxShard int64) *Plan {
	t.Helper()
	p, err := NewPlan(specs, metadata, maxShard)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The digests are of files that safetensors 0.8.0 (Python, safetensors.serialize) wrote from the same tensors, given in
// this order, each filled with pattern. That version cannot be asked for the types of 6 bits.
func TestBytesOfTheReference(t *testing.T) {
	tests := []struct {
		name     string
		specs    []Spec
		metadata map[string]string
		size     int
		sha256   string
	}{
		{"example", []Spec{{"attn.0", F32, []int{1, 2, 3}}}, nil, 96, "ffeeb14fbe99500044a1738cd23704edc0c6205cd566a8851af4d2dd2b3593d7"},
		{"no tensors", nil, nil, 16, "9bbcbf73561f6bc5d0a17ea6a2081feed2d1304e87602d8c502d9a5c4bd85576"},
		{"no tensors but metadata", nil, map[string]string{"format": "pt"}, 40, "60d95b10b6e140a9626a7058d5038528f2ff80148dc4569b881db56052046509"},
		{"empty metadata", []Spec{{"attn.0", F32, []int{1, 2, 3}}}, map[string]string{}, 120, "8574308cff74bef235f7057e144e19a9681ced0ee1a6b4bd170cbd2b1e467b4b"},
		{"every type but those of 6 bits", []Spec{
			{"z.float", F32, []int{2, 3}}, {"ünï \"q\" \\ 日本", BF16, []int{4}},
			{"tab\tnl\nbell\x07del\x7f<&>\u2028", F16, []int{1, 3}}, {"scalar", I64, nil}, {"empty", F32, []int{0, 5}},
			{"bytes", U8, []int{5}}, {"bool", Bool, []int{3}}, {"a.i32", I32, []int{1}}, {"f8", F8E4M3, []int{2}},
			{"b.f64", F64, []int{1}}, {"i8", I8, []int{1, 1, 1}}, {"e8", F8E8M0, []int{1}}, {"f8b", F8E5M2, []int{1}},
			{"u16", U16, []int{1}}, {"i16", I16, []int{1}}, {"u32", U32, []int{1}}, {"u64", U64, []int{1}},
			{"c64", C64, []int{1}}, {"fnuz4", F8E4M3FNUZ, []int{1}}, {"fnuz5", F8E5M2FNUZ, []int{1}},
			{"f4", F4, []int{6}},
		}, map[string]string{"format\x01": "\b\f\r/é"}, 1444, "5ec37cf8bbe1145301a8671deb77ceb2bb0c09dff932efd8159177fceced78ef"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := plan(t, test.specs, test.metadata, 0)
			b, err := os.ReadFile(filepath.Join(store(t, p), "model.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(b)
			if len(b) != test.size || hex.EncodeToString(sum[:]) != test.sha256 {
				t.Errorf("%d bytes, want %d, digest %x; header %s", len(b), test.size, sum, p.Files[0].Header)
			}
		})
	}
}

// specsOf draws tensors of up to a few hundred bytes with arbitrary names and types.
func specsOf(t *rapid.T) []Spec {
	names := rapid.SliceOfNDistinct(rapid.String(), 0, 12, rapid.ID).Draw(t, "names")
	var specs []Spec
	for _, name := range names {
		if name == metadataKey {
			continue
		}
		d := DType(rapid.IntRange(0, int(numDTypes)-1).Draw(t, "dtype"))
		shape := rapid.SliceOfN(rapid.IntRange(0, 5), 0, 3).Draw(t, "shape")
		if d.Bits() < 8 {
			shape = append(shape, 4) // 4 elements of 4 or 6 bits fill bytes
		}
		specs = append(specs, Spec{name, d, shape})
	}
	return specs
}

func TestRoundTrip(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		specs := specsOf(rt)
		metadata := rapid.MapOf(rapid.String(), rapid.String()).Draw(rt, "metadata")
		p, err := NewPlan(specs, metadata, rapid.Int64Range(0, 300).Draw(rt, "max shard"))
		if err != nil {
			rt.Fatal(err)
		}
		dir, err := os.MkdirTemp(root, "")
		if err != nil {
			rt.Fatal(err)
		}
		w, err := Create(dir, p)
		if err != nil {
			rt.Fatal(err)
		}
		for i, spec := range specs {
			size, _ := sizeOf(spec.DType, spec.Shape)
			if err := w.WriteAt(spec.Name, bytes.Repeat([]byte{byte(i + 1)}, int(size)), 0); err != nil {
				rt.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			rt.Fatal(err)
		}
		set := openPlanned(rt, dir, p)
		defer set.Close()
		if len(set.Tensors()) != len(specs) {
			rt.Fatalf("%d tensors of %d", len(set.Tensors()), len(specs))
		}
		for i, spec := range specs {
			got, ok := set.Lookup(spec.Name)
			if !ok || got.DType != spec.DType || !cmp.Equal(got.Shape, append([]int{}, spec.Shape...)) {
				rt.Fatalf("%+v came back as %+v", spec, got)
			}
			b := make([]byte, got.Bytes())
			if err := set.ReadAt(spec.Name, b, 0); err != nil || len(bytes.Trim(b, string(rune(i+1)))) != 0 {
				rt.Fatalf("%q: % x, %v", spec.Name, b, err)
			}
		}
		for _, sf := range set.Files() {
			if sf.File.DataStart()%8 != 0 || !cmp.Equal(sf.File.Metadata(), metadata) {
				rt.Fatalf("data at %d, metadata %q of %q", sf.File.DataStart(), sf.File.Metadata(), metadata)
			}
		}
	})
}

// openPlanned opens what was written by a plan, as a reader would find it.
func openPlanned(t *rapid.T, dir string, p *Plan) *Set {
	name := p.Files[0].Name
	if index := p.Index(); index != nil {
		name = "model.safetensors.index.json"
		if err := os.WriteFile(filepath.Join(dir, name), index, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	set, err := OpenSet(os.DirFS(dir), name)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestConcurrentWrites(t *testing.T) {
	const tensors, rows, row = 8, 16, 512
	var specs []Spec
	for i := range tensors {
		specs = append(specs, Spec{fmt.Sprint(i), U16, []int{rows, row / 2}})
	}
	p := plan(t, specs, nil, 3*rows*row)
	dir := t.TempDir()
	w, err := Create(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var group sync.WaitGroup
	for i := range tensors {
		for r := range rows {
			group.Go(func() {
				b := bytes.Repeat([]byte{byte(i*rows + r)}, row)
				if err := w.WriteAt(fmt.Sprint(i), b, int64(r*row)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
	for i := range tensors {
		got := make([]byte, rows*row)
		if err := w.ReadAt(fmt.Sprint(i), got, 0); err != nil {
			t.Fatal(err)
		}
		for j, b := range got {
			if b != byte(i*rows+j/row) {
				t.Fatalf("tensor %d, byte %d is %d", i, j, b)
			}
		}
	}
}

func TestWriteOutsideTheTensor(t *testing.T) {
	p := plan(t, []Spec{{"a", U8, []int{8}}, {"b", U8, []int{8}}}, nil, 0)
	dir := t.TempDir()
	w, err := Create(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, test := range []struct {
		name   string
		tensor string
		n      int
		off    int64
	}{
		{"into the header", "a", 1, -1},
		{"into the next tensor", "a", 9, 0},
		{"behind the file", "b", 1, 8},
		{"far behind the file", "b", 1, math.MaxInt64},
		{"tensor that is not planned", "c", 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := bytes.Repeat([]byte{1}, test.n)
			for _, err := range []error{w.WriteAt(test.tensor, p, test.off), w.ReadAt(test.tensor, p, test.off)} {
				if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", test.tensor)) {
					t.Errorf("error %v", err)
				}
			}
		})
	}
	got, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	want := append(bytes.Clone(p.Files[0].Header), make([]byte, 16)...)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file changed: %q, %v", got, err)
	}
}

func TestCreateRefusesAnExistingFile(t *testing.T) {
	p := plan(t, []Spec{{"a", U8, []int{8}}, {"b", U8, []int{8}}}, nil, 8)
	dir := t.TempDir()
	mine := filepath.Join(dir, "model-00002-of-00002.safetensors")
	target := filepath.Join(dir, "elsewhere")
	if err := errors.Join(os.WriteFile(target, []byte("mine"), 0o644), os.Symlink(target, mine)); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, p); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v", err)
	}
	if got, err := os.ReadFile(mine); err != nil || string(got) != "mine" {
		t.Errorf("the existing file is %q, %v", got, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "model-00001-of-00002.safetensors")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the first file is left: %v", err)
	}
}

func TestReopen(t *testing.T) {
	p := plan(t, []Spec{{"a", U8, []int{8}}}, nil, 0)
	header := p.Files[0].Header
	tests := []struct {
		name   string
		change func(path string) error
		want   string // "" for success
	}{
		{"unchanged", func(string) error { return nil }, ""},
		{"header changed", func(path string) error {
			return os.WriteFile(path, append(bytes.Replace(header, []byte("U8"), []byte("I8"), 1), make([]byte, 8)...), 0o644)
		}, "the header is not the plan's"},
		{"file shorter", func(path string) error { return os.Truncate(path, int64(len(header))) }, "the file has 64 bytes, the plan 72"},
		{"file longer", func(path string) error { return os.Truncate(path, 73) }, "the file has 73 bytes, the plan 72"},
		{"file absent", os.Remove, "model.safetensors"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := store(t, p)
			if err := test.change(filepath.Join(dir, "model.safetensors")); err != nil {
				t.Fatal(err)
			}
			w, err := Reopen(dir, p)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want %s", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			got := make([]byte, 8)
			if err := errors.Join(w.WriteAt("a", []byte{0xff}, 7), w.ReadAt("a", got, 0)); err != nil {
				t.Fatal(err)
			}
			if want := append(pattern(7), 0xff); !bytes.Equal(got, want) {
				t.Errorf("% x, want % x", got, want)
			}
		})
	}
}
