package imatrix

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nibble/gguf"
	"nibble/gguf/block"
	"nibble/internal/half"
)

// old makes a file of the older form.
func old(entries int, name string, calls, count int, values ...float32) []byte {
	var b []byte
	put := func(n int) { b = binary.LittleEndian.AppendUint32(b, uint32(n)) }
	put(entries)
	put(len(name))
	b = append(b, name...)
	put(calls)
	put(count)
	for _, v := range values {
		put(int(math.Float32bits(v)))
	}
	return b
}

func store(t testing.TB, raw []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "imatrix.dat")
	if err := os.WriteFile(path, raw, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOldForm(t *testing.T) {
	raw := append(old(1, "blk.0.attn_q.weight", 3, 2, 1.5, 0), "what follows"...)
	got, err := Read(store(t, raw))
	if diff := cmp.Diff(map[string][]float32{"blk.0.attn_q.weight": {1.5, 0}}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for name, raw := range map[string][]byte{
		"empty":     {},
		"none":      {0, 0, 0, 0},
		"short":     raw[:20],
		"many":      old(1<<30, "a", 1, 1, 1),
		"negative":  old(1, "a", 1, -1),
		"long":      old(1, "a", 1, 1<<25, 1),
		"below":     old(1, "a", 1, 1, -1),
		"NaN":       old(1, "a", 1, 1, float32(math.NaN())),
		"two, one":  old(2, "a", 1, 1, 1),
		"long name": old(1, string(make([]byte, 5000)), 1, 1, 1),
	} {
		if _, err := Read(store(t, raw)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestGGUFForm reads a file of the newer form, and refuses one that is something else.
func TestGGUFForm(t *testing.T) {
	write := func(kind string) string {
		p, err := gguf.NewPlan("i", []gguf.Entry{{Key: "general.type", Value: kind}}, []gguf.Spec{
			{Name: "x.weight.in_sum2", Type: block.F32, Shape: []int{2, 3}}, {Name: "x.weight.counts", Type: block.F32, Shape: []int{2, 1}}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		w, err := gguf.Create(dir, p)
		if err != nil {
			t.Fatal(err)
		}
		raw := make([]byte, 24)
		half.EncodeF32(raw, []float32{1, 2, 3, 4, 5, 6})
		if err := errors.Join(w.WriteAt("x.weight.in_sum2", raw, 0), w.Close()); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, "i.gguf")
	}
	got, err := Read(write("imatrix"))
	if diff := cmp.Diff(map[string][]float32{"x.weight": {1, 2, 3, 4, 5, 6}}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if _, err := Read(write("model")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("error %v", err)
	}
}

// TestWrite writes a matrix and a stack of two, and reads them again.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	err := Write(dir, "i.gguf", "a text", 513, []Entry{{"x.weight", []float32{1, 2, 3}, []float32{513}}, {"y.weight", []float32{4, 5, 6, 7}, []float32{500, 13}}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(filepath.Join(dir, "i.gguf"))
	if diff := cmp.Diff(map[string][]float32{"x.weight": {1, 2, 3}, "y.weight": {4, 5, 6, 7}}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	f, err := gguf.Open(filepath.Join(dir, "i.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, _ := f.Value("imatrix.chunk_count"); n != uint32(2) {
		t.Errorf("%v chunks, want 2", n)
	}
	if x, _ := f.Lookup("y.weight.in_sum2"); !slices.Equal(x.Shape, []int{2, 2}) {
		t.Errorf("the stack is %v, want 2 matrices of 2 columns", x.Shape)
	}
}

// FuzzRead reads arbitrary files: an error, or values that can be used.
func FuzzRead(f *testing.F) {
	f.Add(old(1, "a", 1, 2, 1, 2))
	f.Fuzz(func(t *testing.T, raw []byte) {
		values, err := Read(store(t, raw))
		if err == nil && len(values) == 0 {
			t.Fatal("no values, no error")
		}
	})
}
