package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

var (
	nan = float32(math.NaN())
	inf = float32(math.Inf(1))
)

// special are numbers at the edges of the curves, and of float32.
var special = []float32{0, float32(math.Copysign(0, -1)), inf, -inf, nan, math.MaxFloat32, -math.MaxFloat32, 0x1p-149, -0x1p-149,
	0x1p-126, -0x1.fffffcp-127, 1, -1, 0.625, -0.6249999, 88.7, 88.72284, 88.8, -87.4, -88.8, -103.9, -104.1, 3, 15, -15.1, 1e10, -1e10}

// vectorOps are the operations on vectors of one length: what they return depends on the four vectors and nothing else.
var vectorOps = []struct {
	name string
	run  func(a, b, c, d []float32) []float32
}{
	{"Scale", func(a, b, c, d []float32) []float32 { Scale(a, 1.7); return a }},
	{"RMSNorm", func(a, b, c, d []float32) []float32 { RMSNorm(c, a, b, 1e-5, false); return c }},
	{"RMSNorm in place", func(a, b, c, d []float32) []float32 { RMSNorm(a, a, b, 1e-6, true); return a }},
	{"LayerNorm", func(a, b, c, d []float32) []float32 { LayerNorm(a, a, b, c, 1e-5); return a }},
	{"Rotate", func(a, b, c, d []float32) []float32 { x := append(a[:len(a):len(a)], b...); Rotate(x, c, d); return x }},
	{"Softmax", func(a, b, c, d []float32) []float32 { Softmax(a); return a }},
	{"SoftmaxScaled", func(a, b, c, d []float32) []float32 { SoftmaxScaled(a, 0.125); return a }},
	{"Softcaps", func(a, b, c, d []float32) []float32 { Softcaps(a, 30); return a }},
	{"Sigmoids", func(a, b, c, d []float32) []float32 { Sigmoids(d, a); return d }},
	{"SiLUs", func(a, b, c, d []float32) []float32 { SiLUs(a, a); return a }},
	{"GELUs", func(a, b, c, d []float32) []float32 { GELUs(d, a); return d }},
	{"GELUTanhs", func(a, b, c, d []float32) []float32 { GELUTanhs(a, a); return a }},
	{"SiLUGated", func(a, b, c, d []float32) []float32 { SiLUGated(a, a, b); return a }},
	{"GELUGated", func(a, b, c, d []float32) []float32 { GELUGated(b, a, b); return b }},
	{"GELUTanhGated", func(a, b, c, d []float32) []float32 { GELUTanhGated(d, a, b); return d }},
	{"exp", func(a, b, c, d []float32) []float32 { return append(a, active.expSum(a, 1, 0)) }},
	{"QuantizeInt8", func(a, b, c, d []float32) []float32 {
		q := make([]int8, len(a))
		s, sum := QuantizeInt8(q, a)
		c = append(c, s, float32(sum))
		for _, v := range q {
			c = append(c, float32(v))
		}
		return c
	}},
}

// wantBits compares bit for bit, but every NaN is the same.
func wantBits(t *testing.T, name string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", name, len(got), len(want))
	}
	for i, w := range want {
		if g := got[i]; math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
			t.Fatalf("%s: value %d of %d is %v, %#x, want %v, %#x", name, i, len(want), g, math.Float32bits(g), w, math.Float32bits(w))
		}
	}
}

func clones(v [4][]float32) (c [4][]float32) {
	for i, x := range v {
		c[i] = append(make([]float32, 0, len(x)), x...)
	}
	return c
}

// compareVectors runs every operation under every set, and wants the bits of the generic one.
func compareVectors(t *testing.T, v [4][]float32) {
	t.Helper()
	was := active
	defer func() { active = was }()
	for _, op := range vectorOps {
		active = generic
		c := clones(v)
		want := op.run(c[0], c[1], c[2], c[3])
		for _, s := range sets[1:] {
			active = s
			c := clones(v)
			wantBits(t, fmt.Sprintf("%s, %s", op.name, s.name), op.run(c[0], c[1], c[2], c[3]), want)
		}
	}
}

