package view_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"nibble/demo"
	"nibble/gguf"
	"nibble/gguf/view"
	"nibble/hf"
)

// turned writes a file in big-endian order: version, counts, lengths, values of metadata, shapes, offsets and the numbers in the
// blocks. Strings keep their bytes.
func turned(t *testing.T, path string) string {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := []byte("GGUF")
	put := func(v any) {
		if b, err = binary.Append(b, binary.BigEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	text := func(s string) {
		put(uint64(len(s)))
		b = append(b, s...)
	}
	// The numbers of the types, from the format's description.
	kinds := map[reflect.Kind]uint32{reflect.Uint8: 0, reflect.Int8: 1, reflect.Uint16: 2, reflect.Int16: 3, reflect.Uint32: 4, reflect.Int32: 5,
		reflect.Float32: 6, reflect.Bool: 7, reflect.String: 8, reflect.Slice: 9, reflect.Uint64: 10, reflect.Int64: 11, reflect.Float64: 12}
	put(uint32(f.Version()))
	put(uint64(len(f.Tensors())))
	put(uint64(len(f.Metadata())))
	for _, e := range f.Metadata() {
		text(e.Key)
		v := reflect.ValueOf(e.Value)
		put(kinds[v.Kind()])
		switch {
		case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String:
			put(kinds[reflect.String])
			put(uint64(v.Len()))
			for _, s := range e.Value.([]string) {
				text(s)
			}
		case v.Kind() == reflect.Slice:
			put(kinds[v.Type().Elem().Kind()])
			put(uint64(v.Len()))
			put(e.Value)
		case v.Kind() == reflect.String:
			text(v.String())
		default:
			put(e.Value)
		}
	}
	for _, x := range f.Tensors() {
		text(x.Name)
		put(uint32(len(x.Shape)))
		for _, n := range slices.Backward(x.Shape) {
			put(uint64(n))
		}
		put(uint32(x.Type))
		put(uint64(x.Offset - f.DataStart()))
	}
	b = append(b, make([]byte, f.DataStart()-int64(len(b)))...)
	b = append(b, make([]byte, f.Size()-f.DataStart())...)
	for _, x := range f.Tensors() {
		raw := b[x.Offset:][:x.Bytes]
		if err := errors.Join(f.ReadAt(x, raw, 0), x.Type.Swap(raw)); err != nil {
			t.Fatal(err)
		}
	}
	to := filepath.Join(t.TempDir(), "big.gguf")
	if err := os.WriteFile(to, b, 0o666); err != nil {
		t.Fatal(err)
	}
	return to
}

// A model in big-endian order is shown as the same folder, byte for byte, as codes and as floats: permuted rows,
// blocks of 32 and of 256, and floats.
func TestBigEndian(t *testing.T) {
	whole, err := hf.NewFolder("", demo.FS(), "")
	if err != nil {
		t.Fatal(err)
	}
	models := map[string]string{"demo": write(t, whole, "q4_k_m"), "qwen3": write(t, tiny(t, "qwen3"), "q8_0"), "llama": write(t, tiny(t, "llama-llama3"), "f16")}
	for name, little := range models {
		big := turned(t, little)
		for _, plain := range []bool{false, true} {
			a, err := view.Folder(little, plain)
			if err != nil {
				t.Fatal(err)
			}
			b, err := view.Folder(big, plain)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(a.Files) < 2 || !slices.Equal(a.Files, b.Files) {
				t.Fatalf("%s: files %q and %q", name, a.Files, b.Files)
			}
			for _, file := range a.Files {
				want, err := fs.ReadFile(a.FS, file)
				if err != nil {
					t.Fatal(err)
				}
				if have, err := fs.ReadFile(b.FS, file); err != nil || !bytes.Equal(have, want) {
					t.Errorf("%s: %s differs: %v", name, file, err)
				}
			}
		}
	}
}
