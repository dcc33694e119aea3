package kernel

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// The candidates of a rule and the bounds of their errors have the bits of plain Go.
func TestRule(t *testing.T) { underEach(t, testRule) }

func testRule(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 15))
	for range 2000 {
		rule := NewRule(1+r.IntN(MaxTrials), func(int) (p, q, den float32) {
			return 0.75 + 0.25*r.Float32(), 0.75 + 0.25*r.Float32(), float32(7 + r.IntN(9))
		})
		hi := float32(math.Exp2(float64(r.IntN(60) - 30)))
		x := Range{U: hi, V: -hi * r.Float32(), Most: 15, Hi: 15}
		if r.IntN(2) == 0 {
			x = Range{Base: hi * (r.Float32() - 0.5), U: hi, V: -hi, Keep: 1, Shift: 8, Lo: -8, Hi: 7}
		}
		c := new(Trials)
		if !c.Fill(rule, &x, 2*hi) {
			t.Fatalf("%+v is refused", x)
		}
		var want Trials
		fill([8]float32{x.Base, x.U, x.V, x.Keep, x.Shift, x.Most, x.Lo, x.Hi}, &rule.p, &rule.q, &rule.den, &want.scale, &want.inverse, &want.sub, &want.lowest, &want.highest)
		for i, f := range [][2]*lanes{{&c.scale, &want.scale}, {&c.inverse, &want.inverse}, {&c.sub, &want.sub}, {&c.lowest, &want.lowest}, {&c.highest, &want.highest}} {
			for l := range f[0] { // a zero may have either sign
				f[0][l], f[1][l] = f[0][l]+0, f[1][l]+0
			}
			sameBits(t, "fill", i, f[0][:], f[1][:])
		}
	}
}

func TestSieve(t *testing.T) { underEach(t, testSieve) }

func testSieve(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 16))
	for range 2000 {
		n := 16 * r.IntN(4)
		squares, scale, sub := hostile(r, n), tame(r, n), tame(r, n)
		for i, x := range squares {
			squares[i] = abs(x)
			if r.IntN(4) > 0 {
				squares[i] = r.Float32() * 100
			}
			if r.IntN(8) == 0 {
				scale[i] = float32(math.Inf(1))
			}
		}
		x := [4]float32{0x1p-16, 0x1p-16, r.Float32(), 16}
		low, plain := make([]float32, n), make([]float32, n)
		least, want := active.sieve(x, squares, scale, sub, low), sieve(x, squares, scale, sub, plain)
		if least != want {
			t.Fatalf("sieve, length %d: %v, want %v", n, least, want)
		}
		for i, f := range plain {
			if f != f && low[i] != low[i] {
				low[i] = f // any NaN will do
			}
		}
		sameBits(t, "sieve", n, low, plain)
		for _, bound := range append([]float32{least, 1, 0}, low...) {
			if got, want := active.above(low, bound), above(low, bound); got != want {
				t.Fatalf("above %v of %v: %b, want %b", bound, low, got, want)
			}
		}
	}
}

// The largest error that is not finite is no reason to give a candidate up, and neither is that of a lane of nothing.
func TestAbove(t *testing.T) { underEach(t, testAbove) }

func testAbove(t *testing.T) {
	low := make([]float32, 48)
	low[0], low[1], low[2], low[47] = float32(math.Inf(1)), float32(math.NaN()), 2, 2
	if mask := active.above(low, 1); mask != 1<<2|1<<47 || bits.OnesCount64(active.above(low, 2)) != 0 {
		t.Errorf("%b", mask)
	}
}

// A group whose scales could be beyond the usual magnitudes of bfloat16 has no rule.
func TestFillRefuses(t *testing.T) {
	rule := NewRule(1, func(int) (p, q, den float32) { return 1, 1, 15 })
	for _, x := range []Range{{}, {U: 0x1p-39}, {U: 0x1p41}, {U: 1, V: 1}, {Base: 1, U: 0x1p-14, V: -0x1p-14}, {U: float32(math.NaN())}} {
		if new(Trials).Fill(rule, &x, max(abs(x.Base), abs(x.U), abs(x.V))) {
			t.Errorf("%+v is taken", x)
		}
	}
}
