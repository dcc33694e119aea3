//go:build unix

package stage

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lock takes the lock of an unfinished folder; it is held until the file is closed or the process ends.
func lock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s is %w", dir, ErrInUse)
	}
	return f, nil
}

// lockFile takes the lock of an open file, if nobody has it.
func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// keepLock keeps the lock of a file when that is closed, until the function that it returns is called.
func keepLock(f *os.File) func() {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return func() {}
	}
	return func() { unix.Close(fd) }
}

// Free returns the bytes that an unprivileged process can still write below dir, which may not exist yet.
func Free(dir string) (int64, error) {
	var s unix.Statfs_t
	for {
		err := unix.Statfs(dir, &s)
		if err == nil {
			return int64(s.Bavail) * int64(s.Bsize), nil
		}
		parent := filepath.Dir(filepath.Clean(dir))
		if err != unix.ENOENT || parent == dir {
			return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
		}
		dir = parent
	}
}
