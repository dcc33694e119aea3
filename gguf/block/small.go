package block

import (
	"encoding/binary"
	"math"

	"nibble/internal/half"
)

// levels are the values of the codes of IQ4_NL and IQ4_XS.
var levels = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// twice are the values of a 4-bit float, doubled. The zero of code 8 is positive.
var twice = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// getF16 reads a float16.
func getF16(p []byte) float32 { return half.FromF16(binary.LittleEndian.Uint16(p)) }

// putF16 rounds x to float16 and stores it.
func putF16(p []byte, x float32) { binary.LittleEndian.PutUint16(p, half.F16(x)) }

func decodeF32(dst []float32, src []byte)           { half.DecodeF32(dst, src) }
func decodeF16(dst []float32, src []byte)           { half.DecodeF16(dst, src) }
func decodeBF16(dst []float32, src []byte)          { half.DecodeBF16(dst, src) }
func encodeF32(dst []byte, src, weights []float32)  { half.EncodeF32(dst, src) }
func encodeF16(dst []byte, src, weights []float32)  { half.EncodeF16(dst, src) }
func encodeBF16(dst []byte, src, weights []float32) { half.EncodeBF16(dst, src) }

func decodeQ8_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[34:] {
		d := getF16(src)
		for i, q := range src[2:34] {
			dst[i] = float32(int8(q)) * d
		}
	}
}

func decodeQ4_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[18:] {
		d := getF16(src)
		for i, b := range src[2:18] {
			dst[i] = d * float32(int(b&15)-8)
			dst[i+16] = d * float32(int(b>>4)-8)
		}
	}
}

func decodeQ4_1(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[20:] {
		d, m := getF16(src), getF16(src[2:])
		for i, b := range src[4:20] {
			dst[i] = float32(d*float32(b&15)) + m
			dst[i+16] = float32(d*float32(b>>4)) + m
		}
	}
}

func decodeQ5_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[22:] {
		d, high := getF16(src), binary.LittleEndian.Uint32(src[2:])
		for i, b := range src[6:22] {
			dst[i] = d * float32(int(b&15)+int(high>>i&1<<4)-16)
			dst[i+16] = d * float32(int(b>>4)+int(high>>(i+16)&1<<4)-16)
		}
	}
}

func decodeQ5_1(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[24:] {
		d, m, high := getF16(src), getF16(src[2:]), binary.LittleEndian.Uint32(src[4:])
		for i, b := range src[8:24] {
			dst[i] = float32(d*float32(uint32(b&15)|high>>i&1<<4)) + m
			dst[i+16] = float32(d*float32(uint32(b>>4)|high>>(i+16)&1<<4)) + m
		}
	}
}

func decodeIQ4_NL(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[18:] {
		decodeLevels(dst, src[2:18], &levels, getF16(src))
	}
}

func decodeMXFP4(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[17:] {
		d := math.Float32frombits(0x200000 << src[0]) // half of 2^(e−127), which is subnormal for e = 0 and 1
		if e := uint32(src[0]); e >= 2 {
			d = math.Float32frombits((e - 1) << 23)
		}
		decodeLevels(dst, src[1:17], &twice, d)
	}
}

func decodeNVFP4(dst []float32, src []byte) {
	for ; len(dst) > 0; src = src[36:] {
		for j, x := range src[:4] {
			decodeLevels(dst, src[4+8*j:][:8], &twice, halfE4M3(x))
			dst = dst[16:]
		}
	}
}

// halfE4M3 returns half of an unsigned float of 4 bits of exponent, bias 7, and 3 of fraction; the top bit is not looked
// at. 0x7f stands for 0.
func halfE4M3(x byte) float32 {
	if x == 0x7f {
		return 0
	}
	exponent, fraction := int(x>>3&15), float64(x&7)
	if exponent == 0 {
		return float32(math.Ldexp(fraction, -10))
	}
	return float32(math.Ldexp(8+fraction, exponent-11))
}

// decodeLevels sets the first half of 2·len(codes) weights from the low halves of the bytes, the second from the high ones.
func decodeLevels(dst []float32, codes []byte, levels *[16]int8, d float32) {
	n := len(codes)
	for i, b := range codes {
		dst[i] = d * float32(levels[b&15])
		dst[i+n] = d * float32(levels[b>>4])
	}
}
