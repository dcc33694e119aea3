package kernel

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// plainGridError is GridError as its comment has it.
func plainGridError(g Grid, w, d []float32) float64 {
	var lane [8]float64
	for i, x := range w {
		q := math.RoundToEven(float64(min(max(float32(float32(x-g.Sub)/g.Scale)+g.Add, g.Lo), g.Hi)))
		e := float64(float32(float32(float32(q)-g.Off)*g.Scale)+g.Bias) - float64(x)
		e = float64(float32(e))
		lane[i%8] += float64(float64(d[i]) * float64(e*e))
	}
	for _, step := range []int{4, 2, 1} {
		for l := range step {
			lane[l] += lane[l+step]
		}
	}
	return lane[0]
}

// Runs are encoded as one by one, with scales of 0 and numbers that leave float32, too.
func TestEncodeRuns(t *testing.T) { underEach(t, testEncodeRuns) }

func testEncodeRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for runs := range 20 {
		for _, size := range []int{16, 32, 48} {
			w := tame(r, runs*size)
			scales, subs := make([]float32, runs), make([]float32, runs)
			for j := range scales {
				scales[j], subs[j] = float32(r.NormFloat64()), float32(r.NormFloat64())
				switch r.IntN(6) {
				case 0:
					scales[j] = float32(math.Copysign(0, r.NormFloat64()))
				case 1:
					subs[j] = math.MaxFloat32
				case 2:
					scales[j] = math.SmallestNonzeroFloat32
				}
			}
			got, want := make([]uint8, len(w)), make([]uint8, len(w))
			lo, hi := float32(-r.IntN(5)), float32(r.IntN(64))
			EncodeRuns(got, w, size, scales, subs, lo, hi)
			for j, scale := range scales {
				if g := (Grid{Scale: scale, Sub: subs[j], Lo: lo, Hi: hi}); scale != 0 {
					g.Encode(want[j*size:], w[j*size:][:size])
					continue
				}
				for i := range size {
					want[j*size+i] = uint8(-lo)
				}
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%d runs of %d: scales %v, subs %v: %v, want %v", runs, size, scales, subs, got, want)
			}
		}
	}
}

func TestNearest(t *testing.T) {
	for x, want := range map[float32]float32{
		0.5: 0, 1.5: 2, 2.5: 2, -0.5: 0, -1.5: -2, 7.4: 7, 7.5: 7, -8.5: -8, -8.6: -8, inf: 7, -inf: -8,
	} {
		if got := Nearest(x, -8, 7); got != want {
			t.Errorf("%v: %v, want %v", x, got, want)
		}
	}
}

// Every set has the bits of the definition, for grids of all three kinds, at every length, with weights from subnormal to
// enormous.
func TestGridError(t *testing.T) { underEach(t, testGridError) }

func testGridError(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	grids := []Grid{
		{Scale: 0.013, Add: 8, Hi: 15, Off: 8},
		{Scale: -0.013, Add: 8, Hi: 15, Off: 8},
		{Scale: 0.02, Add: 3, Hi: 15, Off: 3},
		{Scale: 0.0009, Add: 128, Hi: 255, Off: 128},
		{Scale: 0.011, Sub: 0.02, Lo: -8, Hi: 7, Bias: 0.02},
		{Scale: 1e-38, Add: 8, Hi: 15, Off: 8},
		{Scale: 3e37, Sub: -1e38, Lo: -8, Hi: 7, Bias: -1e38},
	}
	for n := range 70 {
		for _, g := range grids {
			w, d := make([]float32, n), make([]float32, n)
			for i := range w {
				w[i] = float32(r.NormFloat64()) * 7 * float32(math.Abs(float64(g.Scale)))
				d[i] = float32(r.ExpFloat64())
				switch r.IntN(20) {
				case 0:
					w[i] = 0
				case 1:
					w[i] = math.SmallestNonzeroFloat32
				case 2:
					w[i] = -math.MaxFloat32
				case 3: // a tie
					w[i] = 2.5*g.Scale + g.Bias
				}
			}
			if got, want := GridError(&g, w, append(d, 99)), plainGridError(g, w, d); math.Float64bits(got) != math.Float64bits(want) {
				t.Fatalf("%+v, length %d: %v, want %v", g, n, got, want)
			}
			for i := range d {
				d[i] = 1
			}
			if got, want := GridError(&g, w, nil), plainGridError(g, w, d); math.Float64bits(got) != math.Float64bits(want) {
				t.Fatalf("%+v, length %d, without weights: %v, want %v", g, n, got, want)
			}
		}
	}
}

// Codes are those of the definitions at every length, in float32 and in bfloat16, up to quotients that overflow.
func TestEncode(t *testing.T) { underEach(t, testEncode) }

func testEncode(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for n := range 100 {
		for _, g := range []Grid{
			{Scale: 0.013, Add: 8, Hi: 15},
			{Scale: -0.013, Add: 8, Hi: 15},
			{Scale: 0.125, Add: 3, Hi: 15},
			{Scale: 0.0009, Add: 128, Hi: 255},
			{Scale: 0.011, Sub: 0.02, Lo: -8, Hi: 7},
			{Scale: 0.0078125, Add: 5, Lo: -128, Hi: 127},
			{Scale: 0x1p-126, Add: -2, Lo: -8, Hi: 7},
		} {
			w := tame(r, n)
			got, want := make([]uint8, n+1), make([]uint8, n+1)
			g.Encode(got, w)
			for i, x := range w {
				q := math.RoundToEven(float64(float32(float32(x-g.Sub)/g.Scale) + g.Add))
				want[i] = uint8(min(max(q, float64(g.Lo)), float64(g.Hi)) - float64(g.Lo))
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%+v, length %d: %v, want %v", g, n, got, want)
			}
			g.EncodeBF16(got, w)
			if encodeBF16(g.fields(), w, want); !bytes.Equal(got, want) {
				t.Fatalf("%+v in bfloat16, length %d: %v, want %v", g, n, got, want)
			}
		}
	}
	// In bfloat16 100.3 is 100.5, and −7.5 is rounded to the even −8.
	g := Grid{Scale: 1, Add: -108, Lo: -8, Hi: 7}
	codes := make([]uint8, 1)
	if g.EncodeBF16(codes, []float32{100.3}); codes[0] != 0 {
		t.Errorf("code %d, want 0", codes[0])
	}
}

func BenchmarkGridError(b *testing.B) {
	r := rand.New(rand.NewPCG(3, 3))
	w, d := make([]float32, 128), make([]float32, 128)
	for i := range w {
		w[i], d[i] = float32(r.NormFloat64())*0.05, 1
	}
	g := Grid{Scale: 0.013, Add: 8, Hi: 15, Off: 8}
	b.SetBytes(4 * 128)
	for b.Loop() {
		GridError(&g, w, d)
	}
}
