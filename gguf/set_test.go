package gguf

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// part returns a part with one tensor of one float and the given entries, each a uint16 but for those of 0xffff, which
// are left out.
func part(tensor string, no, count, tensors uint16) *fstest.MapFile {
	entries := raw{}
	n := uint64(0)
	for _, e := range []struct {
		key   string
		value uint16
	}{{splitNo, no}, {splitCount, count}, {splitTensors, tensors}} {
		if e.value != 0xffff {
			entries = append(entries.str(e.key).u32(2), byte(e.value), byte(e.value>>8))
			n++
		}
	}
	b := append(file(1, n), entries...).tensor(tensor, 0, 0, 1).align().u32(0x3f800000)
	return &fstest.MapFile{Data: b}
}

func TestParts(t *testing.T) {
	fsys := fstest.MapFS{
		"m/a-00001-of-00003.gguf": part("x", 0, 3, 3),
		"m/a-00002-of-00003.gguf": part("y", 1, 3, 3),
		"m/a-00003-of-00003.gguf": part("z", 2, 3, 3),
	}
	for name := range fsys {
		s, err := OpenSet(fsys, name)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, tensor := range s.Tensors() {
			got = append(got, tensor.Name)
		}
		if !cmp.Equal(got, []string{"x", "y", "z"}) || len(s.Files()) != 3 || s.Files()[2].Name != "m/a-00003-of-00003.gguf" {
			t.Errorf("%s: %v in %v", name, got, s.Files())
		}
		p := make([]byte, 4)
		if err := s.ReadAt("z", p, 0); err != nil || p[3] != 0x3f {
			t.Errorf("% x, %v", p, err)
		}
		if err := s.ReadAt("w", p, 0); err == nil {
			t.Error("a tensor that is in no part was read")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestPartRefusals(t *testing.T) {
	const one, two = "a-00001-of-00002.gguf", "a-00002-of-00002.gguf"
	big := &fstest.MapFile{Data: raw("GGUF").u8(0, 0, 0, 3).u8(0, 0, 0, 0, 0, 0, 0, 0).u8(0, 0, 0, 0, 0, 0, 0, 3)}
	for i, key := range []string{splitNo, splitCount, splitTensors} {
		b := raw(big.Data).u8(0, 0, 0, 0, 0, 0, 0, byte(len(key)))
		big.Data = append(append(b, key...), 0, 0, 0, 2, 0, []byte{1, 2, 1}[i])
	}
	for _, test := range []struct {
		name, open string
		files      fstest.MapFS
		kind       Kind
		file, want string
	}{
		{"missing part", one, fstest.MapFS{one: part("x", 0, 2, 2)}, MissingPart, one, two + " does not exist"},
		{"missing first part", two, fstest.MapFS{two: part("y", 1, 2, 2)}, MissingPart, two, one + " does not exist"},
		{"renamed", "b.gguf", fstest.MapFS{"b.gguf": part("x", 0, 2, 2)}, InvalidSplit, "b.gguf", "NAME-00001-of-00002.gguf"},
		{"part 0", "a-00000-of-00002.gguf", fstest.MapFS{"a-00000-of-00002.gguf": part("x", 0, 2, 2)}, InvalidSplit,
			"a-00000-of-00002.gguf", "part 0 of 2"},
		{"part 3 of 2", "a-00003-of-00002.gguf", fstest.MapFS{"a-00003-of-00002.gguf": part("x", 2, 2, 2)}, InvalidSplit,
			"a-00003-of-00002.gguf", "part 3 of 2"},
		{"swapped parts", one, fstest.MapFS{one: part("x", 1, 2, 2), two: part("y", 0, 2, 2)}, InvalidSplit, one, "1, where 0"},
		{"count of another model", one, fstest.MapFS{one: part("x", 0, 2, 2), two: part("y", 1, 3, 2)}, InvalidSplit, two, "3, where 2"},
		{"no count", one, fstest.MapFS{one: part("x", 0, 0xffff, 2), two: part("y", 1, 2, 2)}, InvalidSplit, one, "missing"},
		{"no number", two, fstest.MapFS{one: part("x", 0xffff, 2, 2), two: part("y", 1, 2, 2)}, InvalidSplit, one, "missing"},
		{"no number of tensors", one, fstest.MapFS{one: part("x", 0, 2, 2), two: part("y", 1, 2, 0xffff)}, InvalidSplit, two, "missing"},
		{"numbers of tensors differ", one, fstest.MapFS{one: part("x", 0, 2, 2), two: part("y", 1, 2, 3)}, InvalidSplit, two, "3, where 2"},
		{"tensors lost", one, fstest.MapFS{one: part("x", 0, 2, 3), two: part("y", 1, 2, 3)}, InvalidSplit, one, "3 tensors, but the parts have 2"},
		{"tensor twice", one, fstest.MapFS{one: part("x", 0, 2, 2), two: part("x", 1, 2, 2)}, Duplicate, two, one + " has it"},
		{"byte orders", one, fstest.MapFS{one: part("x", 0, 2, 1), two: big}, InvalidSplit, two, "byte order"},
		{"part of another format", one, fstest.MapFS{one: part("x", 0, 2, 2), two: {Data: raw("PK\x03\x04")}}, BadMagic, two, "PK"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := OpenSet(test.files, test.open)
			var f *FormatError
			if !errors.As(err, &f) || f.Kind != test.kind || f.File != test.file || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %s of %s with %q", err, test.kind, test.file, test.want)
			}
		})
	}
}

// TestOnePart opens a file that says it is the only part, whatever its name.
func TestOnePart(t *testing.T) {
	s, err := OpenSet(fstest.MapFS{"x.gguf": part("x", 0, 1, 1)}, "x.gguf")
	if err != nil || len(s.Tensors()) != 1 {
		t.Errorf("%v, %v", s, err)
	}
}

func TestOpenSetRefusals(t *testing.T) {
	if _, err := OpenSet(fstest.MapFS{}, "x.gguf"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if _, err := OpenSet(os.DirFS(t.TempDir()), "."); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("error %v", err)
	}
}
