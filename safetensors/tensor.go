package safetensors

import "math"

// Tensor is one tensor of a file. Its bytes are [Begin, End) of the file's data section.
type Tensor struct {
	Name       string
	DType      DType
	Shape      []int // empty for a scalar
	Begin, End int64
}

// Bytes returns the number of bytes the tensor occupies.
func (t Tensor) Bytes() int64 { return t.End - t.Begin }

// Elements returns the product of the shape, 1 for a scalar.
func (t Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n
}

// sizeOf returns the number of bytes of a tensor, or the rule that its shape, of no negative dimension, breaks. The
// reference multiplies from left to right and rejects an overflow even if a later dimension is 0; so does this.
func sizeOf(d DType, shape []int) (int64, Kind) {
	bits := int64(1)
	for _, n := range shape {
		if n > 0 && bits > math.MaxInt64/int64(n) {
			return 0, ValidationOverflow
		}
		bits *= int64(n)
	}
	if bits > math.MaxInt64/int64(d.Bits()) {
		return 0, ValidationOverflow
	}
	bits *= int64(d.Bits())
	if bits%8 != 0 {
		return 0, MisalignedSlice
	}
	return bits / 8, ""
}