// Every set gives the bits of the generic one, at every length, with special values at every place.
func TestVectors(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 1))
	for n := range 101 {
		for round := range 4 {
			var v [4][]float32
			for i := range v {
				v[i], _ = random(r, n)
				for j := range v[i] {
					v[i][j] *= 1.0000001
				}
			}
			if n > 0 && round > 0 {
				for range round {
					v[r.IntN(2)][r.IntN(n)] = special[r.IntN(len(special))]
				}
			}
			compareVectors(t, v)
		}
	}
	for _, a := range special { // each of them alone, so that no other makes it NaN
		for _, b := range special {
			compareVectors(t, [4][]float32{{a, 1, 2}, {b, 3, 4}, {b, 5, 6}, {a, 7, 8}})
		}
	}
}

func FuzzVectors(f *testing.F) {
	f.Add(make([]byte, 80))
	f.Add([]byte("a few numbers that are in no order and have no meaning"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		n := len(raw) / 16
		var v [4][]float32
		for i := range v {
			for j := range n {
				v[i] = append(v[i], math.Float32frombits(binary.LittleEndian.Uint32(raw[4*(i*n+j):])))
			}
		}
		compareVectors(t, v)
	})
}

// Vectors are made of what the scalar functions give.
func TestCurves(t *testing.T) { underEach(t, testCurves) }

func testCurves(t *testing.T) {
	up := make([]float32, len(special))
	for i := range up {
		up[i] = float32(i) - 7.5
	}
	dst := make([]float32, len(special))
	check := func(name string, f func(i int, x float32) float32) {
		t.Helper()
		want := make([]float32, len(special))
		for i, x := range special {
			want[i] = f(i, x)
		}
		wantBits(t, name, dst, want)
	}
	Sigmoids(dst, special)
	check("Sigmoids", func(i int, x float32) float32 { return Sigmoid(x) })
	SiLUs(dst, special)
	check("SiLUs", func(i int, x float32) float32 { return SiLU(x) })
	GELUs(dst, special)
	check("GELUs", func(i int, x float32) float32 { return GELU(x) })
	GELUTanhs(dst, special)
	check("GELUTanhs", func(i int, x float32) float32 { return GELUTanh(x) })
	SiLUGated(dst, special, up)
	check("SiLUGated", func(i int, x float32) float32 { return SiLU(x) * up[i] })
	GELUGated(dst, special, up)
	check("GELUGated", func(i int, x float32) float32 { return GELU(x) * up[i] })
	GELUTanhGated(dst, special, up)
	check("GELUTanhGated", func(i int, x float32) float32 { return GELUTanh(x) * up[i] })
	copy(dst, special)
	Softcaps(dst, 50)
	check("Softcaps", func(i int, x float32) float32 { return Softcap(x, 50) })
	copy(dst, special)
	active.expSum(dst, 1, 0)
	check("exp", func(i int, x float32) float32 { return exp(x) })
}

