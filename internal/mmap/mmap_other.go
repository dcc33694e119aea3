//go:build !unix

package mmap

import (
	"errors"
	"fmt"
	"runtime"
)

// Open returns an error that wraps [errors.ErrUnsupported].
func Open(path string) (*File, error) {
	return nil, fmt.Errorf("mmap: %s: mapping files on %s: %w", path, runtime.GOOS, errors.ErrUnsupported)
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }
