//go:build unix

package mmap

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Create makes a file of size zero bytes, for which the disk has room, and maps it for reading and writing.
func Create(path string, size int64) (*Region, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	if err := Reserve(f, size); err != nil {
		return nil, errors.Join(fmt.Errorf("mmap: %s: %d bytes: %w", path, size, err), f.Close(), os.Remove(path))
	}
	return mapRegion(f, size)
}

// Reopen maps a file that Create made with the same size.
func Reopen(path string, size int64) (*Region, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() != size {
		err = fmt.Errorf("mmap: %s has %d bytes, want %d", path, info.Size(), size)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return mapRegion(f, size)
}

func mapRegion(f *os.File, size int64) (*Region, error) {
	if size == 0 {
		return &Region{file: f}, nil
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mmap: %s: %w", f.Name(), err), f.Close())
	}
	return &Region{f, data}, nil
}

// Sync waits until the disk has what was written.
func (r *Region) Sync() error {
	if r.data == nil {
		return nil
	}
	return unix.Msync(r.data, unix.MS_SYNC)
}

// Close removes the mapping. The file stays.
func (r *Region) Close() error {
	var err error
	if r.data != nil {
		err = unix.Munmap(r.data)
		r.data = nil
	}
	return errors.Join(err, r.file.Close())
}
