package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nibble/gguf/block"
)

// raw builds a little-endian file by hand.
type raw []byte

func (b raw) u8(v ...byte) raw     { return append(b, v...) }
func (b raw) u32(v uint32) raw     { return binary.LittleEndian.AppendUint32(b, v) }
func (b raw) u64(v uint64) raw     { return binary.LittleEndian.AppendUint64(b, v) }
func (b raw) str(s string) raw     { return append(b.u64(uint64(len(s))), s...) }
func (b raw) zeros(n int) raw      { return append(b, make([]byte, n)...) }
func file(tensors, n uint64) raw   { return raw("GGUF").u32(3).u64(tensors).u64(n) }
func (b raw) align() raw           { return b.zeros(-len(b) & 31) }
func (b raw) open() (*File, error) { return New(bytes.NewReader(b), int64(len(b))) }

func (b raw) tensor(name string, typ uint32, offset uint64, ne ...uint64) raw {
	b = b.str(name).u32(uint32(len(ne)))
	for _, n := range ne {
		b = b.u64(n)
	}
	return b.u32(typ).u64(offset)
}

// example is the file of the package comment.
func example() raw {
	b := file(1, 1).str("k").u32(0).u8(7).tensor("a", 0, 0, 2)
	return b.align().u32(0x3f800000).u32(0x40000000).zeros(24)
}

