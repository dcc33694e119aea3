// Package mmap maps files into memory, and takes memory outside the heap.
package mmap

import "os"

// File is a file mapped into memory.
type File struct {
	file *os.File
	data []byte // nil for an empty file
}

// Bytes returns the whole file, as long as it was when it was opened. The bytes must not be written to, and not be
// touched after Close. If the file became shorter meanwhile, touching what it lost ends the program,
// unless [runtime/debug.SetPanicOnFault] makes a panic of it.
func (f *File) Bytes() []byte { return f.data }

// ReadAt reads from the file itself and not from the mapping, so a file that became shorter is an error.
func (f *File) ReadAt(p []byte, off int64) (int, error) { return f.file.ReadAt(p, off) }
