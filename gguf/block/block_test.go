package block

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// golden reads a file of testdata, for the type that it is named after.
func golden(t *testing.T, path string) (Type, []byte) {
	t.Helper()
	typ, ok := Parse(strings.TrimSuffix(filepath.Base(path), ".bin"))
	if !ok {
		t.Fatalf("%s: no such type", path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return typ, raw
}

func floatsOf(b []byte) []float32 {
	w := make([]float32, len(b)/4)
	for i := range w {
		w[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return w
}

// each calls check for the files of a folder of testdata and says how many there must be.
func eachGolden(t *testing.T, folder string, want int, check func(t *testing.T, typ Type, raw []byte)) {
	paths, err := filepath.Glob("testdata/" + folder + "/*.bin")
	if err != nil || len(paths) != want {
		t.Fatalf("%d files, want %d, %v", len(paths), want, err)
	}
	for _, path := range paths {
		typ, raw := golden(t, path)
		t.Run(typ.String(), func(t *testing.T) { check(t, typ, raw) })
	}
}

func TestDecodeGolden(t *testing.T) {
	eachGolden(t, "decode", 19, func(t *testing.T, typ Type, raw []byte) {
		n := len(raw) / (typ.Bytes() + 4*typ.Size())
		src, want := raw[:n*typ.Bytes()], floatsOf(raw[n*typ.Bytes():])
		got := make([]float32, len(want))
		if err := typ.Decode(got, src); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
				t.Fatalf("block %d, weight %d: %v (%#08x), want %v (%#08x)", i/typ.Size(), i%typ.Size(), got[i],
					math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
			}
		}
	})
}

func TestEncodeGolden(t *testing.T) {
	eachGolden(t, "encode", 7, func(t *testing.T, typ Type, raw []byte) {
		n := len(raw) / (typ.Bytes() + 4*typ.Size())
		src, want := floatsOf(raw[:4*n*typ.Size()]), raw[4*n*typ.Size():]
		got := make([]byte, len(want))
		if err := typ.Encode(got, src, nil); err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(want); i += typ.Bytes() {
			if g, w := got[i:i+typ.Bytes()], want[i:i+typ.Bytes()]; !bytes.Equal(g, w) {
				t.Errorf("block %d: % x, want % x", i/typ.Bytes(), g, w)
			}
		}
	})
}
