package npu

import (
	"math"
	"slices"
	"testing"
)

func TestAsymmetric(t *testing.T) {
	for _, c := range []struct {
		d      DType
		lo, hi float64
		want   Encoding
	}{
		{Uint8, -1, 1.55, Encoding{Uint8, 0.01, 100}},                 // 2.55 over 255 steps; 0 is code 100
		{Uint16, 1, 6.5535, Encoding{Uint16, 0.0001, 0}},              // widened to 0
		{Uint16, -6.5535, -1, Encoding{Uint16, 0.0001, 65535}},        // the same below
		{Uint8, 0, 0, Encoding{Uint8, float32(1e-4 / 255), 0}},        // nothing seen: ONNX Runtime's least range
		{Uint16, -3.27675, 3.27675, Encoding{Uint16, 0.0001, 32768}},  // 32767.5 is rounded to even
		{Uint8, -2.55e3, 2.55e3 * 3, Encoding{Uint8, 40, 64}},         // 63.75
		{Uint8, -1e3, 0, Encoding{Uint8, float32(1000.0 / 255), 255}}, // nothing above 0
		{Uint16, 0, 65535e-2, Encoding{Uint16, 0.01, 0}},              // nothing below
		{Uint16, -32768e-2, 32767e-2, Encoding{Uint16, 0.01, 32768}},  // as int16 would be
	} {
		got := Asymmetric(c.d, c.lo, c.hi)
		if got != c.want {
			t.Errorf("%s of %g to %g is %v, want %v", c.d, c.lo, c.hi, got, c.want)
		}
	}
}

func TestSymmetric(t *testing.T) {
	for _, c := range []struct {
		d    DType
		most float64
		want Encoding
	}{
		{Uint8, 12.7, Encoding{Uint8, 0.1, 128}}, // the HTP's fast kernels want exactly 128
		{Int16, 3.2767, Encoding{Int16, 0.0001, 0}},
		{Uint16, 3.2767, Encoding{Uint16, 0.0001, 32768}},
	} {
		if got := Symmetric(c.d, c.most); got != c.want {
			t.Errorf("%s of %g is %v, want %v", c.d, c.most, got, c.want)
		}
	}
}

// QuantizeLinear: ties to even, saturation at both ends; the values are those of ONNX's definition.
func TestRound(t *testing.T) {
	e := Encoding{Uint8, 0.5, 10}
	x := []float32{0, 0.25, 0.75, -0.25, 1.25, 1000, -1000, 122.5, 122.8, -5, -5.2, float32(math.Inf(1)), float32(math.Inf(-1)), 3e38}
	want := []float32{0, 0, 1, 0, 1, 122.5, -5, 122.5, 122.5, -5, -5, 122.5, -5, 122.5}
	codes := []int32{10, 10, 12, 10, 12, 255, 0, 255, 255, 0, 0, 255, 0, 255}
	for i, v := range x {
		if got := e.Code(v); got != codes[i] {
			t.Errorf("the code of %g is %d, want %d", v, got, codes[i])
		}
	}
	e.Round(x)
	if !slices.Equal(x, want) {
		t.Errorf("%v, want %v", x, want)
	}
}

// Round and Code agree for every code of every type, and halfway between codes.
func TestRoundIsCode(t *testing.T) {
	for _, e := range []Encoding{Asymmetric(Uint16, -3, 7), Symmetric(Int16, 2), Symmetric(Uint8, 0.3), fixed(signedGrid, Uint16), fixed(unitGrid, Uint16), fixed(shareGrid, Uint8)} {
		lo, hi := e.Type.limits()
		for q := lo - 3; q <= hi+3; q += 0.5 {
			x := []float32{(q - float32(e.Zero)) * e.Scale}
			want := float32(e.Code(x[0])-e.Zero) * e.Scale
			if e.Round(x); x[0] != want {
				t.Fatalf("%v: code %g becomes %g, want %g", e, q, x[0], want)
			}
		}
	}
}

// The grids that QNN puts behind these functions, whatever a file says.
func TestFixed(t *testing.T) {
	for _, c := range []struct {
		c    valueClass
		d    DType
		want Encoding
	}{
		{unitGrid, Uint16, Encoding{Uint16, 1.0 / 65536, 0}}, {unitGrid, Uint8, Encoding{Uint8, 1.0 / 256, 0}},
		{signedGrid, Uint16, Encoding{Uint16, 1.0 / 32768, 32768}}, {signedGrid, Uint8, Encoding{Uint8, 1.0 / 128, 128}},
		{shareGrid, Uint16, Encoding{Uint16, 1.0 / 65535, 0}},
	} {
		if got := fixed(c.c, c.d); got != c.want {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}

// Weights never get the lowest code, and 1.5 steps are rounded to 2.
func TestRoundChannel(t *testing.T) {
	w, codes := []float32{-12.7, 0.15, 12.7, 0.05, -0.25}, make([]int16, 5)
	x := make([]float32, 5)
	if scale := roundChannel(x, codes, w, 8); scale != 0.1 {
		t.Errorf("scale %g", scale)
	}
	if want := []int16{-127, 2, 127, 0, -2}; codes[0] != want[0] || codes[2] != want[2] || codes[4] != want[4] {
		t.Errorf("codes %v, want %v", codes, want)
	}
	if scale := roundChannel(x, codes, make([]float32, 5), 4); scale != 1 || codes[0] != 0 {
		t.Errorf("a row of zeros has scale %g and code %d", scale, codes[0])
	}
	if got := nibbles([]byte{1, 0xff, 7}); !slices.Equal(got, []byte{0xf1, 7}) {
		t.Errorf("1, -1 and 7 are %x", got)
	}
}
