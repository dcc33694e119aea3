//go:build unix

package mmap

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"nibble/internal/stage"
)

// Create makes a file of size zero bytes, for which the disk has room, and maps it for reading and writing.
func Create(path string, size int64) (*Region, error) {
	f, err := stage.OpenFile(path, os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, err
	}
	claimed, err := f.Reserve(size)
	if err == nil && !claimed {
		err = fill(f, size)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mmap: %w", err), f.Close(), os.Remove(path))
	}
	return mapRegion(f, size)
}

// Reopen maps a file that Create made with the same size.
func Reopen(path string, size int64) (*Region, error) {
	f, err := stage.OpenFile(path, 0)
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

// fill writes zeros where space cannot be claimed: a page for which the disk has no room would end the program when it is
// first written to.
func fill(f *stage.File, size int64) error {
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return err
		}
	}
	return nil
}

func mapRegion(f *stage.File, size int64) (*Region, error) {
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
	if err := unix.Msync(r.data, unix.MS_SYNC); err != nil {
		return err
	}
	return r.file.Sync()
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
