package npu

import (
	"math"
	"testing"
)

// A thousand values of -1 to 1 and one of 100: the extremes are all of it, a percentile of 0.5 % leaves the one out, and the
// least error on 15 steps is made with half of the range, on 65535 steps with all of it.
func TestRanges(t *testing.T) {
	r := &observed{counts: make([]int64, bins), exponent: -20}
	var x []float32
	for i := range 2001 {
		x = append(x, float32(i-1000)/1000)
	}
	r.see(x, float32(math.Inf(-1)))
	other := &observed{counts: make([]int64, bins), exponent: -20}
	other.see([]float32{100, -1e4}, farBelow/2)
	r.merge(other)
	if r.Count != 2002 || r.Lo != -1 || r.Hi != 100 {
		t.Fatalf("%d values, %g to %g", r.Count, r.Lo, r.Hi)
	}
	if lo, hi := (&RangeRule{Method: "minmax", Headroom: 2}).choose(r, Uint16); lo != -2 || hi != 200 {
		t.Errorf("min-max with headroom: %g to %g", lo, hi)
	}
	if lo, hi := (&RangeRule{Method: "minmax", Headroom: 2}).choose(r, Uint8); lo != -1 || hi != 100 {
		t.Errorf("min-max at 8 bits: %g to %g", lo, hi)
	}
	const bin = 128.0 / (bins / 2) // of a histogram that reaches to 128
	if lo, hi := (&RangeRule{Method: "percentile", Share: 0.005, Headroom: 1}).choose(r, Uint16); math.Abs(hi-1) > bin || math.Abs(lo+1) > bin {
		t.Errorf("percentile: %g to %g", lo, hi)
	}
	// 10⁴·(1-f)² of clipping and 2002·(101·f/15)²/12 = 7564·f² of rounding are least for f = 0.57.
	if _, hi := r.leastError(15); hi < 56 || hi > 58 {
		t.Errorf("least error on 15 steps: to %g", hi)
	}
	if _, hi := (&RangeRule{Method: "mse", Headroom: 1}).choose(r, Uint16); hi != 100 {
		t.Errorf("least error at 16 bits: to %g", hi)
	}
}
