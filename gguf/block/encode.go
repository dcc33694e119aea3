package block

import "nibble/internal/kernel"

// simple is a block of 32 with one scale: how it is searched if weights are given.
type simple struct {
	values grid
	reach  []float64
}

var (
	simpleQ8_0   = simple{grid{-127, 127}, []float64{124, 125, 126, 127, 127.4}}
	simpleQ4_0   = simple{grid{-8, 7}, []float64{-6.75, -7, -7.25, -7.5, -7.75, -8, -8.25, -8.5, -9, -9.5, -10, -11, 6.75, 7, 7.25, 7.5, 7.75, 8, 8.25, 8.5, 9, 9.5, 10, 11}}
	simpleQ5_0   = simple{grid{-16, 15}, []float64{-14.5, -15, -15.5, -16, -16.5, -17, -18, 14, 14.5, 15, 15.5, 16, 17, 18}}
	simpleIQ4_NL = simple{grid{}, scalesIQ4_XS.reach}
)

// encode calls put for every 32 weights with the bytes they go to, their codes and their scale, a float16.
func (s *simple) encode(dst []byte, bytes int, src, weights []float32, put func(dst []byte, codes []uint8, d float32)) {
	t, codes := &tile{values: &s.values}, make([]uint8, 32)
	t.eights(dst, bytes, src, weights, func() { t.fitScale(s.reach) }, func(dst []byte, l int, w []float32) {
		scale, _ := t.found(l)
		scale = roundHalf(scale)
		s.values.codes(codes, w, float32(scale), 0)
		if t.faint(l) && t.worse(l, codes, scale, 0) {
			scale = 0
			s.values.codes(codes, w, 0, 0)
		}
		put(dst, codes, float32(scale))
	})
}

// eights searches eight blocks of 32 weights at a time, and calls put for each with the bytes it goes to, its run and weights.
func (t *tile) eights(dst []byte, bytes int, src, weights []float32, search func(), put func(dst []byte, l int, w []float32)) {
	var w, c [8 * 32]float32 // of runs that are fewer, or whose importances are not in one piece
	for at := 0; at < len(src); at += 8 * 32 {
		n := min((len(src)-at)/32, 8)
		from, counts := src[at:], weights
		if n < 8 {
			clear(w[copy(w[:], from):])
			from = w[:]
		}
		if weights != nil {
			if counts = weights[at%len(weights):]; len(counts) < 8*32 {
				for l := range 8 {
					copy(c[32*l:], columns(weights, at+32*l, 32))
				}
				counts = c[:]
			}
		}
		t.load(32, from, counts)
		t.weigh(&t.lanes.Heaviest)
		search()
		for l := range n {
			put(dst[:bytes], l, src[at+32*l:][:32])
			dst = dst[bytes:]
		}
	}
}

// columns returns the importances of n weights from number at on, nil if there are none.
func columns(weights []float32, at, n int) []float32 {
	if weights == nil {
		return nil
	}
	return weights[at%len(weights):][:n]
}

// lineFactors are the parts of a half of the range that Q4_1 and Q5_1 try.
var lineFactors = []float32{1, .985, .97, .955, .94, .92, .9, .87}

// encodeLines calls put for every 32 weights with the bytes they go to, their codes from 0 to the top of the values, and d and m of w = d·q + m,
// float16 values.
func encodeLines(dst []byte, bytes int, src, weights []float32, values *grid, put func(dst []byte, codes []uint8, d, m float32)) {
	t, codes := &tile{values: values}, make([]uint8, 32)
	t.eights(dst, bytes, src, weights, func() { t.fitLine(values.hi, lineFactors, free) }, func(dst []byte, l int, w []float32) {
		scale, floor := t.found(l)
		scale, floor = roundHalf(scale), roundHalf(floor)
		if scale == 0 {
			floor = roundHalf(-t.mean[l] * t.down[l])
		}
		values.codes(codes, w, float32(scale), float32(floor))
		if t.worse(l, codes, scale, floor) { // where half floats have few digits, rounding may cost more than the weights are
			clear(codes)
			scale, floor = 0, 0
		}
		put(dst, codes, float32(scale), float32(-floor))
	})
}

// Importance sets c to weights for Encode where nothing is known of the columns: quant.Importance of each 32 weights.
func Importance(c, w []float32) {
	kernel.Spread(c[:len(w)], w)
}

// each calls round for every 32 weights with the bytes they go to.
func each(dst []byte, bytes int, src []float32, round func(dst []byte, codes []uint8, w []float32)) {
	codes := make([]uint8, 32)
	for ; len(src) > 0; dst, src = dst[bytes:], src[32:] {
		round(dst[:bytes], codes, src[:32])
	}
}

func encodeQ8_0(dst []byte, src, weights []float32) {
	if weights == nil {
		each(dst, 34, src, func(dst []byte, _ []uint8, w []float32) { putF16(dst, roundBytes(dst[2:], w)) })
		return
	}
	simpleQ8_0.encode(dst, 34, src, weights, func(dst []byte, codes []uint8, d float32) {
		putF16(dst, d)
		for i, q := range codes {
			dst[2+i] = q - 127
		}
	})
}

func encodeQ4_0(dst []byte, src, weights []float32) {
	put := func(dst []byte, codes []uint8, d float32) {
		putF16(dst, d)
		joinHalves(dst[2:], codes)
	}
	if weights == nil {
		each(dst, 18, src, func(dst []byte, codes []uint8, w []float32) { put(dst, codes, roundSigned(codes, w, 8)) })
		return
	}
	simpleQ4_0.encode(dst, 18, src, weights, put)
}

func encodeQ5_0(dst []byte, src, weights []float32) {
	put := func(dst []byte, codes []uint8, d float32) {
		putF16(dst, d)
		joinFive(dst[2:], codes)
	}
	if weights == nil {
		each(dst, 22, src, func(dst []byte, codes []uint8, w []float32) { put(dst, codes, roundSigned(codes, w, 16)) })
		return
	}
	simpleQ5_0.encode(dst, 22, src, weights, put)
}

func encodeQ4_1(dst []byte, src, weights []float32) {
	encodeRange(dst, 20, src, weights, &rangesQ4_K.values, joinHalves)
}

func encodeQ5_1(dst []byte, src, weights []float32) {
	encodeRange(dst, 24, src, weights, &rangesQ5_K.values, joinFive)
}

// encodeRange is what Q4_1 and Q5_1 have in common.
func encodeRange(dst []byte, bytes int, src, weights []float32, values *grid, join func(dst []byte, codes []uint8)) {
	put := func(dst []byte, codes []uint8, d, m float32) {
		putF16(dst, d)
		putF16(dst[2:], m)
		join(dst[4:], codes)
	}
	if weights != nil {
		encodeLines(dst, bytes, src, weights, values, put)
		return
	}
	each(dst, bytes, src, func(dst []byte, codes []uint8, w []float32) {
		d, m := roundRange(codes, w, values.hi)
		put(dst, codes, d, m)
	})
}

func encodeIQ4_NL(dst []byte, src, weights []float32) {
	simpleIQ4_NL.encode(dst, 18, src, weights, func(dst []byte, codes []uint8, d float32) {
		putF16(dst, d)
		joinHalves(dst[2:], codes)
	})
}
