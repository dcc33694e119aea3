package gguf

import (
	"math"

	"nibble/gguf/block"
)

// Tensor is one tensor of a file.
type Tensor struct {
	Name   string
	Type   block.Type
	Shape  []int // the last dimension is that of a row; empty for a single element
	Offset int64 // of the first byte, from the start of the file
	Bytes  int64
}

// Elements returns the product of the shape, 1 for none.
func (t Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n
}

// sizeOf returns the bytes of a tensor of a known type, or what is wrong with its shape, of no negative dimension.
func sizeOf(t block.Type, shape []int) (size int64, wrong string) {
	n, empty := int64(1), false
	for _, d := range shape {
		if d == 0 { // which hides no overflow
			empty = true
			continue
		}
		if n > math.MaxInt64/int64(d) {
			return 0, "the number of elements overflows"
		}
		n *= int64(d)
	}
	row := 1
	if len(shape) > 0 {
		row = shape[len(shape)-1]
	}
	if row%t.Size() != 0 {
		return 0, "rows are not whole blocks"
	}
	if n /= int64(t.Size()); n > math.MaxInt64/int64(t.Bytes()) {
		return 0, "the number of bytes overflows"
	}
	if empty {
		return 0, ""
	}
	return n * int64(t.Bytes()), ""
}

// roundUp returns the least multiple of an alignment from n on, for n small enough.
func roundUp(n, alignment int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }
