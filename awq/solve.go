package awq

import (
	"fmt"
	"math"

	"nibble/internal/half"
	"nibble/internal/kernel"
	"nibble/quant"
	"nibble/safetensors"
)

// NewSolver returns the solver of a grid with an integer zero, ŵ = s·(q − z), 0 ≤ q, z ≤ L = 2^bits − 1, for the spec's
// method. Both round the scale to its stored type first, then fix z, then round every weight to the nearest code.
//
//	rtn       lo = min(0, min w), hi = max(0, max w): s = (hi − lo)/L, z = clamp(rint(−lo/s), 0, L)
//	search    SearchGroup, with quant.Importance where nothing is known of the columns
//
// Under rtn with BF16 scales hi − lo, lo/s, M + lo/s (M = 2^(bits−1)), w/s and w/s + z − M are each rounded to BF16, as
// llm-compressor does, which computes in the model's type.
func NewSolver(s quant.Spec) (quant.Solver, error) {
	switch s.Method {
	case quant.RTN:
		return func(m *quant.Matrix, w, d []float32) {
			m.EachGroup(w, d, func(slot int, w, _ []float32, codes []uint8) {
				var g quant.IntGrid
				if s.Scale == safetensors.BF16 {
					g = rtn(w, s, half.RoundBF16)
					g.EncodeBF16(codes, w)
				} else {
					g = rtn(w, s, func(x float32) float32 { return x })
					g.Encode(codes, w)
				}
				m.Scales[slot], m.Zeros[slot] = g.Scale, uint8(g.Zero)
			})
		}, nil
	case quant.Search:
		return func(m *quant.Matrix, w, d []float32) {
			t := new(kernel.Trials)
			m.EachWeighed(w, d, func(slot int, w, d []float32, codes []uint8) {
				g := search(t, w, d, m.Bits, s.Scale)
				g.Encode(codes, w)
				m.Scales[slot], m.Zeros[slot] = g.Scale, uint8(g.Zero)
			})
		}, nil
	}
	return nil, fmt.Errorf("awq: method %q on a grid with an integer zero: it can be %q or %q", s.Method, quant.RTN, quant.Search)
}

// span returns the group's extremes, 0 included.
func span(w []float32) (lo, hi float32) {
	lo, hi = kernel.Extremes(w)
	return min(lo, 0), max(hi, 0)
}

// rtn returns the grid of the group's extremes. Every intermediate passes round.
func rtn(w []float32, s quant.Spec, round func(float32) float32) quant.IntGrid {
	g := quant.SymmetricGrid(0, s.Bits)
	mid := g.Zero
	lo, hi := span(w)
	g.Scale = quant.RoundScale(round(hi-lo)/g.Top, s.Scale)
	g.Zero = kernel.Nearest(round(-mid-round(lo/g.Scale)), -mid, mid-1) + mid
	return g
}

// factors shrink the two ends of the range in a search.
var factors = [...]float32{1, 0.96, 0.92, 0.87, 0.82, 0.76}

// SearchGroup returns the grid with the smallest Σ d (ŵ − w)². d is positive, or nil for ones. Candidates, of which the
// earlier wins a tie; the scale is rounded to its stored type before z and the codes are chosen:
//
//	for p and, inside, r in 1, .96, .92, .87, .82, .76:   s = (hi·p − lo·r)/L, z = clamp(rint(−lo·r/s), 0, L)
//	                                                      lo = min(0, min w), hi = max(0, max w)
//	twice: least squares for the best codes, s = Σ d·w·a / Σ d·a², a = q − z, with the z nearest to the best one's offset;
//	       then the neighbours z − 1 and z + 1 at the best s
//
// Sums of errors are kernel.GridError's, those of least squares float64 in the order of the columns.
func SearchGroup(w, d []float32, bits int, scale safetensors.DType) quant.IntGrid {
	return search(new(kernel.Trials), w, d, bits, scale)
}

// rule has the candidates of SearchGroup at 4 bits.
var rule = kernel.NewRule(len(factors)*len(factors), func(i int) (p, r, den float32) {
	return factors[i/len(factors)], factors[i%len(factors)], 15
})

// search is SearchGroup. Candidates that kernel.Trials proves to be worse than another are not tried.
func search(t *kernel.Trials, w, d []float32, bits int, scale safetensors.DType) quant.IntGrid {
	top := float32(int(1)<<bits - 1)
	var best quant.IntGrid
	least := math.Inf(1)
	try := func(s, z float32) {
		g := quant.IntGrid{Scale: s, Zero: z, Top: top}
		if g == best {
			return
		}
		if e := g.Error(w, d); e < least || best.Scale == 0 {
			best, least = g, e
		}
	}
	offset := func(s, b float32) (float32, float32) { // the grid of step s whose code 0 is nearest to b
		s = quant.RoundScale(s, scale)
		return s, kernel.Nearest(-b/s, 0, top)
	}
	lo, hi := span(w)
	most := max(-lo, hi)
	if !(bits == 4 && scale == safetensors.BF16 && t.Fill(rule, &kernel.Range{U: hi, V: lo, Most: top, Hi: top}, most)) {
		t.Reset()
		for _, p := range factors {
			for _, r := range factors {
				s, z := offset(max(float32(hi*p)-float32(lo*r), 1e-12)/top, lo*r)
				t.Add(s, 0, z, 0, top)
			}
		}
	}
	t.Sift(w, d, most, top+1)
	for i := t.Next(0); i >= 0; i = t.Next(i + 1) {
		s, _, lowest := t.At(i)
		try(s, 0-lowest)
	}
	var around quant.IntGrid // whose neighbours were tried
	for range 2 {
		was := best
		if s, ok := best.LeastSquares(w, d, most); ok {
			try(offset(s, -best.Zero*s))
		}
		if best == around {
			break
		}
		around = best
		z := best.Zero
		if z > 0 {
			try(best.Scale, z-1)
		}
		if z < top {
			try(best.Scale, z+1)
		}
		if best == was {
			break // the second round would be the same
		}
	}
	return best
}
