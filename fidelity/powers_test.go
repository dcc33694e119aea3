package fidelity

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestPowers holds the exponentials against those of math, which are as precise, over all that does not vanish.
func TestPowers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	logits, have := make([]float32, 1<<16), make([]float64, 1<<16)
	for _, spread := range []float64{1e-6, 1, 30, 708} {
		for i := range logits {
			logits[i] = float32(-spread * r.Float64())
		}
		var sum float64
		worst := 0.0
		total := powers(have, logits, 0.25)
		for i, x := range logits {
			want := math.Exp(float64(x) - 0.25)
			if float64(x)-0.25 < nothing {
				want = 0
			}
			sum += have[i]
			if want != have[i] {
				worst = max(worst, math.Abs(have[i]-want)/(math.Nextafter(want, 2)-want))
			}
		}
		if worst > 2 || total != sum {
			t.Errorf("exponentials down to −%g are up to %g ulp from those of math, their sum is %v, want %v", spread, worst, total, sum)
		}
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		logit float32
		most  float64
		want  float64
	}{{3, 3, 1}, {0, 708, math.Exp(-708)}, {0, 708.0001, 0}, {-inf, 0, 0}, {-math.MaxFloat32, 0, 0}} {
		if have := powers(make([]float64, 1), []float32{c.logit}, c.most); math.Abs(have-c.want) > 1e-15*c.want {
			t.Errorf("exp(%v − %v) is %v, want %v", c.logit, c.most, have, c.want)
		}
	}
	for _, x := range []float32{nan, inf} {
		if have := powers(make([]float64, 1), []float32{x}, float64(inf)); have == have {
			t.Errorf("exp(%v − ∞) is %v", x, have)
		}
	}
}