// exact are the curves in float64, without what cancels.
var exact = []struct {
	name  string
	f     func(float32) float32
	want  func(float64) float64
	ulps  float64 // the bound that the comments state, where the result is a normal number; 0: see bound
	bound float64 // of the absolute error, times max(1, |x|)
}{
	{"exp", exp, math.Exp, 1, 0},
	{"tanh", tanh, math.Tanh, 2, 0},
	{"Sigmoid", Sigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, 3, 0},
	{"SiLU", SiLU, func(x float64) float64 { return x / (1 + math.Exp(-x)) }, 3, 0},
	{"Softcap", func(x float32) float32 { return Softcap(x, 32) }, func(x float64) float64 { return 32 * math.Tanh(x/32) }, 3, 0},
	{"GELU", GELU, func(x float64) float64 { return x / 2 * math.Erfc(-x/math.Sqrt2) }, 0, 1e-7},
	{"GELUTanh", GELUTanh, func(x float64) float64 {
		return x / (1 + math.Exp(-2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}, 0, 1.5e-7},
}

// The curves are as exact as they say, over all magnitudes and both signs.
func TestCurveErrors(t *testing.T) {
	for _, c := range exact {
		for bits := uint64(0); bits < 1<<32; bits += 30011 {
			x := math.Float32frombits(uint32(bits))
			got, want := float64(c.f(x)), c.want(float64(x))
			if float32(got) == float32(want) || x != x {
				continue
			}
			flushed := x < -88 && (c.name == "Sigmoid" || c.name == "SiLU")
			bound := c.bound * max(1, math.Abs(float64(x)))
			if c.ulps > 0 {
				_, e := math.Frexp(want)
				bound = c.ulps * math.Ldexp(1, max(e-24, -149))
				if math.Abs(want) < 0x1p-120 { // x/c may not be normal any more
					bound = 0x1p-143
				}
			}
			if !(math.Abs(got-want) <= bound) && !(flushed && math.Abs(want) < 3e-37 && got == 0) {
				t.Fatalf("%s of %v is %v, want %v: off by %.3g, allowed %.3g", c.name, x, got, want, math.Abs(got-want), bound)
			}
		}
	}
	for _, tt := range []struct{ got, want float32 }{
		{exp(inf), inf}, {exp(-inf), 0}, {exp(89), inf}, {exp(-104), 0}, {exp(0), 1}, {tanh(inf), 1}, {tanh(-inf), -1}, {tanh(20), 1},
		{Sigmoid(inf), 1}, {Sigmoid(-inf), 0}, {SiLU(inf), inf}, {GELU(inf), inf}, {GELU(-inf), 0}, {GELUTanh(inf), inf}, {GELU(-20), 0},
	} {
		if tt.got != tt.want {
			t.Errorf("%v, want %v", tt.got, tt.want)
		}
	}
	for _, c := range exact {
		if v := c.f(nan); v == v {
			t.Errorf("%s of NaN is %v", c.name, v)
		}
	}
}

// The passes of a norm, a rotation and a softmax, as their comments define them.
func TestVectorDefinitions(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 2))
	for _, n := range []int{1, 7, 16, 45, 64} {
		x, _ := random(r, n)
		w, _ := random(r, n)
		for i := range w {
			w[i] *= 1.1
		}
		got, want := make([]float32, n), make([]float32, n)
		for _, plus := range []bool{false, true} {
			RMSNorm(got, x, w, 1e-5, plus)
			scale := float32(1 / math.Sqrt(float64(sixteen(x, x)/float32(n)+1e-5)))
			for i, v := range x {
				f := w[i]
				if plus {
					f = 1 + f
				}
				want[i] = float32(v*scale) * f
			}
			wantBits(t, "RMSNorm", got, want)
		}
		copy(got, x)
		SoftmaxScaled(got, 0.3)
		most := float32(math.Inf(-1))
		ones := make([]float32, n)
		for i, v := range x {
			most, ones[i] = max(most, v*0.3), 1
		}
		for i, v := range x {
			want[i] = exp(float32(v*0.3) - most)
		}
		inv := 1 / sixteen(want, ones)
		for i := range want {
			want[i] *= inv
		}
		wantBits(t, "SoftmaxScaled", got, want)
		if n%2 == 0 {
			cos, sin := w[:n/2], w[n/2:]
			copy(got, x)
			Rotate(got, cos, sin)
			for j, c := range cos {
				a, b := x[j], x[n/2+j]
				want[j], want[n/2+j] = float32(a*c)-float32(b*sin[j]), float32(b*c)+float32(a*sin[j])
			}
			wantBits(t, "Rotate", got, want)
		}
	}
}

func BenchmarkVectors(b *testing.B) {
	for _, n := range []int{64, 576, 4096} {
		r := rand.New(rand.NewPCG(4, 4))
		var v [4][]float32
		for i := range v {
			for range n {
				v[i] = append(v[i], float32(r.NormFloat64()))
			}
		}
		x, half := make([]float32, n), n/2
		q := make([]int8, n)
		for _, op := range []struct {
			name string
			run  func()
		}{
			{"RMSNorm", func() { RMSNorm(x, v[0], v[1], 1e-5, false) }},
			{"LayerNorm", func() { LayerNorm(x, v[0], v[1], v[2], 1e-5) }},
			{"Rotate", func() { Rotate(x, v[2][:half], v[3][:half]) }},
			{"Softmax", func() { copy(x, v[0]); Softmax(x) }},
			{"Softcaps", func() { Softcaps(x, 50) }},
			{"SiLUGated", func() { SiLUGated(x, v[0], v[1]) }},
			{"GELUGated", func() { GELUGated(x, v[0], v[1]) }},
			{"GELUTanhGated", func() { GELUTanhGated(x, v[0], v[1]) }},
			{"QuantizeInt8", func() { QuantizeInt8(q, v[0]) }},
		} {
			b.Run(fmt.Sprintf("%s/%d", op.name, n), func(b *testing.B) {
				b.SetBytes(int64(4 * n))
				for b.Loop() {
					op.run()
				}
			})
		}
	}
}
