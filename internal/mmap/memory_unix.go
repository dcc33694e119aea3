//go:build unix

package mmap

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Memory returns n bytes of zeros that the garbage collector does not know, in pages as large as the system has where it
// lets a program ask. Free gives them back.
func Memory(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("mmap: %d bytes of memory: %w", n, err)
	}
	hugePages(b)
	return b, nil
}

// Free gives memory back, which must not be touched any more.
func Free(b []byte) error { return unix.Munmap(b) }
