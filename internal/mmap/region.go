// Package mmap takes memory outside the heap, of its own or from files that the system may move it to.
package mmap

import (
	"unsafe"

	"nibble/internal/stage"
)

// Region is a file that is mapped for reading and writing: memory that the system may move to disk.
type Region struct {
	file *stage.File
	data []byte
}

// Bytes returns the content.
func (r *Region) Bytes() []byte { return r.data }

// Floats returns the content as float32 in the machine's order, for a size that is a multiple of 4.
func (r *Region) Floats() []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(r.data))), len(r.data)/4)
}
