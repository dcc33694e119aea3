package convert

import (
	"math"
	"testing"
)

// The first is the example of scipy.stats.spearmanr.
func TestSpearman(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3, 4, 5}, []float64{5, 6, 7, 8, 7}, 0.82078268166812329},
		{[]float64{3, 1, 2}, []float64{-1, 9, 5}, -1},
		{[]float64{1, 1, 2}, []float64{7, 7, 8}, 1},
	} {
		if r, ok := spearman(c.a, c.b); !ok || math.Abs(r-c.want) > 1e-15 {
			t.Errorf("%v, %v: %v, %t, want %v", c.a, c.b, r, ok, c.want)
		}
	}
	for _, c := range [][]float64{nil, {4}, {4, 4}} {
		if r, ok := spearman(c, c); ok {
			t.Errorf("%v has the correlation %v with itself", c, r)
		}
	}
}
