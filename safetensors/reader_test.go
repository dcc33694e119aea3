package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fileOf returns a file with the given header, as long as the header is, and data.
func fileOf(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func open(b []byte) (*File, error) { return New(bytes.NewReader(b), int64(len(b))) }

func write(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// example is the file of the package comment, which is the example of the format's README: six floats 0 to 5.
func example() []byte {
	b := []byte("\x40\x00\x00\x00\x00\x00\x00\x00" +
		`{"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}}`)
	for _, bits := range []uint32{0, 0x3f800000, 0x40000000, 0x40400000, 0x40800000, 0x40a00000} {
		b = binary.LittleEndian.AppendUint32(b, bits)
	}
	return b
}

func TestExample(t *testing.T) {
	path := write(t, example())
	for name, open := range map[string]func() (*File, error){
		"Open": func() (*File, error) { return Open(path) },
		"New":  func() (*File, error) { return open(example()) },
	} {
		t.Run(name, func(t *testing.T) {
			f, err := open()
			if err != nil {
				t.Fatal(err)
			}
			want := Tensor{"attn.0", F32, []int{1, 2, 3}, 0, 24}
			if got, ok := f.Lookup("attn.0"); !ok || !cmp.Equal(got, want) {
				t.Errorf("Lookup: %v, %v; want %v", got, ok, want)
			}
			if _, ok := f.Lookup("attn"); ok {
				t.Error("Lookup finds a tensor that is not there")
			}
			if f.DataStart() != 72 || f.Size() != 96 || f.Metadata() != nil {
				t.Errorf("data starts at %d of %d bytes, metadata %v", f.DataStart(), f.Size(), f.Metadata())
			}
			if want.Elements() != 6 || want.Bytes() != 24 {
				t.Errorf("%d elements in %d bytes", want.Elements(), want.Bytes())
			}
			one := make([]byte, 4)
			if err := f.ReadAt(want, one, 4); err != nil || !bytes.Equal(one, []byte{0, 0, 0x80, 0x3f}) {
				t.Errorf("second float: % x, %v", one, err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTensorsAreInOrderOfOffsets(t *testing.T) {
	f, err := open(fileOf(`{"c":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},
		"b":{"dtype":"U8","shape":[0],"data_offsets":[1,1]},
		"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 3))
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, tensor := range f.Tensors() {
		got += tensor.Name
		if found, ok := f.Lookup(tensor.Name); !ok || !cmp.Equal(found, tensor) {
			t.Errorf("Lookup(%q) = %v", tensor.Name, found)
		}
	}
	if got != "abc" {
		t.Errorf("order %q", got)
	}
}

func TestReadOutsideTheTensor(t *testing.T) {
	f, err := open(example())
	if err != nil {
		t.Fatal(err)
	}
	attn := f.Tensors()[0]
	foreign := Tensor{Name: "attn.1", DType: U8, Shape: []int{25}, End: 25}
	tests := []struct {
		name   string
		tensor Tensor
		n      int
		off    int64
	}{
		{"before", attn, 1, -1},
		{"behind", attn, 1, 24},
		{"across the end", attn, 2, 23},
		{"far behind", attn, 1, 1<<63 - 1},
		{"tensor of another file", foreign, 25, 0},
		{"tensor before the data", Tensor{Begin: -8, End: 0}, 8, 0},
		{"tensor that ends before it begins", Tensor{Begin: 8, End: 0}, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := f.ReadAt(test.tensor, make([]byte, test.n), test.off)
			if err == nil || !strings.Contains(err.Error(), test.tensor.Name) {
				t.Errorf("error %v", err)
			}
		})
	}
	if err := f.ReadAt(attn, nil, 24); err != nil {
		t.Errorf("nothing at the end: %v", err)
	}
}

func TestFileShrinksAfterOpen(t *testing.T) {
	path := write(t, example())
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 80); err != nil {
		t.Fatal(err)
	}
	err = f.ReadAt(f.Tensors()[0], make([]byte, 24), 0)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("error %v", err)
	}
	for _, part := range []string{"attn.0", "byte 72", path} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestHugeLengthsAllocateNothing(t *testing.T) {
	for _, length := range []uint64{maxHeader, maxHeader + 1, 1<<63 - 1, 1<<64 - 1} {
		b := binary.LittleEndian.AppendUint64(nil, length)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := open(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("length %d: %v", length, err)
		}
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
			t.Errorf("length %d: %d bytes allocated for a file of 8", length, grown)
		}
	}
}

func TestOpenWhatIsNoFile(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an absent file: %v", err)
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := Open(write(t, nil)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("an empty file: %v", err)
	}
}

func BenchmarkOpen10000Tensors(b *testing.B) {
	specs := make([]Spec, 10_000)
	for i := range specs {
		name := fmt.Sprintf("model.layers.%d.mlp.experts.%d.down_proj.weight", i/256, i%256)
		specs[i] = Spec{name, BF16, []int{0, 4096}}
	}
	plan, err := NewPlan(specs, nil, 0)
	if err != nil {
		b.Fatal(err)
	}
	header := plan.Files[0].Header
	b.SetBytes(int64(len(header)))
	for b.Loop() {
		if _, err := open(header); err != nil {
			b.Fatal(err)
		}
	}
}
