package stage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve makes an empty file size bytes long and claims the space for it. On a file system that cannot claim space ahead,
// the file is only made longer, and claimed is false.
func reserve(f *os.File, size int64) (claimed bool, err error) {
	if size == 0 {
		return true, nil
	}
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return false, f.Truncate(size)
		}
		return true, err
	}
}
