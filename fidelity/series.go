package fidelity

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Interval is a 95 % confidence interval.
type Interval [2]float64

const (
	samples     = 1000 // of the bootstrap
	seed        = 1
	fewWindows  = 8    // with fewer, positions are drawn
	deviations  = 1.96 // of a normal distribution, that leave 2.5 % on each side
	low, high   = 0.025, 0.975
	finiteLimit = 709 // exp of more is not finite
)

// exp is math.Exp, the largest finite number instead of infinity, which JSON does not have.
func exp(x float64) float64 {
	if x > finiteLimit {
		return math.MaxFloat64
	}
	return math.Exp(x)
}

// clusters are runs of positions that are drawn together: ends[i] is the end of run i.
type clusters struct{ ends []int }

// newClusters takes the ends of the windows, or single positions where windows are few.
func newClusters(windows []int) clusters {
	if len(windows) >= fewWindows || len(windows) == 0 {
		return clusters{windows}
	}
	var c clusters
	for i := range windows[len(windows)-1] {
		c.ends = append(c.ends, i+1)
	}
	return c
}

// sums returns the sum of values in each cluster.
func (c clusters) sums(values []float64) []float64 {
	list := make([]float64, len(c.ends))
	at := 0
	for i, end := range c.ends {
		for ; at < end; at++ {
			list[i] += values[at]
		}
	}
	return list
}

// size returns the number of positions of a cluster.
func (c clusters) size(i int) int {
	if i == 0 {
		return c.ends[0]
	}
	return c.ends[i] - c.ends[i-1]
}

// bootstrap draws as many clusters as there are, with replacement, again and again. measure gets how often each was drawn
// and writes its figures to out; their intervals are returned.
func (c clusters) bootstrap(figures int, measure func(weights []int, out []float64)) []Interval {
	r := rand.New(rand.NewPCG(seed, 0))
	n := len(c.ends)
	weights, out := make([]int, n), make([]float64, figures)
	columns := make([][]float64, figures)
	for range samples {
		clear(weights)
		for range n {
			weights[r.IntN(n)]++
		}
		measure(weights, out)
		for i, v := range out {
			columns[i] = append(columns[i], v)
		}
	}
	list := make([]Interval, figures)
	for i, column := range columns {
		slices.Sort(column)
		list[i] = Interval{quantile(column, low), quantile(column, high)}
	}
	return list
}

// mean returns Σ weights·sums / Σ weights·sizes.
func (c clusters) mean(weights []int, sums []float64) float64 {
	var sum float64
	var n int
	for i, w := range weights {
		sum += float64(float64(w) * sums[i])
		n += w * c.size(i)
	}
	return sum / float64(n)
}

// quantile returns number ⌊f·n⌋ of sorted values.
func quantile(sorted []float64, f float64) float64 {
	return sorted[min(int(f*float64(len(sorted))), len(sorted)-1)]
}

// ranking is values in ascending order, with the cluster of each.
type ranking struct {
	values  []float64
	cluster []int32
}

func (c clusters) rank(values []float64) ranking {
	order := make([]int, len(values))
	of := make([]int32, len(values))
	cluster := int32(0)
	for i := range values {
		for i >= c.ends[cluster] {
			cluster++
		}
		order[i], of[i] = i, cluster
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	r := ranking{make([]float64, len(values)), make([]int32, len(values))}
	for i, at := range order {
		r.values[i], r.cluster[i] = values[at], of[at]
	}
	return r
}

// quantiles writes the quantiles fractions, in ascending order, of the values taken as often as their cluster was drawn.
func (r *ranking) quantiles(out, fractions []float64, weights []int) {
	total := 0
	for _, c := range r.cluster {
		total += weights[c]
	}
	seen, next := 0, 0
	for i, c := range r.cluster {
		seen += weights[c]
		for next < len(fractions) && seen > min(int(fractions[next]*float64(total)), total-1) {
			out[next] = r.values[i]
			next++
		}
	}
}

// mean returns the mean of values, summed in order.
func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// standardErrors returns the standard error of the mean: with clusters, and as if values were independent. What one value
// or cluster cannot give is 0.
func standardErrors(values []float64, c clusters) (clustered, independent float64) {
	m, n := mean(values), float64(len(values))
	var squares float64
	for i, s := range c.sums(values) {
		d := s - float64(float64(c.size(i))*m)
		squares += float64(d * d)
	}
	if k := float64(len(c.ends)); k > 1 {
		clustered = math.Sqrt(k/(k-1)*squares) / n
	}
	squares = 0
	for _, v := range values {
		squares += float64((v - m) * (v - m))
	}
	if n > 1 {
		independent = math.Sqrt(squares / n / (n - 1))
	}
	return clustered, independent
}

// wilson returns the interval of a count of successes in n trials, as a count.
func wilson(successes, n int) Interval {
	if n == 0 {
		return Interval{}
	}
	k, t := float64(successes), float64(n)
	const z2 = deviations * deviations
	p := k / t
	centre := (p + z2/(2*t)) / (1 + z2/t)
	half := deviations * math.Sqrt(p*(1-p)/t+z2/(4*t*t)) / (1 + z2/t)
	return Interval{max(t*(centre-half), 0), min(t*(centre+half), t)}
}
