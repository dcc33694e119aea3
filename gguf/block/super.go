package block

import (
	"encoding/binary"
	"math"

	"nibble/internal/kernel"
)

func decodeQ2_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[256:], src[84:] {
		d, dmin := getF16(src[80:]), getF16(src[82:])
		for j, s := range src[:16] { // weights 16j to 16j+15
			scale, least := d*float32(s&15), float32(dmin*float32(s>>4))
			codes, shift := src[16+j/8*32+j%2*16:][:16], j%8/2*2
			for i, b := range codes {
				dst[16*j+i] = float32(scale*float32(b>>shift&3)) - least
			}
		}
	}
}

func decodeQ3_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[256:], src[110:] {
		d, scales := getF16(src[108:]), src[96:108]
		for j := range 16 {
			s := scales[j%8]>>(j/8*4)&15 | scales[8+j%4]>>(j/4*2)&3<<4
			scale := d * float32(int(s)-32)
			high, low := src[j%2*16:][:16], src[32+j/8*32+j%2*16:][:16]
			for i, b := range low {
				dst[16*j+i] = scale * float32(int(b>>(j%8/2*2)&3)+int(high[i]>>(j/2)&1<<2)-4)
			}
		}
	}
}

// scaleMin returns sc[j] and mn[j] of the 12 bytes of scales of Q4_K and Q5_K.
func scaleMin(p []byte, j int) (sc, mn uint8) {
	if j < 4 {
		return p[j] & 63, p[j+4] & 63
	}
	return p[j+4]&15 | p[j-4]>>6<<4, p[j+4]>>4 | p[j]>>6<<4
}

func decodeQ4_K(dst []float32, src []byte) {
	var codes [256]uint8
	for ; len(dst) > 0; dst, src = dst[256:], src[144:] {
		codesQ4_K(codes[:], src)
		decodeRanges(dst, src, &codes)
	}
}

func decodeQ5_K(dst []float32, src []byte) {
	var codes [256]uint8
	for ; len(dst) > 0; dst, src = dst[256:], src[176:] {
		codesQ5_K(codes[:], src)
		decodeRanges(dst, src, &codes)
	}
}

// decodeRanges sets 256 weights of Q4_K or Q5_K.
func decodeRanges(dst []float32, src []byte, codes *[256]uint8) {
	d, dmin := getF16(src), getF16(src[2:])
	for j := range 8 {
		sc, mn := scaleMin(src[4:16], j)
		kernel.Expand(dst[32*j:][:32], codes[32*j:], d*float32(sc), 0, -float32(dmin*float32(mn)))
	}
}

func decodeQ6_K(dst []float32, src []byte) {
	nothing := float32(math.Copysign(0, -1)) // keeps products of −0
	var codes [256]uint8
	for ; len(dst) > 0; dst, src = dst[256:], src[210:] {
		codesQ6_K(codes[:], src)
		d := getF16(src[208:])
		for j, s := range src[192:208] {
			kernel.Expand(dst[16*j:][:16], codes[16*j:], d*float32(int8(s)), 32, nothing)
		}
	}
}

func decodeIQ4_XS(dst []float32, src []byte) {
	for ; len(dst) > 0; src = src[136:] {
		d := getF16(src)
		for j := range 8 {
			decodeLevels(dst, src[8+16*j:][:16], &levels, d*float32(scaleIQ4_XS(src, j)))
			dst = dst[32:]
		}
	}
}

// scaleIQ4_XS returns sc[j] of a block of IQ4_XS.
func scaleIQ4_XS(src []byte, j int) int8 {
	high := binary.LittleEndian.Uint16(src[2:])
	return int8(src[4+j/2]>>(j%2*4)&15|uint8(high>>(2*j)&3)<<4) - 32
}

func decodeQ8_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[256:], src[292:] {
		d := math.Float32frombits(binary.LittleEndian.Uint32(src))
		for i, q := range src[4:260] {
			dst[i] = d * float32(int8(q))
		}
	}
}

// powers of three, with which a digit moves to the top of a byte.
var powers = [5]uint8{1, 3, 9, 27, 81}

func decodeTQ1_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[256:], src[54:] {
		d := getF16(src[52:])
		digits := func(dst []float32, src []byte, count int) {
			for n, power := range powers[:count] {
				for i, b := range src {
					dst[n*len(src)+i] = d * float32(int(uint16(b*power)*3>>8)-1)
				}
			}
		}
		digits(dst, src[:32], 5)
		digits(dst[160:], src[32:48], 5)
		digits(dst[240:], src[48:52], 4)
	}
}

func decodeTQ2_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[256:], src[66:] {
		d := getF16(src[64:])
		for i := range 256 {
			dst[i] = d * float32(int(src[i/128*32+i%32]>>(i%128/32*2)&3)-1)
		}
	}
}
