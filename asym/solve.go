package asym

import (
	"fmt"
	"math"

	"nibble/internal/kernel"
	"nibble/quant"
	"nibble/safetensors"
)

// NewSolver returns the solver of a 4-bit grid with a float zero, ŵ = s·(q − 8) + b, for the spec's method.
//
//	rtn       s = max(max w − min w, 1e-9)/15, rounded to the stored type; b = min w + 8s, rounded too; then the nearest
//	          codes
//	shrink    the cpu_int4 exporter's search, see shrinkGroup
//	search    SearchGroup, with quant.Importance where nothing is known of the columns, then the nearest codes
func NewSolver(s quant.Spec) (quant.Solver, error) {
	var solve func(t *kernel.Trials, codes []uint8, w, d []float32) (scale, bias float32)
	switch s.Method {
	case quant.RTN:
		solve = func(_ *kernel.Trials, codes []uint8, w, _ []float32) (float32, float32) {
			lo, hi := kernel.Extremes(w)
			return encodeAt(codes, w, grid(spanOf(lo, hi)/15, lo, s.Scale))
		}
	case quant.Shrink:
		solve = func(t *kernel.Trials, codes []uint8, w, _ []float32) (float32, float32) {
			return shrinkGroup(t, codes, w, s.Scale)
		}
	case quant.Search:
		solve = func(t *kernel.Trials, codes []uint8, w, d []float32) (float32, float32) {
			return encodeAt(codes, w, search(t, w, d, s.Scale))
		}
	default:
		return nil, fmt.Errorf("asym: method %q on a grid with a float zero: it can be %q, %q or %q", s.Method, quant.RTN, quant.Shrink, quant.Search)
	}
	each := (*quant.Matrix).EachGroup
	if s.Method == quant.Search {
		each = (*quant.Matrix).EachWeighed
	}
	return func(m *quant.Matrix, w, d []float32) {
		t := new(kernel.Trials)
		each(m, w, d, func(slot int, w, d []float32, codes []uint8) {
			m.Scales[slot], m.Bias[slot] = solve(t, codes, w, d)
		})
	}, nil
}

// Grid is a group's scale and float zero.
type Grid struct{ Scale, Bias float32 }

// grid returns the stored grid of step s that has its code 0 at lo: the zero is placed by the rounded step.
func grid(s, lo float32, d safetensors.DType) Grid {
	s = quant.RoundScale(s, d)
	return Grid{s, quant.Round(lo+float32(8*s), d)}
}

// spanOf returns hi − lo, kept within 1e-9 and the largest float32.
func spanOf(lo, hi float32) float32 { return min(max(hi-lo, 1e-9), math.MaxFloat32) }

// code returns clamp(rint((x − b)/s), −8, 7), the code of x less 8.
func (g Grid) code(x float32) float32 { return kernel.Nearest((x-g.Bias)/g.Scale, -8, 7) }

// kernel returns the grid as the kernels have it.
func (g Grid) kernel() kernel.Grid {
	return kernel.Grid{Scale: g.Scale, Sub: g.Bias, Lo: -8, Hi: 7, Bias: g.Bias}
}

// Encode sets codes[i] = clamp(rint((w[i] − b)/s), −8, 7) + 8.
func (g Grid) Encode(codes []uint8, w []float32) {
	k := g.kernel()
	k.Encode(codes, w)
}

func encodeAt(codes []uint8, w []float32, g Grid) (scale, bias float32) {
	g.Encode(codes, w)
	return g.Scale, g.Bias
}

// shrinkGroup sets the codes of a group as the exporter of the cpu_int4 format does and returns its scale and zero:
//
//	span = max(max w − min w, 1e-9)
//	for f in 1, .98, .96, .94, .92, .90, .88, .85:
//	    s = span·f/15, lo = min w + span·(1 − f)/2, q = clamp(rint((w − lo)/s), 0, 15)
//	keep the f with the smallest Σ (s·q + lo − w)², the earlier of equals; zero = lo + 8s
//
// The codes belong to the unrounded s and zero; these are rounded to their stored type afterwards. That costs a little
// accuracy, which search does not give away, but the bytes are the exporter's.
//
// Factors that kernel.Trials proves to be worse than another are not tried.
func shrinkGroup(t *kernel.Trials, codes []uint8, w []float32, d safetensors.DType) (scale, bias float32) {
	lo, hi := kernel.Extremes(w)
	span := spanOf(lo, hi)
	t.Reset()
	for _, f := range [...]float64{1, 0.98, 0.96, 0.94, 0.92, 0.90, 0.88, 0.85} {
		t.Add(float32(span*float32(f))/15, lo+float32(float32(span*float32(1-f))/2), 0, 0, 15)
	}
	t.Sift(w, nil, max(-lo, hi), 16)
	var s, base float32
	least := math.Inf(1)
	for i := t.Next(0); i >= 0; i = t.Next(i + 1) {
		s1, lo1, _ := t.At(i)
		var sum float64
		for _, x := range w {
			e := float64(float32(kernel.Nearest((x-lo1)/s1, 0, 15)*s1) + lo1 - x)
			sum += float64(e * e)
		}
		if sum < least || s == 0 {
			s, base, least = s1, lo1, sum
		}
	}
	k := kernel.Grid{Scale: s, Sub: base, Hi: 15}
	k.Encode(codes, w)
	return quant.RoundScale(s, d), quant.Round(base+float32(8*s), d)
}

