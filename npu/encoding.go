package npu

import (
	"fmt"
	"math"
)

// DType is the type in which a quantized tensor is stored.
type DType uint8

// The types.
const (
	Uint8 DType = iota
	Uint16
	Int4
	Int8
	Int16
)

// limits are the smallest and the largest value of a type.
func (d DType) limits() (lo, hi float32) {
	switch d {
	case Uint8:
		return 0, 255
	case Uint16:
		return 0, 65535
	case Int4:
		return -8, 7
	case Int8:
		return -128, 127
	}
	return -32768, 32767
}

// Bits is the size of an element.
func (d DType) Bits() int {
	switch d {
	case Int4:
		return 4
	case Uint8, Int8:
		return 8
	}
	return 16
}

// String is the name of the type, as AIMET's encodings spell it too.
func (d DType) String() string { return [...]string{"uint8", "uint16", "int4", "int8", "int16"}[d] }

// Encoding is the grid of a tensor: the code q of a value x is saturate(round(x/Scale) + Zero), ties to even, and stands for
// (q - Zero)·Scale. All arithmetic is float32, as in ONNX Runtime.
type Encoding struct {
	Type  DType
	Scale float32
	Zero  int32
}

// leastRange is the narrowest range that a tensor gets.
const leastRange = 1e-4

// Asymmetric is the grid of a range, which is widened to hold 0.
func Asymmetric(d DType, lo, hi float64) Encoding {
	lo, hi = min(lo, 0), max(hi, 0)
	if hi-lo < leastRange {
		hi = lo + leastRange
	}
	least, most := d.limits()
	steps := float64(most) - float64(least)
	scale := (hi - lo) / steps
	return Encoding{d, float32(scale), int32(min(max(math.RoundToEven(float64(least)-lo/scale), float64(least)), float64(most)))}
}

// Symmetric is the grid of -most to most. That of unsigned types has its zero in the middle.
func Symmetric(d DType, most float64) Encoding {
	most = max(most, leastRange/2)
	lo, hi := d.limits()
	zero := int32(0)
	if lo == 0 {
		zero = int32(hi+1) / 2
	}
	return Encoding{d, float32(most / float64(int32(hi)-zero)), zero}
}

// Range returns the values that the ends of the grid stand for.
func (e Encoding) Range() (lo, hi float32) {
	least, most := e.Type.limits()
	return float32((least - float32(e.Zero)) * e.Scale), float32((most - float32(e.Zero)) * e.Scale)
}

// Code is the code of a value.
func (e Encoding) Code(x float32) int32 {
	lo, hi := e.Type.limits()
	q := float32(math.RoundToEven(float64(x/e.Scale))) + float32(e.Zero)
	return int32(min(max(q, lo), hi))
}

// magic added to a float32 of magnitude below 2^22 and taken away again rounds it to an integer, ties to even.
const magic = 3 << 22

// Round replaces values by what their codes stand for.
func (e Encoding) Round(x []float32) {
	lo, hi := e.Type.limits()
	zero := float32(e.Zero)
	lo, hi = lo-zero, hi-zero
	for i, v := range x {
		q := min(max(v/e.Scale, lo-1), hi+1)
		q = min(max((q+magic)-magic, lo), hi)
		x[i] = q * e.Scale
	}
}

// String states type, scale and zero point.
func (e Encoding) String() string { return fmt.Sprintf("%s scale %g zero %d", e.Type, e.Scale, e.Zero) }

// fixed is the grid of a class that has one.
func fixed(c valueClass, d DType) Encoding {
	steps := float64(int(1) << d.Bits())
	switch c {
	case signedGrid:
		return Encoding{d, float32(2 / steps), int32(steps / 2)}
	case shareGrid:
		return Encoding{d, float32(1 / (steps - 1)), 0}
	}
	return Encoding{d, float32(1 / steps), 0}
}

// channel is the grid of an output channel, whose weights are at most most: symmetric, without the lowest code.
func channel(bits int, most float32) float32 {
	if most == 0 {
		return 1
	}
	return float32(float64(most) / float64(int(1)<<(bits-1)-1))
}

// roundChannel replaces a channel's weights by what their codes stand for, and stores the codes where they are wanted.
func roundChannel(dst []float32, codes []int16, w []float32, bits int) (scale float32) {
	var most float32
	for _, x := range w {
		most = max(most, x, -x)
	}
	scale = channel(bits, most)
	hi := float32(int(1)<<(bits-1) - 1)
	for i, x := range w {
		q := min(max((x/scale+magic)-magic, -hi), hi)
		dst[i] = q * scale
		if codes != nil {
			codes[i] = int16(q)
		}
	}
	return scale
}
