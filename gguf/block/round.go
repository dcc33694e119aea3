package block

import (
	"encoding/binary"
	"math"
)

// The roundings of this file are those of the programs that introduced the formats, operation by operation in float32.

// clamp returns x cut to an integer from 0 to top, 0 for a NaN.
func clamp(x, top float32) uint8 {
	if !(x > 0) {
		return 0
	}
	return uint8(min(x, top))
}

// inverse returns 1/d, 0 for 0.
func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

// extreme returns the weight of largest magnitude, the first of several.
func extreme(w []float32) float32 {
	x, most := w[0], abs(w[0])
	for _, v := range w {
		if a := abs(v); a > most {
			x, most = v, a
		}
	}
	return x
}

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// roundSigned sets codes of x/d + half, the code of 0, and returns d, with which the extreme weight gets code 0.
func roundSigned(codes []uint8, w []float32, half float32) float32 {
	d := extreme(w) / -half
	id := inverse(d)
	for i, x := range w {
		codes[i] = clamp(float32(x*id)+(half+0.5), 2*half-1)
	}
	return d
}

// roundRange sets codes from 0, the least weight, to top, the greatest, and returns the step and the least weight.
func roundRange(codes []uint8, w []float32, top float32) (d, least float32) {
	least, most := w[0], w[0]
	for _, x := range w {
		if x < least {
			least = x
		}
		if x > most {
			most = x
		}
	}
	d = (most - least) / top
	id := inverse(d)
	for i, x := range w {
		codes[i] = clamp(float32((x-least)*id)+0.5, top)
	}
	return d, least
}

// roundBytes sets dst to the integers nearest to w/d, ties away from zero, and returns d = max|w|/127.
func roundBytes(dst []byte, w []float32) float32 {
	d := abs(extreme(w)) / 127
	id := inverse(d)
	for i, x := range w {
		y := abs(float32(x * id))
		q := clamp(y, 127)
		if q < 127 && y-float32(q) >= 0.5 {
			q++
		}
		if x < 0 {
			q = -q
		}
		dst[i] = q
	}
	return d
}

func encodeQ8_K(dst []byte, src, _ []float32) {
	for ; len(src) > 0; dst, src = dst[292:], src[256:] {
		d := roundBytes(dst[4:260], src[:256])
		binary.LittleEndian.PutUint32(dst, math.Float32bits(d))
		for j := range 16 {
			sum := 0
			for _, q := range dst[4+16*j:][:16] {
				sum += int(int8(q))
			}
			binary.LittleEndian.PutUint16(dst[260+2*j:], uint16(int16(sum)))
		}
	}
}