// factors shrink the two halves of the range in a search.
var factors = [...]float32{1, 0.96, 0.92, 0.87, 0.82, 0.76}

// SearchGroup returns the grid with the smallest Σ d (s·(q − 8) + b − w)². w is not empty, d is positive, or nil for ones. Candidates, of
// which the earlier wins a tie, are rounded to the stored type before the codes are chosen:
//
//	c = (max w + min w)/2, h = (max w − min w)/2
//	for p and, inside, r in 1, .96, .92, .87, .82, .76:   code 0 at c − h·p, code 15 at c + h·r
//	twice: the least squares of scale and zero together for the best codes so far
//
// Sums of errors are kernel.GridError's, those of least squares float64 in the order of the columns.
func SearchGroup(w, d []float32, t safetensors.DType) Grid {
	return search(new(kernel.Trials), w, d, t)
}

// rule has the candidates of SearchGroup.
var rule = kernel.NewRule(len(factors)*len(factors), func(i int) (r, p, den float32) {
	return factors[i%len(factors)], factors[i/len(factors)], 15
})

// search is SearchGroup. Candidates that kernel.Trials proves to be worse than another are not tried.
func search(trials *kernel.Trials, w, d []float32, t safetensors.DType) Grid {
	lo, hi := kernel.Extremes(w)
	c, h := float32(hi/2)+float32(lo/2), float32(hi/2)-float32(lo/2)
	var best Grid
	least := math.Inf(1)
	try := func(g Grid) {
		if g == best {
			return
		}
		if e := g.groupError(w, d); e < least || best.Scale == 0 {
			best, least = g, e
		}
	}
	most := max(-lo, hi)
	if !(t == safetensors.BF16 && trials.Fill(rule, &kernel.Range{Base: c, U: h, V: -h, Keep: 1, Shift: 8, Lo: -8, Hi: 7}, most)) {
		trials.Reset()
		for _, p := range factors {
			for _, r := range factors {
				first, last := c-float32(h*p), c+float32(h*r)
				g := grid(min(last-first, math.MaxFloat32)/15, first, t)
				trials.Add(g.Scale, g.Bias, 0, -8, 7)
			}
		}
	}
	trials.Sift(w, d, most, 16)
	for i := trials.Next(0); i >= 0; i = trials.Next(i + 1) {
		s, b, _ := trials.At(i)
		try(Grid{s, b})
	}
	for range 2 {
		was := best
		if s, first, ok := best.leastSquares(w, d, most); ok {
			try(grid(s, first, t))
		}
		if best == was {
			break // the second round would be the same
		}
	}
	return best
}

// groupError returns Σ d (s·(q − 8) + b − w)², summed as kernel.GridError does.
func (g Grid) groupError(w, d []float32) float64 {
	k := g.kernel()
	return kernel.GridError(&k, w, d)
}

// leastSquares solves the normal equations of Σ d (s·q + b − w)² for s and b, the value of code 0, unless the codes are
// (nearly) all equal. A nil d stands for ones; most is the largest magnitude in w.
func (g Grid) leastSquares(w, d []float32, most float32) (s, b float32, ok bool) {
	var sd, sq, sqq, sw, sqw float64
	exact := false
	if d == nil {
		k := g.kernel()
		k.Off = -8
		sd = float64(len(w))
		sq, sqq, sw, sqw, exact = k.Sums(w, most)
	}
	if !exact {
		sd, sq, sqq, sw, sqw = g.sums(w, d)
	}
	det := float64(sd*sqq) - float64(sq*sq)
	if det <= float64(1e-7*float64(sd*sqq)) {
		return 0, 0, false
	}
	s = float32((float64(sd*sqw) - float64(sq*sw)) / det)
	b = float32((float64(sqq*sw) - float64(sq*sqw)) / det)
	return s, b, true
}

// sums returns Σ d, Σ d·q, Σ d·q², Σ d·w and Σ d·q·w in the order of w.
func (g Grid) sums(w, d []float32) (sd, sq, sqq, sw, sqw float64) {
	di := 1.0
	for i, x := range w {
		if d != nil {
			di = float64(d[i])
		}
		q, xi := float64(g.code(x)+8), float64(x)
		dq := float64(di * q)
		sd += di
		sq += dq
		sqq += float64(dq * q)
		sw += float64(di * xi)
		sqw += float64(dq * xi)
	}
	return sd, sq, sqq, sw, sqw
}
