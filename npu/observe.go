package npu

import (
	"math"
	"strings"
)

// bins is the number of bins of a histogram: over [-2^e, 2^e), for an exponent that grows with what is seen.
const bins = 4096

// observed is what was seen of a tensor.
type observed struct {
	Lo, Hi float64
	Count  int64

	exponent int
	counts   []int64 // nil: no histogram wanted
}

// see adds values that are above floor.
func (r *observed) see(x []float32, floor float32) {
	for _, v := range x {
		if v <= floor {
			continue
		}
		f := float64(v)
		if r.Count == 0 {
			r.Lo, r.Hi = f, f
		}
		r.Lo, r.Hi = min(r.Lo, f), max(r.Hi, f)
		r.Count++
		if r.counts != nil {
			r.count(f)
		}
	}
}

// count puts a value into its bin.
func (r *observed) count(f float64) {
	for f >= math.Ldexp(1, r.exponent) || f < -math.Ldexp(1, r.exponent) {
		r.widen()
	}
	i := int(math.Floor(f*math.Ldexp(bins/2, -r.exponent))) + bins/2
	r.counts[i]++
}

// widen doubles the histogram's range.
func (r *observed) widen() {
	next := make([]int64, bins)
	for i, n := range r.counts {
		next[bins/4+i/2] += n
	}
	r.counts, r.exponent = next, r.exponent+1
}

// merge adds what another lane saw.
func (r *observed) merge(o *observed) {
	if o.Count == 0 {
		return
	}
	if r.Count == 0 {
		r.Lo, r.Hi = o.Lo, o.Hi
	}
	r.Lo, r.Hi, r.Count = min(r.Lo, o.Lo), max(r.Hi, o.Hi), r.Count+o.Count
	if r.counts == nil {
		return
	}
	for r.exponent < o.exponent {
		r.widen()
	}
	for o.exponent < r.exponent {
		o.widen()
	}
	for i, n := range o.counts {
		r.counts[i] += n
	}
}

// center is the middle of a bin.
func (r *observed) center(i int) float64 {
	return float64((float64(i-bins/2) + 0.5) * math.Ldexp(2.0/bins, r.exponent))
}

// percentile is the range without the share of values that lies outside on either side.
func (r *observed) percentile(share float64) (lo, hi float64) {
	edge := math.Ldexp(1.0/bins, r.exponent) // half a bin
	lo, hi = r.Lo, r.Hi
	left := int64(share * float64(r.Count) / 2)
	var sum int64
	for i, n := range r.counts {
		if sum += n; sum > left {
			lo = max(lo, r.center(i)-edge)
			break
		}
	}
	sum = 0
	for i := bins - 1; i >= 0; i-- {
		if sum += r.counts[i]; sum > left {
			hi = min(hi, r.center(i)+edge)
			break
		}
	}
	return lo, hi
}

// leastError is the part of the range that has the least mean square error on a grid of so many steps: of rounding inside,
// of clipping outside.
func (r *observed) leastError(steps float64) (lo, hi float64) {
	best := math.Inf(1)
	for i := range 80 {
		f := 1 - float64(i)/100
		a, b := float64(r.Lo*f), float64(r.Hi*f)
		step := (max(b, 0) - min(a, 0)) / steps
		var sum float64
		for j, n := range r.counts {
			if n == 0 {
				continue
			}
			x := r.center(j)
			d := max(a-x, x-b, 0)
			sum += float64(float64(n) * (float64(d*d) + float64(step*step)/12))
		}
		if sum < best {
			best, lo, hi = sum, a, b
		}
	}
	return lo, hi
}

// RangeRule says how the range of a grid is chosen from what was seen.
type RangeRule struct {
	Method   string  // minmax, percentile, mse
	Headroom float64 // factor on the ranges of 16-bit activations
	Share    float64 // of the values that a percentile leaves outside
}

// RangeMethods lists the methods.
var RangeMethods = []string{"minmax", "percentile", "mse"}

// histogram reports whether more than the ends of the range matter.
func (r *RangeRule) histogram() bool { return r.Method != "minmax" }

// choose returns the ends of the grid.
func (r *RangeRule) choose(x *observed, d DType) (lo, hi float64) {
	lo, hi = x.Lo, x.Hi
	switch r.Method {
	case "percentile":
		lo, hi = x.percentile(r.Share)
	case "mse":
		least, most := d.limits()
		lo, hi = x.leastError(float64(most - least))
	}
	if d == Uint16 || d == Int16 {
		lo, hi = float64(lo*r.Headroom), float64(hi*r.Headroom)
	}
	return lo, hi
}

// A value with the mask added: keys that are not seen do not count, and may be clipped.
func isMasked(v *value) bool { return strings.HasSuffix(v.Name, ".masked") }

// maskMargin is how far below every score that is seen the range of masked scores ends: e^-24 times a context of a million
// is less than a step of the softmax.
const maskMargin = 24

// farBelow is what the mask has while ranges are looked for.
const farBelow = -1e4
