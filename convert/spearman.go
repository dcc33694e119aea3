package convert

import (
	"math"
	"slices"
)

// spearman returns the correlation of the ranks of two lists, equal values sharing the mean of theirs; false if one of them has
// no two different values.
func spearman(a, b []float64) (r float64, ok bool) {
	x, y := ranks(a), ranks(b)
	mean := float64(float64(len(a)-1) / 2)
	var xy, xx, yy float64
	for i := range x {
		dx, dy := x[i]-mean, y[i]-mean
		xy += float64(dx * dy)
		xx += float64(dx * dx)
		yy += float64(dy * dy)
	}
	if xx == 0 || yy == 0 {
		return 0, false
	}
	return xy / math.Sqrt(xx*yy), true
}

// ranks returns the place of every value in sorted order, counted from 0.
func ranks(v []float64) []float64 {
	sorted := slices.Clone(v)
	slices.Sort(sorted)
	r := make([]float64, len(v))
	for i, f := range v {
		lo, _ := slices.BinarySearch(sorted, f)
		hi := lo
		for hi < len(sorted) && sorted[hi] == f {
			hi++
		}
		r[i] = float64(lo+hi-1) / 2
	}
	return r
}
