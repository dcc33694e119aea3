package kernel

import "math"

// moments are second moments Σ x_t·x_tᵀ of a set: of rows of float32 and of rows of bfloat16. The rows of a few columns are
// kept in a panel; a step of a panel is what Outer calls a row of b.
type moments struct {
	moment32   Moment
	momentBF16 Moment
}

// Moment adds up outer products of rows in panels. Two rows of bfloat16 are kept as a step of pairs, or as two steps of
// float32 of which the second row comes first. Either way, of each two rows the product of the second is added first.
// Products are exact, and no sum is smaller than 2^-126 in magnitude but 0, because of what Pack does, so that all sets
// give the same bits; amxbf16 has others (amx_moment.go).
type Moment struct {
	Rows   int // of a tile, as in Outer
	Lanes  int
	Cols   int
	Steps  int                                                                     // that two rows take
	Across bool                                                                    // Add takes a across, and four steps or multiples
	add    []momentTile                                                            // for 1, 2, 3 … times Lanes columns
	pack   func(dst []float32, x []byte, stride int, w []float32, cols, width int) // of a multiple of Lanes, or 16, columns
}

// MomentRows is the most rows that are added up at once.
const MomentRows = 1024

var momentsGeneric = moments{
	Moment{2, 4, 4, 2, false, []momentTile{addMoment}, nil},
	Moment{2, 4, 4, 2, false, []momentTile{addMoment}, packMoments},
}

// Moment32 returns the operations on rows of float32 of the set in use.
func Moment32() Moment { return active.moment32 }

// MomentBF16 returns the operations on rows of bfloat16 of the set in use.
func MomentBF16() Moment { return active.momentBF16 }

// momentTile is Add for one number of columns.
type momentTile func(c []float64, ldc int, a []float32, ks int, b []float32, bs, k int)

// Add adds up k outer products, one after the other, in float32, and adds their sum to c:
//
//	c[i·ldc+j] += Σ_s a[i+s·ks]·b[s·bs+j]    over s = 0, 1 … k−1, of all i < Rows and j < cols
//
// where a is across, step s of column i is a[i·ks+s].
func (m *Moment) Add(c []float64, ldc int, a []float32, ks int, b []float32, bs, k, cols int) {
	if m.Across {
		momentTiles(c, ldc, a, ks, b, bs, k)
		return
	}
	m.add[cols/m.Lanes-1](c, ldc, a, ks, b, bs, k)
}

// addMoment is Add of 2 by 4.
func addMoment(c []float64, ldc int, a []float32, ks int, b []float32, bs, k int) {
	var sum [8]float32
	addOuter(sum[:], 4, a, 1, ks, b, bs, k)
	for j := range 4 {
		c[j] += float64(sum[j])
		c[ldc+j] += float64(sum[4+j])
	}
}

// Bounds of the magnitudes, in bits of float32, of which Pack keeps values: products of two of them are multiples of 2^-126
// and finite.
const (
	leastMoment = (127 - 56) << 23
	mostMoment  = (127 + 64) << 23
)

// Pack puts columns of rows of bfloat16, stride bytes apart, into steps of width columns. There are len(w) rows, an even
// number; row t is multiplied by w[t] and rounded to bfloat16, ties to even, except that magnitudes below 2^-56 become 0,
// and those from 2^64 on NaN. Columns of dst from cols on stay as they are. A NaN in w has the upper
// half of its bits only.
func (m *Moment) Pack(dst []float32, x []byte, stride int, w []float32, cols, width int) {
	unit := min(m.Lanes, 16)
	n := cols / unit * unit
	m.pack(dst, x, stride, w, n, width)
	if n == cols || len(w) == 0 {
		return
	}
	if m.Steps == 1 {
		packMomentPairs(dst[n:], x[2*n:], stride, w, cols-n, width)
	} else {
		packMoments(dst[n:], x[2*n:], stride, w, cols-n, width)
	}
}

// packMoments is Pack to two steps of float32.
func packMoments(dst []float32, x []byte, stride int, w []float32, cols, width int) {
	for t, s := range w {
		row, to := x[t*stride:][:2*cols], dst[(t^1)*width:][:cols]
		for j := range to {
			to[j] = math.Float32frombits(momentBits(BFloat16.At(row, j) * s))
		}
	}
}

// packMomentPairs is Pack to a step of pairs, the first row in the lower half.
func packMomentPairs(dst []float32, x []byte, stride int, w []float32, cols, width int) {
	for t := 0; t < len(w); t += 2 {
		first, second, to := x[t*stride:][:2*cols], x[(t+1)*stride:][:2*cols], dst[t/2*width:][:cols]
		for j := range to {
			low, high := momentBits(BFloat16.At(first, j)*w[t]), momentBits(BFloat16.At(second, j)*w[t+1])
			to[j] = math.Float32frombits(high | low>>16)
		}
	}
}

// momentBits rounds v to what Pack keeps, in the upper half of its result.
func momentBits(v float32) uint32 {
	b := math.Float32bits(v)
	b = (b + 0x7fff + b>>16&1) & 0xffff0000
	switch m := b &^ (1 << 31); {
	case m < leastMoment:
		return 0
	case m >= mostMoment:
		return b | 0x7fc00000
	}
	return b
}
