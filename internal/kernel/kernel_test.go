package kernel

import (
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// underEach runs a test under every set of kernels that the machine has.
func underEach(t *testing.T, test func(t *testing.T)) {
	for _, name := range All() {
		t.Run(name, func(t *testing.T) {
			Use(t, name)
			test(t)
		})
	}
}

func TestSelect(t *testing.T) {
	names := Names()
	if names[len(names)-1] != "generic" {
		t.Errorf("%v: generic is not the last", names)
	}
	if name, err := Active(); err == nil && os.Getenv("NIBBLE_KERNEL") == "" && name != names[0] {
		t.Errorf("%s is in use, the best is %s", name, names[0])
	}
	if err := Select("avx1024"); err == nil || !strings.Contains(err.Error(), `kernel "avx1024": this machine has `) {
		t.Errorf("error %v", err)
	}
}

// sixteen is the order of summation that the package comment states, written down plainly.
func sixteen(x, y []float32) float32 {
	var lane [16]float32
	for i := range x {
		lane[i%16] += float32(x[i] * y[i])
	}
	for _, step := range []int{8, 4, 2, 1} {
		for l := range step {
			lane[l] += lane[l+step]
		}
	}
	return lane[0]
}

// random returns n values over a wide range, each a bfloat16, and their bytes.
func random(r *rand.Rand, n int) (x []float32, raw []byte) {
	for range n {
		bits := math.Float32bits(float32(r.NormFloat64()*math.Exp2(float64(r.IntN(20)-10)))) &^ 0xffff
		x = append(x, math.Float32frombits(bits))
		raw = append(raw, byte(bits>>16), byte(bits>>24))
	}
	return x, raw
}

// The sum has the bits of its definition at every length, and nothing behind the end counts.
func TestDotOrder(t *testing.T) { underEach(t, testDotOrder) }

func testDotOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for n := range 101 {
		for range 5 {
			x, raw := random(r, n)
			y, _ := random(r, n+3)
			for i := range y {
				y[i] *= 1.2345678 // not bfloat16
			}
			want := sixteen(x, y)
			if got := Dot(x, y); math.Float32bits(got) != math.Float32bits(want) {
				t.Fatalf("length %d: %v, want %v", n, got, want)
			}
			if got := DotBF16(append(raw, 0xff, 0xff), y[:n]); math.Float32bits(got) != math.Float32bits(want) {
				t.Fatalf("bfloat16, length %d: %v, want %v", n, got, want)
			}
		}
	}
}

// NaN and infinities reach the sum from every lane.
func TestDotNonFinite(t *testing.T) { underEach(t, testDotNonFinite) }

func testDotNonFinite(t *testing.T) {
	for n := 1; n < 40; n++ {
		for i := range n {
			x, y := make([]float32, n), make([]float32, n)
			for j := range x {
				x[j], y[j] = 1, 1
			}
			x[i] = float32(math.NaN())
			if v := Dot(x, y); v == v {
				t.Fatalf("NaN at %d of %d: %v", i, n, v)
			}
			x[i] = float32(math.Inf(-1))
			if v := Dot(x, y); !math.IsInf(float64(v), -1) {
				t.Fatalf("-Inf at %d of %d: %v", i, n, v)
			}
		}
	}
}

func TestAxpy(t *testing.T) { underEach(t, testAxpy) }

func testAxpy(t *testing.T) {
	y := []float32{1, 2, 3}
	Axpy(y, 0.5, []float32{4, -8})
	if y[0] != 3 || y[1] != -2 || y[2] != 3 {
		t.Errorf("%v", y)
	}
	// 1 + a·x with the product rounded first; a fused multiplication would keep its low bits.
	a := float32(1 + 1.0/4096)
	y = []float32{-1}
	if Axpy(y, a, []float32{a}); y[0] != float32(a*a)-1 {
		t.Errorf("%v, want %v", y[0], float32(a*a)-1)
	}
}

func TestQuantizeInt8(t *testing.T) { underEach(t, testQuantizeInt8) }

