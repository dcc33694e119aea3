// Package source opens what containers of tensors are read from: regular files, by path or in a file system, or what a caller has
// open. Errors begin with the file's name.
package source

import (
	"fmt"
	"io"
	"io/fs"
	"os"

	"nibble/internal/slots"
)

// Source is bytes that can be read at any offset, by several goroutines, but for Close.
type Source struct {
	Name string
	Size int64 // when it was opened

	r      io.ReaderAt
	closer io.Closer // nil if the caller owns r
}

// New is a source of size bytes in r, which the caller keeps open for as long as it uses the source.
func New(r io.ReaderAt, size int64) *Source { return &Source{Name: "input", Size: size, r: r} }

// Open opens the file at path.
func Open(path string) (*Source, error) {
	return open(path, os.Stat, func(path string) (fs.File, error) { return os.Open(path) })
}

// OpenIn opens a file of a file system, which must be able to read at an offset.
func OpenIn(fsys fs.FS, name string) (*Source, error) {
	return open(name, func(name string) (fs.FileInfo, error) { return fs.Stat(fsys, name) }, fsys.Open)
}

func open(name string, stat func(string) (fs.FileInfo, error), open func(string) (fs.File, error)) (*Source, error) {
	info, err := stat(name) // before opening, which would wait for the writer of a pipe
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", name)
	}
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	r, ok := f.(io.ReaderAt)
	if !ok {
		f.Close()
		return nil, fmt.Errorf("%s: its file system cannot read at an offset", name)
	}
	if info, err = f.Stat(); err != nil {
		f.Close()
		return nil, err
	}
	return &Source{Name: name, Size: info.Size(), r: r, closer: f}, nil
}

// ReadAt reads at an offset of the file.
func (s *Source) ReadAt(p []byte, off int64) (int, error) { return s.r.ReadAt(p, off) }

// Read fills p from byte off of the size bytes that begin at byte at.
func (s *Source) Read(p []byte, at, size, off int64) error {
	if err := slots.CheckRange(size, off, len(p)); err != nil {
		return err
	}
	return slots.ReadFull(s.r, p, at+off)
}

// Close closes the file, unless the caller owns it.
func (s *Source) Close() error {
	if s.closer == nil {
		return nil
	}
	return s.closer.Close()
}
