package block

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"nibble/internal/kernel"
)

// counted returns what Encode says that weights count: in a block or sub-block whose importances are next to nothing, all alike.
func counted(typ Type, c []float32) []float32 {
	c = append([]float32(nil), c...)
	grid, _ := typ.Grid()
	for at := 0; at < len(c); at += grid.Size {
		run, block := c[at:][:grid.Size], c[at/typ.Size()*typ.Size():][:typ.Size()]
		if _, own := kernel.Extremes(run); own == 0 {
			copy(run, ones[:])
		} else if _, most := kernel.Extremes(block); float32(own*power(most)) < nothing {
			copy(run, ones[:])
		}
	}
	return c
}

// noWorse holds every block and sub-block against zeros, sees that nothing but finite weights come back, and that all sets of kernels write the
// same bytes.
func noWorse(t *testing.T, typ Type, w, c []float32) {
	t.Helper()
	b := make([]byte, len(w)/typ.Size()*typ.Bytes())
	got := coded(t, typ, w, c)
	if err := typ.Encode(b, w, c); err != nil {
		t.Fatal(err)
	}
	best, _ := kernel.Active()
	for _, name := range kernel.Names()[1:] {
		kernel.Use(t, name)
		other := make([]byte, len(b))
		if err := typ.Encode(other, w, c); err != nil || !bytes.Equal(b, other) {
			t.Fatalf("%s: other bytes by the kernels %s, %v", typ, name, err)
		}
	}
	kernel.Use(t, best)
	grid, _ := typ.Grid()
	c = counted(typ, c)
	if !kernel.Finite(got) {
		t.Fatalf("%s: %v became %v", typ, w, got)
	}
	for at := 0; at < len(w); at += grid.Size {
		if l, all := loss(got[at:][:grid.Size], w[at:][:grid.Size], c[at:][:grid.Size]); !(l <= all*1.0001) {
			t.Fatalf("%s, run %d: loss %v of %v\nof %v\ncounting %v", typ, at/grid.Size, l, all, w[at:][:grid.Size], c[at:][:grid.Size])
		}
	}
}

// extremes are numbers that searches could stumble over, from one run to the next: any bits, small beside great, halves of the least float16, beyond the
// greatest, and so far from zero that little differs.
var extremes = []func(r *rand.Rand) float64{
	func(r *rand.Rand) float64 { return r.NormFloat64() },
	func(r *rand.Rand) float64 { return float64(math.Float32frombits(r.Uint32() &^ (1 << 30))) },
	func(r *rand.Rand) float64 { return float64(math.Float32frombits(r.Uint32() &^ (1 << 29))) },
	func(r *rand.Rand) float64 { return math.Ldexp(r.NormFloat64(), r.IntN(40)-20) },
	func(r *rand.Rand) float64 { return math.Ldexp(float64(r.IntN(9)-4), -25) },
	func(r *rand.Rand) float64 { return math.Ldexp(r.NormFloat64(), -20) },
	func(r *rand.Rand) float64 { return math.Ldexp(r.NormFloat64(), 30*(r.IntN(10)/9)) },
	func(r *rand.Rand) float64 { return 3e38 * float64(1-2*r.IntN(2)) },
	func(r *rand.Rand) float64 { return 1e5 * r.NormFloat64() },
	func(r *rand.Rand) float64 { return -1e5 * r.Float64() },
	func(r *rand.Rand) float64 { return 100 + 1e-3*r.NormFloat64() },
	func(r *rand.Rand) float64 { return -100 + 1e-3*r.NormFloat64() },
	func(r *rand.Rand) float64 { return float64(math.Float32frombits(r.Uint32() & 0x807fffff)) },
	func(r *rand.Rand) float64 { return r.NormFloat64() * float64(r.IntN(30)/29) },
}

// TestExtremes mixes extremes, as weights and as importances, 16 of a kind and more.
func TestExtremes(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 1))
	for range 50 {
		w, c := make([]float32, 512), make([]float32, 512)
		weight, count := 0, 0
		for i := range w {
			if i%16 == 0 && r.IntN(3) == 0 {
				weight, count = r.IntN(len(extremes)), r.IntN(len(extremes))
			}
			w[i], c[i] = float32(extremes[weight](r)), abs(float32(extremes[count](r)))
		}
		for _, typ := range encoders {
			noWorse(t, typ, w, c)
		}
	}
}

// TestStarts sees that a search which begins in two places finds more than one that begins in either of them.
func TestStarts(t *testing.T) {
	w, r := bell(14, 256*64, 1), rangesQ2_K
	total := func(starts ...float64) (loss float64) {
		r.starts = starts
		for at := 0; at < len(w); at += 256 {
			r.search(w[at:][:256], nil)
			loss += r.best.loss
		}
		return loss
	}
	if one, other, both := total(1), total(.9), total(1, .9); !(both < min(one, other)) {
		t.Errorf("%v from 1, %v from 0.9, %v from both", one, other, both)
	}
}