func testQuantizeInt8(t *testing.T) {
	tiny := float32(math.SmallestNonzeroFloat32)
	tests := []struct {
		name string
		x    []float32
		s    float32
		q    []int8
	}{
		{"empty", nil, 0, nil},
		{"zeros", []float32{0, float32(math.Copysign(0, -1))}, 0, []int8{0, 0}},
		{"bounds", []float32{-127, 127, 63.5, -63.5, 62.5, 0.5, -0.5, 1.5}, 1, []int8{-127, 127, 64, -64, 62, 0, 0, 2}},
		{"negative extreme", []float32{-254, 2}, 2, []int8{-127, 1}},
		{"largest", []float32{math.MaxFloat32, -math.MaxFloat32}, math.MaxFloat32 / 127, []int8{127, -127}},
		{"smallest", []float32{tiny, -tiny}, 0, []int8{0, 0}},
		{"subnormal", []float32{127 * tiny, -64 * tiny}, tiny, []int8{127, -64}},
		{"coarse subnormal", []float32{180 * tiny, -180 * tiny, tiny}, tiny, []int8{127, -127, 1}},
		{"NaN", []float32{1, nan, 3}, nan, []int8{0, 0, 0}},
		{"infinity", []float32{1, -inf, 3}, nan, []int8{0, 0, 0}},
		{"both", []float32{inf, nan}, nan, []int8{0, 0}},
	}
	for _, tt := range tests {
		q := make([]int8, len(tt.x)+1)
		for i := range q {
			q[i] = 99 // to be overwritten
		}
		s, sum := QuantizeInt8(q, tt.x)
		if s != tt.s && (s == s || tt.s == tt.s) {
			t.Errorf("%s: scale %v, want %v", tt.name, s, tt.s)
		}
		var want int32
		for i, v := range tt.q {
			want += int32(v)
			if q[i] != v {
				t.Errorf("%s: codes %v, want %v", tt.name, q, tt.q)
				break
			}
		}
		if sum != want || q[len(tt.x)] != 99 {
			t.Errorf("%s: sum %d, want %d; the code behind the end is %d", tt.name, sum, want, q[len(tt.x)])
		}
	}
	// Codes are within half a step, and one is ±127.
	r := rand.New(rand.NewPCG(2, 2))
	for range 200 {
		x, _ := random(r, 1+r.IntN(70))
		q := make([]int8, len(x))
		s, _ := QuantizeInt8(q, x)
		top := false
		for i, v := range x {
			if d := math.Abs(float64(v) - float64(q[i])*float64(s)); d > 0.50001*float64(s) {
				t.Fatalf("%v is %d times %v", v, q[i], s)
			}
			top = top || q[i] == 127 || q[i] == -127
		}
		if !top {
			t.Fatalf("no code of %v is 127", x)
		}
	}
}

// Rotation keeps the length of every pair, leaves the rest alone, and turns (1, 0) into (cos, sin).
func TestRotate(t *testing.T) {
	x := []float32{1, 3, 0, 4, 7, 8}
	Rotate(x, []float32{0.6, 0}, []float32{0.8, 1})
	want := []float32{0.6, -4, 0.8, 3, 7, 8} // pairs (0, 2) and (1, 3)
	for i, v := range want {
		if x[i] != v {
			t.Fatalf("%v, want %v", x, want)
		}
	}
}

func TestSoftcap(t *testing.T) {
	for _, tt := range [][2]float32{{0, 0}, {1e30, 50}, {-1e30, -50}, {25, 50 * float32(math.Tanh(0.5))}} {
		if got := Softcap(tt[0], 50); math.Abs(float64(got-tt[1])) > 2*ulp*25 {
			t.Errorf("%v becomes %v, want %v", tt[0], got, tt[1])
		}
	}
}

func BenchmarkDot(b *testing.B) {
	x, raw := random(rand.New(rand.NewPCG(4, 4)), 4096)
	var sink float32
	b.Run("f32", func(b *testing.B) {
		b.SetBytes(int64(4 * len(x)))
		for b.Loop() {
			sink += Dot(x, x)
		}
	})
	b.Run("bf16", func(b *testing.B) {
		b.SetBytes(int64(2 * len(x)))
		for b.Loop() {
			sink += DotBF16(raw, x)
		}
	})
}
