// Package half converts between float32 and the two 16-bit float formats that checkpoints use.
//
// bfloat16 is the upper half of a float32: 1 sign bit, 8 exponent bits, 7 fraction bits. float16 is IEEE 754 binary16:
// 1, 5 and 10 bits, largest finite value 65504. Both conversions to 16 bits round to nearest, ties to even, as every
// framework does; a float32 beyond the range becomes an infinity, a NaN stays a (quiet) NaN.
//
// The bulk functions work on little-endian bytes, the form in which safetensors stores them.
package half

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/x448/float16"
)

// BF16 rounds f to bfloat16 and returns its 16 bits.
func BF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40 // keep sign and payload, force the quiet bit
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// FromBF16 widens 16 bits of bfloat16, exactly.
func FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F16 rounds f to float16 and returns its 16 bits.
func F16(f float32) uint16 { return float16.Fromfloat32(f).Bits() }

// FromF16 widens 16 bits of float16, exactly.
func FromF16(h uint16) float32 { return float16.Frombits(h).Float32() }

// RoundBF16 is FromBF16(BF16(f)).
func RoundBF16(f float32) float32 { return FromBF16(BF16(f)) }

// RoundF16 is FromF16(F16(f)).
func RoundF16(f float32) float32 { return FromF16(F16(f)) }

// DecodeBF16 widens len(dst) values: dst[i] = bf16(src[2i:2i+2]).
func DecodeBF16(dst []float32, src []byte) {
	src = src[:2*len(dst)]
	for len(dst) >= 4 { // a load of four values is twice as fast as four loads
		d, x := dst[:4], binary.LittleEndian.Uint64(src)
		d[0] = math.Float32frombits(uint32(x) << 16)
		d[1] = math.Float32frombits(uint32(x) & 0xffff0000)
		d[2] = math.Float32frombits(uint32(x>>32) << 16)
		d[3] = math.Float32frombits(uint32(x>>32) & 0xffff0000)
		dst, src = dst[4:], src[8:]
	}
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}

// DecodeF16 widens len(dst) values: dst[i] = f16(src[2i:2i+2]).
func DecodeF16(dst []float32, src []byte) {
	src = src[:2*len(dst)]
	for i := range dst {
		dst[i] = FromF16(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

// littleEndian says that floats lie in memory as they lie in files.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// bytesOf returns the memory of f.
func bytesOf(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}

// DecodeF32 reads len(dst) values: dst[i] = f32(src[4i:4i+4]).
func DecodeF32(dst []float32, src []byte) {
	src = src[:4*len(dst)]
	if littleEndian {
		copy(bytesOf(dst), src)
		return
	}
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

// EncodeBF16 rounds len(src) values into dst, two bytes each.
func EncodeBF16(dst []byte, src []float32) {
	dst = dst[:2*len(src)]
	for i, f := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], BF16(f))
	}
}

// EncodeF16 rounds len(src) values into dst, two bytes each.
func EncodeF16(dst []byte, src []float32) {
	dst = dst[:2*len(src)]
	for i, f := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], F16(f))
	}
}

// EncodeF32 stores len(src) values into dst, four bytes each.
func EncodeF32(dst []byte, src []float32) {
	dst = dst[:4*len(src)]
	if littleEndian {
		copy(dst, bytesOf(src))
		return
	}
	for i, f := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(f))
	}
}
