package kernel

import (
	"math"

	"nibble/internal/half"
)

// rows are the loops over rows of weights of a set. Lengths are those of the first slice, multiples of 16, whose tails the
// caller does, and may be 0.
type rows struct {
	widen    func(dst []float32, src []byte)
	narrow   func(src []float32, dst []byte)
	finite   func(w []float32) bool
	extremes func(w []float32) (lo, hi float32)
	expand   func(dst []float32, codes []uint8, scale, zero, bias float32)
	lift     func(dst, w []float32, least float32)
	spread   func(dst, w []float32) // multiples of 32
	noise    func(w, x []float32) (signal, noise [8]float64, most float64)
}

var rowsGeneric = rows{half.DecodeBF16, narrow, finite, extremes, expand, lift, spread, noise}

// WidenBF16 sets dst to the len(dst) values that src holds in bfloat16, little-endian.
func WidenBF16(dst []float32, src []byte) {
	src = src[:2*len(dst)]
	n := len(dst) &^ 15
	active.widen(dst[:n], src[:2*n])
	half.DecodeBF16(dst[n:], src[2*n:])
}

// NarrowBF16 rounds src to bfloat16, ties to even, and stores it in dst, little-endian. What is beyond the largest value
// becomes an infinity; a NaN keeps its sign and the upper bits of its payload and becomes quiet.
func NarrowBF16(dst []byte, src []float32) {
	dst = dst[:2*len(src)]
	n := len(src) &^ 15
	active.narrow(src[:n], dst[:2*n])
	narrow(src[n:], dst[2*n:])
}

func narrow(src []float32, dst []byte) { half.EncodeBF16(dst, src) }

// Finite reports whether no element of w is a NaN or an infinity.
func Finite(w []float32) bool {
	n := len(w) &^ 15
	return active.finite(w[:n]) && finite(w[n:])
}

func finite(w []float32) bool {
	for _, x := range w {
		if math.Float32bits(x)&0x7f800000 == 0x7f800000 {
			return false
		}
	}
	return true
}

// Extremes returns the smallest and the largest of w, which are finite and at least one. A zero is a positive one.
func Extremes(w []float32) (lo, hi float32) {
	lo, hi = w[0], w[0]
	n := len(w) &^ 15
	if n > 0 {
		lo, hi = active.extremes(w[:n])
	}
	for _, x := range w[n:] {
		lo, hi = min(lo, x), max(hi, x)
	}
	return lo + 0, hi + 0 // −0 + 0 is 0
}

// extremes is Extremes but for the sign of a zero. w is not empty.
func extremes(w []float32) (lo, hi float32) {
	lo, hi = w[0], w[0]
	for _, x := range w[1:] {
		if x < lo {
			lo = x
		}
		if x > hi {
			hi = x
		}
	}
	return lo, hi
}

// Expand sets dst[i] = scale·(codes[i] − zero) + bias, rounded at each step. codes is at least as long as dst; zero is an
// integer from 0 to 255. A bias of −0 adds nothing, not even to a product of −0.
func Expand(dst []float32, codes []uint8, scale, zero, bias float32) {
	codes = codes[:len(dst)]
	n := len(dst) &^ 15
	active.expand(dst[:n], codes[:n], scale, zero, bias)
	expand(dst[n:], codes[n:], scale, zero, bias)
}

func expand(dst []float32, codes []uint8, scale, zero, bias float32) {
	for i := range dst {
		dst[i] = float32(scale*(float32(codes[i])-zero)) + bias
	}
}

// Lift sets dst[i] = least + |w[i]|. w is at least as long as dst.
func Lift(dst, w []float32, least float32) {
	w = w[:len(dst)]
	n := len(dst) &^ 15
	active.lift(dst[:n], w[:n], least)
	lift(dst[n:], w[n:], least)
}

func lift(dst, w []float32, least float32) {
	for i := range dst {
		dst[i] = least + math.Float32frombits(math.Float32bits(w[i])&^(1<<31))
	}
}

// Spread is Lift run by run, of 32 weights and what is left, with the root mean square of the run for least: √(Σw²/n), Σw² as Dot
// adds it up, the quotient and the root in float64. Weights are finite. w is at least as long as dst.
func Spread(dst, w []float32) {
	w = w[:len(dst)]
	n := len(dst) &^ 31
	active.spread(dst[:n], w[:n])
	spread(dst[n:], w[n:])
}

func spread(dst, w []float32) {
	for ; len(dst) > 0; dst, w = dst[min(32, len(dst)):], w[min(32, len(w)):] {
		run := w[:min(32, len(w))]
		lift(dst[:len(run)], run, float32(math.Sqrt(float64(dot(run, run))/float64(len(run)))))
	}
}

// Noise returns Σ w[i]², Σ (x[i] − w[i])² and the largest |x[i] − w[i]|. x is at least as long as w; both are finite.
//
// Everything is float64: lane l of eight adds up the elements l, l+8, l+16 … in that order, each square rounded first, then
// lane l takes lane l+4, l+2, l+1.
func Noise(w, x []float32) (signal, errors, most float64) {
	x = x[:len(w)]
	n := len(w) &^ 15
	s, e, most := active.noise(w[:n], x[:n])
	for i := n; i < len(w); i++ {
		v := float64(w[i])
		d := float64(x[i]) - v
		s[i&7] += float64(v * v)
		e[i&7] += float64(d * d)
		most = max(most, math.Abs(d))
	}
	return foldEight(&s), foldEight(&e), most
}

// noise returns the lanes of Noise.
func noise(w, x []float32) (signal, errors [8]float64, most float64) {
	for i := 0; i+8 <= len(w); i += 8 {
		p, q := (*[8]float32)(w[i:]), (*[8]float32)(x[i:])
		for l := range p {
			v := float64(p[l])
			d := float64(q[l]) - v
			signal[l] += float64(v * v)
			errors[l] += float64(d * d)
			most = max(most, math.Abs(d))
		}
	}
	return
}
