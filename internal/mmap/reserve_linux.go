package mmap

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Reserve makes an empty file size bytes long and claims the space for it. On a file system that cannot claim space
// ahead, the file is only made longer.
func Reserve(f *os.File, size int64) error {
	if size == 0 {
		return nil
	}
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return f.Truncate(size)
		}
		return err
	}
}
