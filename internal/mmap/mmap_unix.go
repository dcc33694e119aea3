//go:build unix

package mmap

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// Open maps the regular file at path. A file larger than the address space is an error that wraps
// [errors.ErrUnsupported].
func Open(path string) (*File, error) {
	info, err := os.Stat(path) // before opening, which would wait for the writer of a pipe
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("mmap: %s: not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := mapFile(file)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("mmap: %s: %w", path, err)
	}
	return &File{file, data}, nil
}

func mapFile(file *os.File) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size == 0 {
		return nil, nil // the system refuses mappings of no bytes
	}
	if size > math.MaxInt {
		return nil, fmt.Errorf("%d bytes exceed the address space: %w", size, errors.ErrUnsupported)
	}
	return unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
}

// Close removes the mapping and closes the file.
func (f *File) Close() error {
	var err error
	if f.data != nil {
		err = unix.Munmap(f.data)
		f.data = nil
	}
	return errors.Join(err, f.file.Close())
}
