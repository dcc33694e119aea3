//go:build !unix

package mmap

import (
	"errors"
	"fmt"
	"io"
	"os"

	"nibble/internal/stage"
)

// Create makes a file of size zero bytes and keeps its content in memory until Sync or Close.
func Create(path string, size int64) (*Region, error) {
	f, err := stage.OpenFile(path, os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(size); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Region{f, make([]byte, size)}, nil
}

// Reopen reads a file that Create made with the same size.
func Reopen(path string, size int64) (*Region, error) {
	f, err := stage.OpenFile(path, 0)
	if err != nil {
		return nil, err
	}
	r := &Region{f, make([]byte, size)}
	info, err := f.Stat()
	if err == nil && info.Size() != size {
		err = fmt.Errorf("mmap: %s has %d bytes, want %d", path, info.Size(), size)
	}
	if err == nil {
		_, err = io.ReadFull(f, r.data)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

// Sync writes the content to the file.
func (r *Region) Sync() error {
	if _, err := r.file.WriteAt(r.data, 0); err != nil {
		return err
	}
	return r.file.Sync()
}

// Close writes the content and closes the file.
func (r *Region) Close() error { return errors.Join(r.Sync(), r.file.Close()) }
