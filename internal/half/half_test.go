package half

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"
)

// cases reads bit patterns that torch produced; see testdata/README.md.
func cases(t *testing.T, name string) []map[string]string {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []map[string]string }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 10 {
		t.Fatalf("%d cases", len(file.Cases))
	}
	return file.Cases
}

func bits(t *testing.T, hex string, size int) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(hex, 16, size)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFromFloat32(t *testing.T) {
	for _, test := range []struct {
		file, key string
		convert   func(float32) uint16
		nan       uint16 // above this, sign aside, it is a NaN
	}{{"f32_to_bf16.json", "bf16", BF16, 0x7f80}, {"f32_to_f16.json", "f16", F16, 0x7c00}} {
		for _, c := range cases(t, test.file) {
			got := test.convert(math.Float32frombits(uint32(bits(t, c["f32"], 32))))
			if c[test.key] == "nan" {
				if got&0x7fff <= test.nan {
					t.Errorf("%s: %s became %04x, want a NaN", test.key, c["f32"], got)
				}
				continue
			}
			if want := uint16(bits(t, c[test.key], 16)); got != want {
				t.Errorf("%s: %s became %04x, want %04x", test.key, c["f32"], got, want)
			}
		}
	}
}

func TestFromF16(t *testing.T) {
	for _, c := range cases(t, "f16_to_f32.json") {
		f := FromF16(uint16(bits(t, c["f16"], 16)))
		if c["f32"] == "nan" {
			if f == f {
				t.Errorf("%s became %v, want a NaN", c["f16"], f)
			}
			continue
		}
		if got, want := math.Float32bits(f), uint32(bits(t, c["f32"], 32)); got != want {
			t.Errorf("%s became %08x, want %08x", c["f16"], got, want)
		}
	}
}

// Widening and rounding again gives every value back, one by one and in bulk.
func TestRoundTrip(t *testing.T) {
	const n = 1 << 16
	raw := make([]byte, 2*n)
	for i := range n {
		raw[2*i], raw[2*i+1] = byte(i), byte(i>>8)
	}
	floats, back := make([]float32, n), make([]byte, 2*n)
	for _, test := range []struct {
		name   string
		widen  func([]float32, []byte)
		round  func([]byte, []float32)
		single func(float32) uint16
	}{{"bf16", DecodeBF16, EncodeBF16, BF16}, {"f16", DecodeF16, EncodeF16, F16}} {
		for n := range 9 { // every tail
			short := make([]float32, n)
			test.widen(short, raw[2*0x3f80:])
			for i, f := range short {
				if got := test.single(f); int(got) != 0x3f80+i {
					t.Fatalf("%s: element %d of %d is %v", test.name, i, n, f)
				}
			}
		}
		test.widen(floats, raw)
		test.round(back, floats)
		for i, f := range floats {
			if f != f {
				continue // a NaN may lose its payload
			}
			if got := test.single(f); int(got) != i {
				t.Fatalf("%s: %04x became %v and then %04x", test.name, i, f, got)
			}
			if back[2*i] != raw[2*i] || back[2*i+1] != raw[2*i+1] {
				t.Fatalf("%s: %04x in bulk became %02x%02x", test.name, i, back[2*i+1], back[2*i])
			}
		}
	}
}

// Bytes become floats and back, whichever way the machine takes.
func TestF32(t *testing.T) {
	was := littleEndian
	t.Cleanup(func() { littleEndian = was })
	raw := []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 1, 0, 0, 0} // 1, -2, the smallest subnormal
	for _, fast := range []bool{was, false} {
		littleEndian = fast
		for n := range 4 {
			f, back := make([]float32, n), make([]byte, 4*n)
			DecodeF32(f, raw)
			for i, want := range []float32{1, -2, math.SmallestNonzeroFloat32}[:n] {
				if f[i] != want {
					t.Errorf("element %d is %v, want %v", i, f[i], want)
				}
			}
			EncodeF32(back, f)
			if string(back) != string(raw[:4*n]) {
				t.Errorf("%v became % x", f, back)
			}
		}
	}
}
