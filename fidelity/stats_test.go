package fidelity

import (
	"math"
	"slices"
	"testing"
)

func near(t *testing.T, what string, have, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(have-want) <= tolerance) {
		t.Errorf("%s is %.12g, want %.12g", what, have, want)
	}
}

func logs(p ...float64) []float32 {
	var l []float32
	for _, x := range p {
		l = append(l, float32(math.Log(x))+3) // a constant changes nothing
	}
	return l
}

func TestDistribution(t *testing.T) {
	p, err := normalize(logs(0.5, 0.25, 0.125, 0.125), make([]float64, 4))
	if err != nil {
		t.Fatal(err)
	}
	q, err := normalize(logs(0.25, 0.25, 0.25, 0.25), make([]float64, 4))
	if err != nil {
		t.Fatal(err)
	}
	const tolerance = 1e-6 // the logarithms are float32
	near(t, "−ln 1/8", p.surprise(3), math.Log(8), tolerance)
	// ½·ln 2 + ¼·0 − 2·⅛·ln 2
	near(t, "KL(p‖uniform)", p.divergence(&q), 0.25*math.Log(2), tolerance)
	// ¼·(−ln 2) + 0 + 2·¼·ln 2
	near(t, "KL(uniform‖p)", q.divergence(&p), 0.25*math.Log(2), tolerance)
	if d := p.divergence(&p); d != 0 {
		t.Errorf("KL(p‖p) is %g", d)
	}
	if p.top != 0 || q.top != 0 {
		t.Errorf("likeliest tokens %d and %d, want the lowest of equals", p.top, q.top)
	}
	inf := float32(math.Inf(1))
	for _, bad := range [][]float32{{1, inf}, {1, -inf, float32(math.NaN())}, {-inf, -inf}} {
		if _, err := normalize(bad, make([]float64, len(bad))); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

func TestQuantile(t *testing.T) {
	list := make([]float64, 100)
	for i := range list {
		list[i] = float64(i)
	}
	for f, want := range map[float64]float64{0: 0, 0.5: 50, 0.99: 99, 1: 99} {
		near(t, "quantile", quantile(list, f), want, 0)
	}
	near(t, "median of three", quantile([]float64{1, 2, 9}, 0.5), 2, 0)
}

// TestRanking compares the quantiles of weighted values with those of the values written out.
func TestRanking(t *testing.T) {
	values := []float64{5, 1, 4, 1, 3, 9, 2, 6}
	c := clusters{[]int{3, 3, 5, 8}} // the second is empty
	r := c.rank(values)
	weights := []int{2, 1, 0, 3}
	var all []float64
	for i, w := range []int{2, 2, 2, 0, 0, 3, 3, 3} {
		for range w {
			all = append(all, values[i])
		}
	}
	slices.Sort(all)
	fractions := []float64{0, 0.3, 0.5, 0.99, 1}
	out := make([]float64, len(fractions))
	r.quantiles(out, fractions, weights)
	for i, f := range fractions {
		near(t, "weighted quantile", out[i], quantile(all, f), 0)
	}
}

func TestStandardErrors(t *testing.T) {
	values := []float64{1, 3, 5, 7}
	clustered, independent := standardErrors(values, clusters{[]int{2, 4}})
	near(t, "independent", independent, math.Sqrt(20./4/3), 1e-15)
	// Cluster sums less their share of the mean: 4 − 8 and 12 − 8.
	near(t, "clustered", clustered, math.Sqrt(2./1*(16+16))/4, 1e-15)
	clustered, independent = standardErrors([]float64{2}, clusters{[]int{1}})
	if clustered != 0 || independent != 0 {
		t.Errorf("errors of one value: %g, %g", clustered, independent)
	}
}

func TestWilson(t *testing.T) {
	// 9 of 12: (0.75 + 3.8416/24 ± 1.96·√(0.75·0.25/12 + 3.8416/576)) / (1 + 3.8416/12) is 0.46769 to 0.91106.
	x := wilson(9, 12)
	near(t, "low", x[0]/12, 0.46769, 1e-5)
	near(t, "high", x[1]/12, 0.91106, 1e-5)
	if x := wilson(0, 5); x[0] != 0 || x[1] <= 0 {
		t.Errorf("none of five: %v", x)
	}
	if x := wilson(5, 5); x[1] != 5 || x[0] >= 5 {
		t.Errorf("five of five: %v", x)
	}
}

func TestBootstrap(t *testing.T) {
	var values []float64
	var ends []int
	for i := range 64 {
		values = append(values, float64(i%8), float64(i%8)) // windows of two equal values
		ends = append(ends, 2*i+2)
	}
	interval := func(c clusters) Interval {
		sums := c.sums(values)
		return c.bootstrap(1, func(weights []int, out []float64) { out[0] = c.mean(weights, sums) })[0]
	}
	x := interval(newClusters(ends))
	// The mean of 64 draws from 0…7 (deviation √5.25) is 3.5 ± 1.96·0.2864.
	near(t, "low", x[0], 3.5-0.561, 0.06)
	near(t, "high", x[1], 3.5+0.561, 0.06)
	if y := interval(newClusters(ends)); y != x {
		t.Errorf("another run gives %v, not %v", y, x)
	}
	if c := newClusters([]int{3, 5}); len(c.ends) != 5 {
		t.Errorf("two windows are %d clusters, want their 5 positions", len(c.ends))
	}
}

func TestWindows(t *testing.T) {
	for _, x := range []struct {
		n, context, stride int
		want               []Window
	}{
		{10, 4, 0, []Window{{0, 4, 1}, {4, 8, 1}}},
		{8, 4, 4, []Window{{0, 4, 1}, {4, 8, 1}}},
		{4, 4, 0, []Window{{0, 4, 1}}},
		{10, 4, 2, []Window{{0, 4, 1}, {2, 6, 2}, {4, 8, 2}, {6, 10, 2}}},
		{9, 4, 2, []Window{{0, 4, 1}, {2, 6, 2}, {4, 8, 2}, {6, 9, 2}}},
		{5, 4, 3, []Window{{0, 4, 1}, {3, 5, 1}}},
	} {
		have, err := Windows(x.n, x.context, x.stride)
		if err != nil || !slices.Equal(have, x.want) {
			t.Errorf("%d tokens, context %d, stride %d: %v, %v, want %v", x.n, x.context, x.stride, have, err, x.want)
		}
	}
	for _, x := range [][3]int{{3, 4, 0}, {10, 1, 0}, {10, 4, 5}, {10, 4, -1}, {0, 4, 0}} {
		if list, err := Windows(x[0], x[1], x[2]); err == nil {
			t.Errorf("%v: %v, want an error", x, list)
		}
	}
}
