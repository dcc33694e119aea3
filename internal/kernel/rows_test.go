package kernel

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"nibble/internal/half"
)

// hostile returns n floats with any bits, among them NaNs, infinities, zeros of both signs, subnormals and ties of bfloat16.
func hostile(r *rand.Rand, n int) []float32 {
	w := make([]float32, n)
	for i := range w {
		bits := r.Uint32()
		switch r.IntN(8) {
		case 0:
			bits = bits&0xffff0000 | 0x8000
		case 1:
			bits &= 0x807fffff
		case 2:
			bits |= 0x7f800000
		case 3:
			bits = bits&0x80000000 | 0x7f7fffff
		case 4:
			bits &= 0x80000000
		}
		w[i] = math.Float32frombits(bits)
	}
	return w
}

// tame returns n finite floats of which many are equal or zero.
func tame(r *rand.Rand, n int) []float32 {
	w := make([]float32, n)
	for i := range w {
		w[i] = float32(r.IntN(9)-4) * 0.125
		if r.IntN(3) > 0 {
			w[i] = float32(r.NormFloat64() * math.Exp2(float64(r.IntN(40)-20)))
		}
		if r.IntN(8) == 0 {
			w[i] *= 0
		}
	}
	return w
}

func sameBits(t *testing.T, what string, n int, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s, length %d, element %d: %v (%#x), want %v (%#x)", what, n, i, got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

// Every set has the bits of plain Go at every length, and nothing behind the end is written.
func TestRows(t *testing.T) { underEach(t, testRows) }

func testRows(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for n := range 200 {
		w := hostile(r, n)
		got, want := make([]byte, 2*n+2), make([]byte, 2*n+2)
		NarrowBF16(got, w)
		if narrow(w, want); !bytes.Equal(got, want) {
			t.Fatalf("NarrowBF16, length %d: %x of %v, want %x", n, got, w, want)
		}
		for i := range got {
			got[i] = byte(r.Uint32())
		}
		wide, plain := make([]float32, n), make([]float32, n)
		WidenBF16(wide, got)
		half.DecodeBF16(plain, got)
		sameBits(t, "WidenBF16", n, wide, plain)
		if Finite(w) != finite(w) {
			t.Fatalf("Finite, length %d: %v of %v", n, Finite(w), w)
		}

		codes := make([]uint8, n+1)
		for i := range codes {
			codes[i] = uint8(r.Uint32())
		}
		scale, zero, bias := float32(r.NormFloat64()), float32(r.IntN(256)), float32(r.NormFloat64())
		if n%2 == 0 {
			bias = float32(math.Copysign(0, -1))
		}
		Expand(wide, codes, scale, zero, bias)
		expand(plain, codes, scale, zero, bias)
		sameBits(t, "Expand", n, wide, plain)
		Lift(wide, w, scale)
		lift(plain, w, scale)
		sameBits(t, "Lift", n, wide, plain)

		w = tame(r, n)
		Spread(wide, w)
		spread(plain, w)
		sameBits(t, "Spread", n, wide, plain)
		if n > 0 {
			lo, hi := Extremes(w)
			a, b := extremes(w)
			sameBits(t, "Extremes", n, []float32{lo, hi}, []float32{a + 0, b + 0})
		}
		checkNoise(t, w, append(tame(r, n), 99))
	}
}

func checkNoise(t *testing.T, w, x []float32) {
	t.Helper()
	var s, e [8]float64
	var most float64
	for i, v := range w {
		d := float64(x[i]) - float64(v)
		s[i%8] += float64(v) * float64(v)
		e[i%8] += float64(d * d)
		most = math.Max(most, math.Abs(d))
	}
	signal, errors, worst := Noise(w, x)
	if signal != foldEight(&s) || errors != foldEight(&e) || worst != most {
		t.Fatalf("Noise, length %d: %v %v %v, want %v %v %v", len(w), signal, errors, worst, foldEight(&s), foldEight(&e), most)
	}
}

// A single element that is not finite is found wherever it stands.
func TestFinite(t *testing.T) { underEach(t, testFinite) }

func testFinite(t *testing.T) {
	for n := 1; n < 70; n++ {
		w := make([]float32, n)
		if !Finite(w) {
			t.Fatalf("%d zeros are not finite", n)
		}
		for i := range w {
			for _, bits := range []uint32{0x7f800000, 0xff800000, 0x7f800001, 0xffffffff} {
				if w[i] = math.Float32frombits(bits); Finite(w) {
					t.Fatalf("%v at %d of %d", w[i], i, n)
				}
			}
			w[i] = -math.MaxFloat32
		}
	}
}

func FuzzRows(f *testing.F) {
	f.Add([]byte("\x00\x00\x80\x7f\x01\x00\x80\x7f\x00\x80\x3f\x3f"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		w := make([]float32, len(raw)/2)
		WidenBF16(w, raw)
		plain := make([]float32, len(w))
		half.DecodeBF16(plain, raw)
		sameBits(t, "WidenBF16", len(w), w, plain)
		if len(raw)%4 == 0 {
			for i := range len(raw) / 4 {
				w[i] = math.Float32frombits(uint32(raw[4*i]) | uint32(raw[4*i+1])<<8 | uint32(raw[4*i+2])<<16 | uint32(raw[4*i+3])<<24)
			}
			w = w[:len(raw)/4]
		}
		got, want := make([]byte, 2*len(w)), make([]byte, 2*len(w))
		NarrowBF16(got, w)
		if narrow(w, want); !bytes.Equal(got, want) {
			t.Fatalf("%x of %v, want %x", got, w, want)
		}
		if !finite(w) || len(w) == 0 {
			return
		}
		lo, hi := Extremes(w)
		a, b := extremes(w)
		sameBits(t, "Extremes", len(w), []float32{lo, hi}, []float32{a + 0, b + 0})
	})
}

func BenchmarkRows(b *testing.B) {
	r := rand.New(rand.NewPCG(6, 6))
	w, raw := random(r, 2048)
	x, codes := make([]float32, len(w)), make([]uint8, len(w))
	run := func(name string, f func()) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(4 * len(w)))
			for b.Loop() {
				f()
			}
		})
	}
	run("widen", func() { WidenBF16(x, raw) })
	run("narrow", func() { NarrowBF16(raw, w) })
	run("finite", func() { Finite(w) })
	run("extremes", func() { Extremes(w) })
	run("lift", func() { Lift(x, w, 0.01) })
	run("spread", func() { Spread(x, w) })
	run("expand", func() { Expand(x, codes, 0.01, 8, 0) })
	run("noise", func() { Noise(w, x) })
	g := Grid{Scale: 0.013, Add: 8, Hi: 15, Off: 8}
	run("encode", func() { g.Encode(codes, w) })
	run("encode bf16", func() { g.EncodeBF16(codes, w) })
}
