package quant

import "nibble/internal/kernel"

// IntGrid is the grid of one group with an integer zero, ŵ = Scale·(q − Zero) for codes q from 0 to Top = 2^bits − 1.
// With Zero = 2^(bits−1) it is a symmetric one.
type IntGrid struct{ Scale, Zero, Top float32 }

// SymmetricGrid returns the symmetric grid of a width.
func SymmetricGrid(scale float32, bits int) IntGrid {
	return IntGrid{scale, float32(int(1) << (bits - 1)), float32(int(1)<<bits - 1)}
}

// kernel returns the grid as the kernels have it.
func (g IntGrid) kernel() kernel.Grid {
	return kernel.Grid{Scale: g.Scale, Add: g.Zero, Hi: g.Top, Off: g.Zero}
}

// code returns the nearest code of x.
func (g IntGrid) code(x float32) float32 { return kernel.Nearest(x/g.Scale+g.Zero, 0, g.Top) }

// Encode sets codes[i] = clamp(rint(w[i]/s + z), 0, Top).
func (g IntGrid) Encode(codes []uint8, w []float32) {
	k := g.kernel()
	k.Encode(codes, w)
}

// EncodeBF16 is Encode in BF16 arithmetic on signed codes: w/s and w/s + z − M, M = 2^(bits−1), are rounded to BF16 before
// the latter is rounded to an integer.
func (g IntGrid) EncodeBF16(codes []uint8, w []float32) {
	mid := float32((g.Top + 1) / 2)
	k := kernel.Grid{Scale: g.Scale, Add: g.Zero - mid, Lo: -mid, Hi: mid - 1}
	k.EncodeBF16(codes, w)
}

// Error returns Σ d (s·(q − z) − w)² for the nearest codes, summed as kernel.GridError does. A nil d stands for ones.
func (g IntGrid) Error(w, d []float32) float64 {
	k := g.kernel()
	return kernel.GridError(&k, w, d)
}

// LeastSquares returns the best scale for the codes of w, Σ d·w·a / Σ d·a² with a = q − z, unless every a is 0. A nil d stands
// for ones; most is the largest magnitude in w.
func (g IntGrid) LeastSquares(w, d []float32, most float32) (scale float32, ok bool) {
	var wa, aa float64
	exact := false
	if d == nil {
		k := g.kernel()
		_, aa, _, wa, exact = k.Sums(w, most)
	}
	if !exact {
		wa, aa = g.sums(w, d)
	}
	if aa == 0 {
		return 0, false
	}
	return float32(wa / aa), true
}

// sums returns Σ d·w·a and Σ d·a² in the order of w.
func (g IntGrid) sums(w, d []float32) (wa, aa float64) {
	di := 1.0
	for i, x := range w {
		if d != nil {
			di = float64(d[i])
		}
		a := float64(g.code(x) - g.Zero)
		da := float64(di * a)
		wa += float64(da * float64(x))
		aa += float64(da * a)
	}
	return wa, aa
}
