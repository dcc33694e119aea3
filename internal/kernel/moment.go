package kernel

import "math"

// Moments are the operations on second moments Σ x_t·x_tᵀ of rows of bfloat16. The rows of a few columns are kept in a panel
// of steps as wide as Outer's tiles: pairs of rows, one bfloat16 above the other, or float32, the second row of each pair
// first. Either way Outer adds, of each pair of rows, the product of the second first; products are exact, and no sum
// is smaller than 2^-126 in magnitude but 0, because of what Pack does. So all sets give the same bits.
type Moments struct {
	Steps int            // that a pair of rows takes
	Outer Outer[float32] // on what a panel holds; nothing subtracts
	pack  func(dst []float32, x []byte, stride int, w []float32, cols, width int)
}

// MomentsOf returns the operations of the set in use.
func MomentsOf() Moments { return active.moments }

var momentsGeneric = Moments{2, gemmsGeneric.outer32, packMoments}

// Bounds of the magnitudes, in bits of float32, of which Pack keeps values: products of two of them are multiples of 2^-126
// and finite.
const (
	leastMoment = (127 - 56) << 23
	mostMoment  = (127 + 64) << 23
)

// Pack puts columns of rows of bfloat16, stride bytes apart, into the steps of a panel, width columns each; there are
// len(w) rows, an even number, and row t is multiplied by w[t] and rounded to bfloat16, ties to even. Magnitudes below 2^-56
// become 0, from 2^64 on an infinity or a NaN. The columns of dst from cols on stay. w has no NaN but the canonical one.
func (m *Moments) Pack(dst []float32, x []byte, stride int, w []float32, cols, width int) {
	m.pack(dst, x, stride, w, cols, width)
}

// packMoments is Pack to float32.
func packMoments(dst []float32, x []byte, stride int, w []float32, cols, width int) {
	for t, s := range w {
		row, to := x[t*stride:][:2*cols], dst[(t^1)*width:][:cols]
		for j := range to {
			to[j] = math.Float32frombits(momentBits(BFloat16.At(row, j) * s))
		}
	}
}

// momentBits rounds v to what Pack keeps, in the upper half of its result.
func momentBits(v float32) uint32 {
	b := math.Float32bits(v)
	b += 0x7fff + b>>16&1
	b &= 0xffff0000
	switch m := b &^ (1 << 31); {
	case m < leastMoment:
		return 0
	case m >= mostMoment:
		return b | 0x7f800000
	}
	return b
}

// packMomentPairs is Pack to pairs of bfloat16.
func packMomentPairs(dst []float32, x []byte, stride int, w []float32, cols, width int) {
	for t := 0; t < len(w); t += 2 {
		first, second, to := x[t*stride:][:2*cols], x[(t+1)*stride:][:2*cols], dst[t/2*width:][:cols]
		for j := range to {
			low, high := momentBits(BFloat16.At(first, j)*w[t]), momentBits(BFloat16.At(second, j)*w[t+1])
			to[j] = math.Float32frombits(high | low>>16)
		}
	}
}

// momentsAs are Moments on float32 by the tiles of a set.
func momentsAs(o Outer[float32]) Moments { return Moments{2, o, packMoments} }
