package kernel

import "nibble/internal/half"

// grids are the loops of the quantizers of a set. Lengths are multiples of 16, whose tails the caller does, and may be 0.
type grids struct {
	gridError  func(fields [7]float32, w, d []float32) [8]float64
	plainError func(fields [7]float32, w []float32) float64
	encode     func(fields [7]float32, w []float32, codes []uint8)
	encodeBF16 func(fields [7]float32, w []float32, codes []uint8)
	encodeRuns func(codes []uint8, w []float32, size int, scales, subs []float32, lo, hi float32)
	coarse     func(sums, inverse, lo, hi, inner, outer, innerD, outerD []float32)      // weights of any number
	shifted    func(sums, inverse, lo, hi, sub, inner, outer, innerD, outerD []float32) // the same
	span       func(scale, lo, hi, sub []float32) (low, high float32)
	split      func(inner, outer, innerD, outerD, w, d []float32, low, high float32) (n int)
	survey     func(w []float32) (all, least uint32)
	codeSums   func(fields [7]float32, w []float32) [4]float64
	fill       func(x [8]float32, p, q, den, scale, inverse, sub, lowest, highest *[MaxTrials]float32)
	sieve      func(x [4]float32, squares, scale, sub, low []float32) (least float32)
	above      func(low []float32, bound float32) (mask uint64)
}

var gridsGeneric = grids{gridError, plainError, encode, encodeBF16, encodeRuns, coarse, shifted, span, split, survey, codeSums, fill, sieve, above}

// Grid is the grid of one group in a search: a weight x gets the code q = clamp(rint((x − Sub)/Scale + Add), Lo, Hi), ties
// to even, and becomes (q − Off)·Scale + Bias. Scale is not 0; Lo and Hi are integers of at most 2^21.
type Grid struct{ Scale, Sub, Add, Lo, Hi, Off, Bias float32 }

// Nearest returns clamp(rint(q), lo, hi), ties to even, for bounds that are integers of at most 2^21.
func Nearest(q, lo, hi float32) float32 {
	if q > hi {
		return hi
	}
	if q < lo {
		return lo
	}
	const magic = 3 << 22 // its neighbours are 1 apart
	return float32(q+magic) - magic
}

func (g *Grid) fields() [7]float32 {
	return [7]float32{g.Scale, g.Sub, g.Add, g.Lo, g.Hi, g.Off, g.Bias}
}

func gridOf(f [7]float32) Grid { return Grid{f[0], f[1], f[2], f[3], f[4], f[5], f[6]} }

// code returns q of x.
func (g *Grid) code(x float32) float32 {
	return Nearest(float32(float32(x-g.Sub)/g.Scale)+g.Add, g.Lo, g.Hi)
}

// Encode sets codes[i] = q − Lo of w[i], which is finite. Hi − Lo is at most 255, codes at least as long as w.
func (g *Grid) Encode(codes []uint8, w []float32) {
	codes = codes[:len(w)]
	n := len(w) &^ 15
	active.encode(g.fields(), w[:n], codes[:n])
	if n < len(w) {
		encode(g.fields(), w[n:], codes[n:])
	}
}

func encode(fields [7]float32, w []float32, codes []uint8) {
	g := gridOf(fields)
	for i, x := range w {
		codes[i] = uint8(g.code(x) - g.Lo)
	}
}

// EncodeRuns is Encode for runs of weights that follow one another, size each, a multiple of 16, every run with a Scale and a Sub of its own. A scale of
// 0 makes all weights of a run 0, so lo is not above 0, nor hi below. Codes, weights and subs are at least as long as the scales ask for.
func EncodeRuns(codes []uint8, w []float32, size int, scales, subs []float32, lo, hi float32) {
	n := len(scales) * size
	active.encodeRuns(codes[:n], w[:n], size, scales, subs[:len(scales)], lo, hi)
}

func encodeRuns(codes []uint8, w []float32, size int, scales, subs []float32, lo, hi float32) {
	for j, scale := range scales {
		run, q := w[j*size:][:size], codes[j*size:][:size]
		if scale != 0 {
			g := Grid{Scale: scale, Sub: subs[j], Lo: lo, Hi: hi}
			encode(g.fields(), run, q)
			continue
		}
		for i := range q {
			q[i] = uint8(-lo)
		}
	}
}

// EncodeBF16 is Encode in bfloat16: the quotient and the sum are each rounded to it before the
// next step. Sub has no part in it.
func (g *Grid) EncodeBF16(codes []uint8, w []float32) {
	codes = codes[:len(w)]
	n := len(w) &^ 15
	active.encodeBF16(g.fields(), w[:n], codes[:n])
	if n < len(w) {
		encodeBF16(g.fields(), w[n:], codes[n:])
	}
}

func encodeBF16(fields [7]float32, w []float32, codes []uint8) {
	g := gridOf(fields)
	for i, x := range w {
		codes[i] = uint8(Nearest(half.RoundBF16(half.RoundBF16(x/g.Scale)+g.Add), g.Lo, g.Hi) - g.Lo)
	}
}

// GridError returns Σ d[i]·e[i]², e what the grid makes of w[i] less w[i]. d is at least as long as w, or nil for ones.
//
// Everything up to e is float32, rounded at each step. Squares and sums are float64: lane l of eight adds up the elements
// l, l+8, l+16 … in that order, then lane l takes lane l+4, l+2, l+1.
func GridError(g *Grid, w, d []float32) float64 {
	n := len(w) &^ 15
	if d == nil && n == len(w) {
		return active.plainError(g.fields(), w)
	}
	if d == nil {
		return plainError(g.fields(), w)
	}
	d = d[:len(w)]
	s := active.gridError(g.fields(), w[:n], d[:n])
	for i := n; i < len(w); i++ {
		s[i&7] += g.square(w[i], d[i])
	}
	return foldEight(&s)
}

func foldEight(s *[8]float64) float64 {
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

// square returns d·e² of one element.
func (g *Grid) square(x, d float32) float64 {
	q := g.code(x)
	e := float64(float32(float32((q-g.Off)*g.Scale)+g.Bias) - x)
	return float64(float64(d) * float64(e*e))
}

// gridError returns the lanes of GridError, for the fields of a Grid in their order. The length is a multiple of 16.
func gridError(fields [7]float32, w, d []float32) (s [8]float64) {
	g := gridOf(fields)
	for i := 0; i+8 <= len(w); i += 8 {
		x, y := (*[8]float32)(w[i:]), (*[8]float32)(d[i:])
		for l := range s {
			s[l] += g.square(x[l], y[l])
		}
	}
	return
}

// plainError is GridError for a d of ones. Any length will do.
func plainError(fields [7]float32, w []float32) float64 {
	g := gridOf(fields)
	var s [8]float64
	for i, x := range w {
		s[i&7] += g.square(x, 1)
	}
	return foldEight(&s)
}
