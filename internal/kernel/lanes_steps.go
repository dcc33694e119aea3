package kernel

import "math"

// Steps sets dst[j] of every run to (unit·share)·(n + j − 1), n its integer: in float64, rounded to float32 once. What is no number instead is a
// product that is 2⁸ or more, for beside it weights, which Weigh brought to about 1, have no digits left; one that equals not; and that of an integer below lo
// or above hi.
func Steps(dst *[3][8]float32, integers, unit *[8]float64, share, lo, hi, not float64) {
	active.steps(dst, integers, unit, share, lo, hi, not)
}

func steps(dst *[3][8]float32, integers, unit *[8]float64, share, lo, hi, not float64) {
	for l, n := range integers {
		scale := unit[l] * share
		for j := range dst {
			n := n + float64(j-1)
			x := float64(scale * n)
			if !(n >= lo && n <= hi && x > -0x1p8 && x < 0x1p8 && x != not) {
				x = math.NaN()
			}
			dst[j][l] = float32(x)
		}
	}
}

// Ends makes y a way whose values from 0 to top reach from −floor to upper: the scale (upper + floor)/top, or no number unless that is greater than 0.
func Ends(y *Way, upper, floor *[8]float32, top float32) { active.ends(y, upper, floor, top) }

func ends(y *Way, upper, floor *[8]float32, top float32) {
	y.Floor = *floor
	for l, x := range upper {
		if y.Scale[l] = (x + floor[l]) / top; !(y.Scale[l] > 0) {
			y.Scale[l] = float32(math.NaN())
		}
	}
}

// Flat begins a search: best, of way −1, is what a scale of 0 leaves, and as the floor the integer from 0 to top that suits the weights best, of which
// each is unit·up. Mean is Σ c·w / Σ c, inverse·down is 1/(unit·up), or 0.
func (x *Lanes) Flat(mean, up, down *[8]float64, unit, inverse, top float64, best *Best) {
	active.flat(x, mean, up, down, unit, inverse, top, best)
}

func flat(x *Lanes, mean, up, down *[8]float64, unit, inverse, top float64, best *Best) {
	for l, loss := range x.Energy {
		m := 0.0
		if q := float64(-mean[l]) * (inverse * down[l]); q > 0 {
			m = math.RoundToEven(min(q, top))
		}
		if m > 0 {
			floor := float64(unit*up[l]) * m
			loss += float32(floor * (float64(floor*float64(x.SumC[l])) + float64(2*float64(x.SumW[l]))))
		}
		best.Loss[l], best.Floor[l], best.Way[l] = loss, float32(m), -1
	}
}
