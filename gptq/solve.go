package gptq

import (
	"fmt"
	"math"

	"nibble/internal/kernel"
	"nibble/quant"
	"nibble/safetensors"
)

// NewSolver returns the solver of a symmetric grid, ŵ = s·(q − M) with M = 2^(bits−1), for the spec's method. Both fix
// and round the scale first and then round every weight to the nearest code, so no code is off its stored grid.
//
//	rtn       s = max|w| / (M − ½), the rule of llm-compressor and GPTQModel: the longer side ends half a step beyond
//	          its last code and both extremes are off by half a step at most. With Signed, s = −w*/M for the first
//	          weight w* of largest magnitude: the extreme sits on code 0 and the step is smaller.
//	search    SearchGroup, with quant.Importance where nothing is known of the columns
//
// Under rtn with BF16 scales the quotient w/s is rounded to BF16 before it is rounded to a code, because llm-compressor
// computes in the model's type: the codes are the peer's, byte for byte, though up to one in sixteen (8 bits; one in a
// hundred at 4 bits) is not the nearest.
func NewSolver(s quant.Spec) (quant.Solver, error) {
	switch s.Method {
	case quant.RTN:
		return func(m *quant.Matrix, w, d []float32) {
			m.EachGroup(w, d, func(slot int, w, _ []float32, codes []uint8) {
				g := rtn(w, s)
				m.Scales[slot] = g.Scale
				if s.Scale == safetensors.BF16 {
					g.EncodeBF16(codes, w)
				} else {
					g.Encode(codes, w)
				}
			})
		}, nil
	case quant.Search:
		return func(m *quant.Matrix, w, d []float32) {
			t := new(kernel.Trials)
			m.EachWeighed(w, d, func(slot int, w, d []float32, codes []uint8) {
				g := search(t, w, d, m.Bits, s.Scale, s.Signed)
				m.Scales[slot] = g.Scale
				g.Encode(codes, w)
			})
		}, nil
	}
	return nil, fmt.Errorf("gptq: method %q on a symmetric grid: it can be %q or %q", s.Method, quant.RTN, quant.Search)
}

func rtn(w []float32, s quant.Spec) quant.IntGrid {
	g := quant.SymmetricGrid(0, s.Bits)
	if extreme := largest(w); s.Signed {
		g.Scale = quant.RoundScale(-extreme/g.Zero, s.Scale)
	} else {
		g.Scale = quant.RoundScale(abs(extreme)/(g.Zero-0.5), s.Scale)
	}
	return g
}

// largest returns the first element of largest magnitude, 0 if all are 0.
func largest(w []float32) float32 {
	lo, hi := kernel.Extremes(w)
	switch {
	case hi > -lo:
		return hi
	case hi < -lo:
		return lo
	}
	for _, x := range w { // both ends are as far out
		if x == lo || x == hi {
			return x
		}
	}
	return 0
}

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// ratios are the t of a search at 4 bits, for scales of max|w|/t. t = 7.5 rounds to nearest, larger ones clip the extremes
// for a finer step.
var ratios = [...]float32{6.75, 7, 7.25, 7.5, 7.75, 8, 8.25, 8.5, 8.75, 9, 9.5, 10, 10.5, 11}

// SearchGroup returns the symmetric grid with the smallest Σ d (ŵ − w)². d is positive, or nil for ones. The candidates, of which the
// earlier wins a tie, are each rounded to the stored type before the codes are chosen:
//
//	s = m/t, m = max|w|, for fourteen t from 6.75 to 11 at 4 bits. At 8 bits they are 16 times as many, after 127, 127.5
//	and 128.
//	s = −m/t for the same t, if signed: the longer side of the grid, code 0, can serve either end of the group
//	twice the least squares for the best codes so far, s = Σ d·w·a / Σ d·a² with a = q − M
//
// Sums of errors are kernel.GridError's, those of least squares float64 in the order of the columns.
func SearchGroup(w, d []float32, bits int, scale safetensors.DType, signed bool) quant.IntGrid {
	return search(new(kernel.Trials), w, d, bits, scale, signed)
}

// sweep calls add for m over every ratio.
func sweep(add func(s float32), m float32, bits int) {
	if bits == 8 {
		for _, t := range [...]float32{127, 127.5, 128} {
			add(m / t)
		}
	}
	for _, t := range ratios {
		add(m / (t * float32(int(1)<<bits) / 16))
	}
}

// rules has the candidates of SearchGroup at 4 bits, without and with negative scales.
var rules = [2]*kernel.Rule{kernel.NewRule(len(ratios), ratio), kernel.NewRule(2*len(ratios), ratio)}

func ratio(i int) (p, q, den float32) {
	if i < len(ratios) {
		return 1, 0, ratios[i]
	}
	return -1, 0, ratios[i-len(ratios)]
}

// search is SearchGroup. Candidates that kernel.Trials proves to be worse than another are not tried.
func search(t *kernel.Trials, w, d []float32, bits int, scale safetensors.DType, signed bool) quant.IntGrid {
	var best quant.IntGrid
	least := math.Inf(1)
	try := func(s float32) {
		g := quant.SymmetricGrid(quant.RoundScale(s, scale), bits)
		if g == best {
			return
		}
		if e := g.Error(w, d); e < least || best.Scale == 0 {
			best, least = g, e
		}
	}
	grid := quant.SymmetricGrid(0, bits)
	most := abs(largest(w))
	r := rules[0]
	if signed {
		r = rules[1]
	}
	if !(bits == 4 && scale == safetensors.BF16 && t.Fill(r, &kernel.Range{U: most, Lo: -grid.Zero, Hi: grid.Top - grid.Zero}, most)) {
		t.Reset()
		add := func(s float32) { t.Add(quant.RoundScale(s, scale), 0, grid.Zero, 0, grid.Top) }
		sweep(add, max(most, 1e-12), bits)
		if signed {
			sweep(add, -max(most, 1e-12), bits)
		}
	}
	t.Sift(w, d, most, grid.Top+1)
	for i := t.Next(0); i >= 0; i = t.Next(i + 1) {
		s, _, _ := t.At(i)
		try(s)
	}
	for range 2 {
		was := best
		if s, ok := best.LeastSquares(w, d, most); ok {
			try(s)
		}
		if best == was {
			break // the second round would be the same
		}
	}
	return best
}
