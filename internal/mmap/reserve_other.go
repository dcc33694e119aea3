//go:build !linux

package mmap

import "os"

// Reserve makes an empty file size bytes long.
func Reserve(f *os.File, size int64) error { return f.Truncate(size) }
