package block

import "math"

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

// encode sets the codes of 32 weights and returns their scale, a float16.
func (s *simple) encode(g *group, codes []uint8, w, c []float32) float32 {
	g.load(&s.values, w, c)
	g.fitScale(s.reach)
	d := roundHalf(g.scale)
	g.codes(codes, d, 0)
	return float32(d)
}

// lineFactors are the parts of a half of the range that Q4_1 and Q5_1 try.
var lineFactors = []float64{1, .985, .97, .955, .94, .92, .9, .87}

// encodeLine sets the codes of 32 weights, from 0 to top, and returns d and m of w = d·q + m, float16 values.
func encodeLine(g *group, codes []uint8, w, c []float32, values *grid) (d, m float32) {
	g.load(values, w, c)
	g.fitLine(values.hi, lineFactors, free)
	scale, floor := roundHalf(g.scale), roundHalf(g.floor)
	if scale == 0 {
		floor = roundHalf(-g.sumCW / g.sumC)
	}
	g.codes(codes, scale, floor)
	var loss, zeros float64 // where half floats have few digits, rounding may cost more than the weights are
	for i, x := range w {
		e := float64(scale*float64(codes[i])) - floor - float64(x)
		loss += float64(float64(c[i]) * float64(e*e))
		zeros += float64(float64(c[i]) * float64(float64(x)*float64(x)))
	}
	if loss > zeros {
		clear(codes)
		return 0, 0
	}
	return float32(scale), float32(-floor)
}

// Importance sets c to weights for Encode where nothing is known of the columns: σ + |w|, with the root mean square σ of each 32
// weights. Large weights count more, as they do with what programs that introduced the blocks of 256 weigh by. The
// models that were tried come nearer to the original with it than with weights of one (docs/gguf.md).
func Importance(c, w []float32) {
	for ; len(w) > 0; c, w = c[min(32, len(w)):], w[min(32, len(w)):] {
		part := w[:min(32, len(w))]
		var sum float64
		for _, x := range part {
			sum += float64(float64(x) * float64(x))
		}
		sigma := float32(math.Sqrt(sum / float64(len(part))))
		for i, x := range part {
			c[i] = sigma + abs(x)
		}
	}
}

// each calls encode for every 32 weights with the bytes they go to, and with their importance, nil if there is none.
func each(dst []byte, bytes int, src, weights []float32, encode func(dst []byte, w, c []float32)) {
	for ; len(src) > 0; dst, src = dst[bytes:], src[32:] {
		var c []float32
		if weights != nil {
			c, weights = weights[:32], weights[32:]
		}
		encode(dst[:bytes], src[:32], c)
	}
}

func encodeQ8_0(dst []byte, src, weights []float32) {
	var g group
	var codes [32]uint8
	each(dst, 34, src, weights, func(dst []byte, w, c []float32) {
		if c == nil {
			putF16(dst, roundBytes(dst[2:], w))
			return
		}
		putF16(dst, simpleQ8_0.encode(&g, codes[:], w, c))
		for i, q := range codes {
			dst[2+i] = q - 127
		}
	})
}

func encodeQ4_0(dst []byte, src, weights []float32) {
	var g group
	var codes [32]uint8
	each(dst, 18, src, weights, func(dst []byte, w, c []float32) {
		if c == nil {
			putF16(dst, roundSigned(codes[:], w, 8))
		} else {
			putF16(dst, simpleQ4_0.encode(&g, codes[:], w, c))
		}
		joinHalves(dst[2:], codes[:])
	})
}

func encodeQ5_0(dst []byte, src, weights []float32) {
	var g group
	var codes [32]uint8
	each(dst, 22, src, weights, func(dst []byte, w, c []float32) {
		if c == nil {
			putF16(dst, roundSigned(codes[:], w, 16))
		} else {
			putF16(dst, simpleQ5_0.encode(&g, codes[:], w, c))
		}
		joinFive(dst[2:], codes[:])
	})
}

func encodeQ4_1(dst []byte, src, weights []float32) {
	var g group
	var codes [32]uint8
	each(dst, 20, src, weights, func(dst []byte, w, c []float32) {
		var d, m float32
		if c == nil {
			d, m = roundRange(codes[:], w, 15)
		} else {
			d, m = encodeLine(&g, codes[:], w, c, &rangesQ4_K.values)
		}
		putF16(dst, d)
		putF16(dst[2:], m)
		joinHalves(dst[4:], codes[:])
	})
}

func encodeQ5_1(dst []byte, src, weights []float32) {
	var g group
	var codes [32]uint8
	each(dst, 24, src, weights, func(dst []byte, w, c []float32) {
		var d, m float32
		if c == nil {
			d, m = roundRange(codes[:], w, 31)
		} else {
			d, m = encodeLine(&g, codes[:], w, c, &rangesQ5_K.values)
		}
		putF16(dst, d)
		putF16(dst[2:], m)
		joinFive(dst[4:], codes[:])
	})
}

func encodeIQ4_NL(dst []byte, src, weights []float32) {
	var g group
	var codes [32]uint8
	each(dst, 18, src, weights, func(dst []byte, w, c []float32) {
		putF16(dst, simpleIQ4_NL.encode(&g, codes[:], w, c))
		joinHalves(dst[2:], codes[:])
	})
}
