package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// texts is the column text of testdata/make.py: nil for null.
func texts() []*string {
	words := []string{"", "one", "zwei", "три", strings.Repeat("four ", 20)}
	list := make([]*string, 40)
	for i := range list {
		if i%7 != 3 {
			list[i] = &words[i%5]
		}
	}
	return list
}

// required is the same without nulls and empty texts.
func required() []*string {
	list := texts()
	none := "none"
	for i, s := range list {
		if s == nil || *s == "" {
			list[i] = &none
		}
	}
	return list
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// column reads a column that does not repeat: nil for null.
func column(raw []byte, name string) (list []*string, err error) {
	f, err := Open(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(f.Leaves, func(l Leaf) bool { return l.Name() == name })
	if i < 0 {
		return nil, fmt.Errorf("no column %s", name)
	}
	c, err := f.Column(i)
	if err != nil {
		return nil, err
	}
	for {
		e, err := c.Next()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		if e.Value == nil {
			list = append(list, nil)
			continue
		}
		s := string(e.Value)
		list = append(list, &s)
	}
}

// Every file of pyarrow's gives what was put into it.
func TestColumns(t *testing.T) {
	tests := []struct {
		file string
		want []*string
	}{
		{"plain-snappy.parquet", texts()},
		{"dictionary-zstd-v2.parquet", texts()}, // three row groups
		{"required-gzip.parquet", required()},   // two, no levels
		{"plain-v2-checksums.parquet", texts()}, // several pages, uncompressed
	}
	for _, tt := range tests {
		got, err := column(read(t, tt.file), "text")
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", tt.file, err, diff)
		}
	}
}

// Messages are lists: the levels say where a row begins, and what is there of it.
func TestLevels(t *testing.T) {
	raw := read(t, "messages.parquet")
	f, err := Open(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	want := []Leaf{
		{Path: []string{"prompt"}, Strings: true, MaxDef: 1},
		{Path: []string{"messages", "list", "element", "content"}, Strings: true, MaxRep: 1, MaxDef: 4, ElementDef: 2},
		{Path: []string{"messages", "list", "element", "role"}, Strings: true, MaxRep: 1, MaxDef: 4, ElementDef: 2},
	}
	if diff := cmp.Diff(want, f.Leaves); diff != "" || f.Rows != 5 {
		t.Fatalf("%d rows (-want +got)\n%s", f.Rows, diff)
	}
	c, err := f.Column(1)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		e, err := c.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			break
		}
		got = append(got, fmt.Sprintf("%d %d %s", e.Rep, e.Def, e.Value))
	}
	// A list that is empty is defined to 1, none at all to 0, a null in an element to 3.
	entries := []string{"0 4 Hello?", "1 4 Good day.", "0 1 ", "0 0 ", "0 3 ", "0 4 Who?", "1 4 Me.", "1 4 Oh."}
	if diff := cmp.Diff(entries, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// The example of the format's own documentation: the numbers 0 to 7 in three bits each.
func TestHybrid(t *testing.T) {
	tests := []struct {
		raw   string
		width int
		want  []uint32
	}{
		{"\x03\x88\xc6\xfa", 3, []uint32{0, 1, 2, 3, 4, 5, 6, 7}},
		{"\x06\x05", 3, []uint32{5, 5, 5}},
		{"\x04\x34\x12", 13, []uint32{0x1234, 0x1234}},
		{"\x02\x01\x03\x02", 1, []uint32{1, 0, 1, 0, 0, 0, 0, 0, 0}},
		{"\x08", 0, []uint32{0, 0, 0, 0}},
		{"\x03" + strings.Repeat("\xff\xff\xff\xff\x00\x00\x00\x00", 4), 32, []uint32{1<<32 - 1, 0, 1<<32 - 1, 0, 1<<32 - 1, 0, 1<<32 - 1, 0}},
	}
	for _, tt := range tests {
		h := hybrid{b: []byte(tt.raw), width: tt.width}
		for i, want := range tt.want {
			if got, err := h.next(); got != want || err != nil {
				t.Errorf("% x: value %d is %d, want %d (%v)", tt.raw, i, got, want, err)
			}
		}
		if got, err := h.next(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("% x: %d behind the end (%v)", tt.raw, got, err)
		}
	}
	for _, raw := range []string{"", "\x80", "\x02", "\x05\x01\x02\x03", "\x02\x08"} {
		h := hybrid{b: []byte(raw), width: 3}
		if got, err := h.next(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("% x: %d (%v)", raw, got, err)
		}
	}
}

// What is not read is refused by its name, what is broken by its rule.
func TestRefusals(t *testing.T) {
	good := read(t, "plain-v2-checksums.parquet")
	change := func(edit func(b []byte) []byte) []byte { return edit(slices.Clone(good)) }
	tests := []struct {
		name   string
		raw    []byte
		column string
		is     error
		want   string
	}{
		{"delta", read(t, "delta.parquet"), "text", ErrUnsupported, "encoding 6 DELTA_LENGTH_BYTE_ARRAY"},
		{"lz4", read(t, "lz4.parquet"), "text", ErrUnsupported, "codec 7 LZ4_RAW"},
		{"numbers", good, "id", ErrUnsupported, "not of byte strings"},
		{"empty", nil, "text", ErrCorrupt, "0 bytes"},
		{"other", []byte("PAR1 is not enough"), "text", ErrCorrupt, `begins with "PAR1" and ends with "ough"`},
		{"encrypted footer", change(func(b []byte) []byte { b[len(b)-1] = 'E'; return b }), "text", ErrUnsupported, "encrypted"},
		{"long footer", change(func(b []byte) []byte { b[len(b)-6] = 0xff; return b }), "text", ErrCorrupt, "a footer of"},
		{"no footer", []byte("PAR1\x00\x00\x00\x00PAR1"), "text", ErrCorrupt, "footer: byte 4: it ends early"},
		{"no schema", []byte("PAR1\x00\x01\x00\x00\x00PAR1"), "text", ErrCorrupt, "no schema"},
		{"a bit of a page", change(func(b []byte) []byte {
			i := bytes.Index(b, []byte("zwei"))
			b[i] ^= 1
			return b
		}), "text", ErrCorrupt, "checksum of a page is wrong"},
	}
	for _, tt := range tests {
		_, err := column(tt.raw, tt.column)
		if !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
}

// Schemas whose tree does not come out are refused.
func TestSchemas(t *testing.T) {
	leaf := func(name string) node { return node{name: name, kind: byteArray} }
	group := func(name string, children int) node { return node{name: name, kind: -1, children: children} }
	tests := []struct {
		nodes []node
		want  string
	}{
		{[]node{group("root", 2), leaf("a")}, "lacks nodes"},
		{[]node{group("root", 1), leaf("a"), leaf("b")}, "outside of the schema's tree"},
		{[]node{group("root", 1), group("a", 2), leaf("b")}, "lacks nodes"},
		{slices.Repeat([]node{group("deep", 1)}, 100), "more than 16 levels"},
		{[]node{group("root", 2), group("a", 1), leaf("b"), leaf("c")}, ""},
	}
	for i, tt := range tests {
		err := new(File).walk(tt.nodes)
		if tt.want == "" && err == nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("schema %d: %v, want %q", i, err, tt.want)
		}
	}
}

// A file that is shorter than it was is an error, not an end.
func TestShrunk(t *testing.T) {
	raw := read(t, "plain-snappy.parquet")
	f, err := Open(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	f.r = bytes.NewReader(raw[:100])
	c, err := f.Column(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
}

// FuzzColumn wants an error or entries of any file, and no more entries than the footer says.
func FuzzColumn(f *testing.F) {
	names, err := filepath.Glob("testdata/*.parquet")
	if err != nil || len(names) == 0 {
		f.Fatal(err)
	}
	for _, name := range names {
		f.Add(read(f, filepath.Base(name)))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		file, err := Open(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			return
		}
		for i := range file.Leaves {
			c, err := file.Column(i)
			if err != nil {
				continue
			}
			rows := int64(0)
			for range 1 << 16 {
				e, err := c.Next()
				if err != nil {
					if errors.Is(err, io.EOF) && rows != file.Rows {
						t.Fatalf("%d rows, want %d", rows, file.Rows)
					}
					break
				}
				if e.Rep == 0 {
					rows++
				}
				if (e.Value != nil) != (e.Def == file.Leaves[i].MaxDef) {
					t.Fatalf("a value at level %d of %d", e.Def, file.Leaves[i].MaxDef)
				}
			}
		}
	})
}

// FuzzHybrid wants values of the width, or an error.
func FuzzHybrid(f *testing.F) {
	f.Add([]byte("\x03\x88\xc6\xfa\x06\x05"), uint8(3))
	f.Add(binary.AppendUvarint(nil, 1<<62), uint8(0))
	f.Fuzz(func(t *testing.T, raw []byte, width uint8) {
		h := hybrid{b: raw, width: int(width % 33)}
		for range 1 << 12 {
			v, err := h.next()
			if err != nil {
				return
			}
			if uint64(v)>>h.width != 0 {
				t.Fatalf("%d has more than %d bits", v, h.width)
			}
		}
	})
}
