package quant

import "nibble/internal/kernel"

// Codes are stored as a little-endian bit stream: code i of a run occupies bits i·width to (i+1)·width−1, bit 0 being the
// lowest bit of the first byte. Every packed layout is built of such streams; they differ in what runs along a stream
// and in how its 32-bit words are arranged. At 3, 5, 6 and 7 bits a code may straddle two words.

// StreamBytes returns the length of a stream of n codes in whole 32-bit words.
func StreamBytes(n, width int) int { return (n*width + 31) / 32 * 4 }

// PackBits stores codes of width bits as a stream in dst and fills what is left of dst with zeros.
func PackBits(dst []byte, codes []uint8, width int) {
	switch width {
	case 4:
		n := len(codes) / 2
		kernel.JoinNibbles(dst, codes[:2*n])
		if len(codes)%2 == 1 {
			dst[n] = codes[2*n]
			n++
		}
		clear(dst[n:])
	case 8:
		clear(dst[copy(dst, codes):])
	default:
		var acc uint32
		have, n := 0, 0
		for _, q := range codes {
			acc |= uint32(q) << have
			for have += width; have >= 8; have -= 8 {
				dst[n] = byte(acc)
				acc >>= 8
				n++
			}
		}
		if have > 0 {
			dst[n] = byte(acc)
			n++
		}
		clear(dst[n:])
	}
}

// UnpackBits is the inverse of PackBits: it reads len(codes) codes of width bits from src.
func UnpackBits(codes []uint8, src []byte, width int) {
	switch width {
	case 4:
		n := len(codes) / 2
		kernel.SplitNibbles(codes[:2*n], src)
		if len(codes)%2 == 1 {
			codes[2*n] = src[n] & 15
		}
	case 8:
		copy(codes, src[:len(codes)])
	default:
		var acc uint32
		have, n := 0, 0
		mask := uint8(1<<width - 1)
		for i := range codes {
			for ; have < width; have += 8 {
				acc |= uint32(src[n]) << have
				n++
			}
			codes[i] = uint8(acc) & mask
			acc >>= width
			have -= width
		}
	}
}

// ZeroStreams packs the zero points of m along its rows, one stream for each group, and returns the streams one behind
// the other, each in StreamBytes(m.N, m.Bits) bytes. The zero points of a symmetric grid are all Mid.
func (m *Matrix) ZeroStreams() []byte {
	groups, size := m.Groups(), StreamBytes(m.N, m.Bits)
	p := make([]byte, groups*size)
	column := make([]uint8, m.N)
	for g := range groups {
		for n := range column {
			column[n] = uint8(m.Mid())
			if m.Zero == Integer {
				column[n] = m.Zeros[n*groups+g]
			}
		}
		PackBits(p[g*size:(g+1)*size], column, m.Bits)
	}
	return p
}

// SetZeroStreams is the inverse of ZeroStreams for an integer zero.
func (m *Matrix) SetZeroStreams(p []byte) {
	groups, size := m.Groups(), StreamBytes(m.N, m.Bits)
	column := make([]uint8, m.N)
	for g := range groups {
		UnpackBits(column, p[g*size:(g+1)*size], m.Bits)
		for n, z := range column {
			m.Zeros[n*groups+g] = z
		}
	}
}
