package quant

import (
	"nibble/internal/half"
	"nibble/internal/kernel"
)

// IntGrid is the grid of one group with an integer zero, ŵ = Scale·(q − Zero) for codes q from 0 to Top = 2^bits − 1.
// With Zero = 2^(bits−1) it is a symmetric one.
type IntGrid struct{ Scale, Zero, Top float32 }

// SymmetricGrid returns the symmetric grid of a width.
func SymmetricGrid(scale float32, bits int) IntGrid {
	return IntGrid{scale, float32(int(1) << (bits - 1)), float32(int(1)<<bits - 1)}
}

// code returns the nearest code of x.
func (g IntGrid) code(x float32) float32 { return kernel.Nearest(x/g.Scale+g.Zero, 0, g.Top) }

// Encode sets codes[i] = clamp(rint(w[i]/s + z), 0, Top).
func (g IntGrid) Encode(codes []uint8, w []float32) {
	codes = codes[:len(w)]
	for i, x := range w {
		codes[i] = uint8(g.code(x))
	}
}

// EncodeBF16 is Encode in BF16 arithmetic on signed codes: w/s and w/s + z − M, M = 2^(bits−1), are rounded to BF16 before
// the latter is rounded to an integer.
func (g IntGrid) EncodeBF16(codes []uint8, w []float32) {
	mid := (g.Top + 1) / 2
	codes = codes[:len(w)]
	for i, x := range w {
		codes[i] = uint8(kernel.Nearest(half.RoundBF16(half.RoundBF16(x/g.Scale)+(g.Zero-mid)), -mid, mid-1) + mid)
	}
}

// Error returns Σ d (s·(q − z) − w)² for the nearest codes, summed as kernel.GridError does.
func (g IntGrid) Error(w, d []float32) float64 {
	return kernel.GridError(&kernel.Grid{Scale: g.Scale, Add: g.Zero, Hi: g.Top, Off: g.Zero}, w, d)
}

// LeastSquares returns the best scale for the codes of w, Σ d·w·a / Σ d·a² with a = q − z, unless every a is 0.
func (g IntGrid) LeastSquares(w, d []float32) (scale float32, ok bool) {
	var wa, aa float64
	d = d[:len(w)]
	for i, x := range w {
		a := float64(g.code(x) - g.Zero)
		da := float64(float64(d[i]) * a)
		wa += float64(da * float64(x))
		aa += float64(da * a)
	}
	if aa == 0 {
		return 0, false
	}
	return float32(wa / aa), true
}