func TestExample(t *testing.T) {
	if b := example(); len(b) != 128 || b[71] != 0 || b[98] != 0x80 {
		t.Fatalf("the example is not that of the package comment: % x", b)
	}
	path := filepath.Join(t.TempDir(), "a.gguf")
	if err := os.WriteFile(path, example(), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() (*File, error){
		"Open": func() (*File, error) { return Open(path) },
		"New":  example().open,
	} {
		t.Run(name, func(t *testing.T) {
			f, err := open()
			if err != nil {
				t.Fatal(err)
			}
			want := Tensor{"a", block.F32, []int{2}, 96, 8}
			got, ok := f.Lookup("a")
			if !ok || !cmp.Equal(got, want) {
				t.Errorf("Lookup: %v, want %v", got, want)
			}
			if v, ok := f.Value("k"); !ok || v != uint8(7) {
				t.Errorf("Value: %v", v)
			}
			p := make([]byte, 4)
			if err := f.ReadAt(got, p, 4); err != nil || !bytes.Equal(p, []byte{0, 0, 0, 0x40}) {
				t.Errorf("ReadAt: % x, %v", p, err)
			}
			if f.DataStart() != 96 || f.Alignment() != 32 || f.Size() != 128 || f.BigEndian() {
				t.Errorf("%+v", f)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	nested := file(0, 1).str("k").u32(9)
	for range 5 {
		nested = nested.u32(9).u64(1)
	}
	for _, test := range []struct {
		name   string
		file   raw
		kind   Kind
		offset int64
		about  string
	}{
		{"empty file", raw{}, Truncated, 0, ""},
		{"another format", raw("PK\x03\x04").zeros(40), BadMagic, 0, ""},
		{"lower case", raw("gguf").u32(3).zeros(16), BadMagic, 0, ""},
		{"version 1", raw("GGUF").u32(1).zeros(16), UnsupportedVersion, 4, ""},
		{"version 4", raw("GGUF").u32(4).zeros(16), UnsupportedVersion, 4, ""},
		{"version 1, big-endian", raw("GGUF").u8(0, 0, 0, 1).zeros(16), UnsupportedVersion, 4, ""},
		{"no counts", raw("GGUF").u32(3).u64(0), Truncated, 16, ""},
		{"more entries than bytes", file(0, 1<<40), Truncated, 24, ""},
		{"more tensors than bytes", file(1<<63, 0), Truncated, 24, ""},
		{"key longer than the file", file(0, 1).u64(1 << 62).zeros(40), Truncated, 32, ""},
		{"empty key", file(0, 1).str("").u32(0).u8(0, 0), InvalidKey, 24, ""},
		{"key too long", file(0, 1).str(strings.Repeat("k", 65536)).u32(0).u8(0), InvalidKey, 24, ""},
		{"key not UTF-8", file(0, 1).str("\xff").u32(0).u8(0), InvalidKey, 24, ""},
		{"key twice", file(0, 2).str("k").u32(0).u8(0).str("k").u32(0).u8(0), Duplicate, 38, "k"},
		{"value type 13", file(0, 1).str("k").u32(13).zeros(8), InvalidValueType, 33, "k"},
		{"element type 13", file(0, 1).str("k").u32(9).u32(13).u64(1).zeros(8), InvalidValueType, 37, "k"},
		{"string longer than the file", file(0, 1).str("k").u32(8).u64(100).u8(1), Truncated, 45, "k"},
		{"array longer than the file", file(0, 1).str("k").u32(9).u32(10).u64(1 << 61).zeros(8), Truncated, 49, "k"},
		{"array of strings longer than the file", file(0, 1).str("k").u32(9).u32(8).u64(2).zeros(8), Truncated, 49, "k"},
		{"bool 2", file(0, 1).str("k").u32(7).u8(2), InvalidBool, 37, "k"},
		{"bool 2 in an array", file(0, 1).str("k").u32(9).u32(7).u64(3).u8(0, 1, 2), InvalidBool, 51, "k"},
		{"nested too deep", nested, TooDeep, 85, "k"},
		{"alignment of another type", file(0, 1).str("general.alignment").u32(10).u64(32), InvalidAlignment, 53, alignmentKey},
		{"alignment 0", file(0, 1).str("general.alignment").u32(4).u32(0), InvalidAlignment, 53, alignmentKey},
		{"alignment 48", file(0, 1).str("general.alignment").u32(4).u32(48), InvalidAlignment, 53, alignmentKey},
		{"empty name", file(1, 0).tensor("", 0, 0, 1).align().zeros(4), InvalidName, 24, ""},
		{"name too long", file(1, 0).tensor(strings.Repeat("a", 65), 0, 0, 1).align().zeros(4), InvalidName, 24, ""},
		{"name not UTF-8", file(1, 0).tensor("\xc0", 0, 0, 1).align().zeros(4), InvalidName, 24, ""},
		{"name twice", file(2, 0).tensor("a", 0, 0, 1).tensor("a", 0, 32, 1).align().zeros(64), Duplicate, 57, "a"},
		{"five dimensions", file(1, 0).tensor("a", 0, 0, 1, 1, 1, 1, 1).align().zeros(4), InvalidShape, 33, "a"},
		{"dimension of 64 bits", file(1, 0).tensor("a", 0, 0, 1<<63).align().zeros(4), InvalidShape, 37, "a"},
		{"elements overflow", file(1, 0).tensor("a", 0, 0, 1<<32, 1<<32).align(), InvalidShape, 53, "a"},
		{"bytes overflow", file(1, 0).tensor("a", 0, 0, 1<<62).align(), InvalidShape, 45, "a"},
		{"zeros hide an overflow", file(1, 0).tensor("a", 0, 0, 1<<32, 1<<32, 0).align(), InvalidShape, 61, "a"},
		{"row of half a block", file(1, 0).tensor("a", 12, 0, 128, 2).align().zeros(144), InvalidShape, 53, "a"},
		{"type that is no more", file(1, 0).tensor("a", 4, 0, 32).align().zeros(32), UnknownType, 45, "a"},
		{"type 99", file(1, 0).tensor("a", 99, 0, 32).align().zeros(32), UnknownType, 45, "a"},
		{"offset not aligned", file(1, 0).tensor("a", 0, 4, 1).align().zeros(64), InvalidOffset, 49, "a"},
		{"offset of 64 bits", file(1, 0).tensor("a", 0, 1<<63, 1).align().zeros(64), InvalidOffset, 49, "a"},
		{"behind the file", file(1, 0).tensor("a", 0, 64, 1).align().zeros(64), InvalidOffset, 24, "a"},
		{"end behind the file", file(1, 0).tensor("a", 0, 32, 9).align().zeros(64), InvalidOffset, 24, "a"},
		{"no data at all", file(1, 0).tensor("a", 0, 0, 1), InvalidOffset, 24, "a"},
		{"overlap", file(2, 0).tensor("a", 0, 0, 9).tensor("b", 0, 32, 1).align().zeros(64), Overlap, 57, "b"},
		{"the same place", file(2, 0).tensor("a", 0, 32, 1).tensor("b", 0, 32, 1).align().zeros(64), Overlap, 57, "b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := test.file.open()
			var f *FormatError
			if !errors.As(err, &f) {
				t.Fatalf("error %v", err)
			}
			if f.Kind != test.kind || f.Offset != test.offset || f.Name != test.about || f.File != "input" {
				t.Errorf("%v; want %s at %d about %q", err, test.kind, test.offset, test.about)
			}
			unsupported := test.kind == UnsupportedVersion || test.kind == UnknownType
			if errors.Is(err, ErrUnsupported) != unsupported || errors.Is(err, ErrCorrupt) == unsupported {
				t.Errorf("%v is of the wrong class", err)
			}
		})
	}
}

// sparse is a file of zeros but for its beginning.
type sparse []byte

func (s sparse) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	if off < int64(len(s)) {
		copy(p, s[off:])
	}
	return len(p), nil
}

func TestHeaderTooLarge(t *testing.T) {
	b := file(0, 1).str("k").u32(9).u32(0).u64(1 << 29)
	_, err := New(sparse(b), 1<<40)
	var f *FormatError
	if !errors.As(err, &f) || f.Kind != HeaderTooLarge || !errors.Is(err, ErrUnsupported) {
		t.Errorf("error %v", err)
	}
}

func TestAccepted(t *testing.T) {
	for _, test := range []struct {
		name string
		file raw
		want []Tensor
	}{
		{"nothing", file(0, 0), nil},
		{"a gap, and bytes behind", file(2, 0).tensor("a", 0, 64, 1).tensor("b", 24, 0, 3).align().zeros(200),
			[]Tensor{{"a", block.F32, []int{1}, 160, 4}, {"b", block.I8, []int{3}, 96, 3}}},
		{"no padding at the end", file(1, 0).tensor("a", 0, 0).align().zeros(4), []Tensor{{"a", block.F32, []int{}, 64, 4}}},
		{"no elements", file(1, 0).tensor("a", 12, 0, 256, 0).align(), []Tensor{{"a", block.Q4_K, []int{0, 256}, 96, 0}}},
		{"alignment 1", file(1, 1).str(alignmentKey).u32(4).u32(1).tensor("a", 0, 1, 1).zeros(5),
			[]Tensor{{"a", block.F32, []int{1}, 91, 4}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := test.file.open()
			if err != nil || !cmp.Equal(f.Tensors(), test.want) {
				t.Errorf("%v, %v", f, err)
			}
		})
	}
}

func TestReadOutsideTheTensor(t *testing.T) {
	f, err := example().open()
	if err != nil {
		t.Fatal(err)
	}
	a, _ := f.Lookup("a")
	other := a
	other.Bytes = math.MaxInt64
	early := a
	early.Offset = 0
	for _, test := range []struct {
		name string
		t    Tensor
		n    int
		off  int64
	}{
		{"before", a, 1, -1}, {"behind", a, 1, 8}, {"across the end", a, 5, 4}, {"far behind", a, 1, math.MaxInt64},
		{"a larger tensor of another file", other, 1, 0}, {"the header", early, 1, 0},
	} {
		if err := f.ReadAt(test.t, make([]byte, test.n), test.off); err == nil {
			t.Errorf("%s: no error", test.name)
		}
	}
}

func TestShortenedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.gguf")
	if err := os.WriteFile(path, example(), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	a, _ := f.Lookup("a")
	if err := f.ReadAt(a, make([]byte, 8), 0); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
}

func TestOpenRefusesAFolder(t *testing.T) {
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("error %v", err)
	}
}
