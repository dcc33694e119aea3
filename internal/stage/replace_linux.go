package stage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// replace gives the folder tmp the name final in one step, and removes what had it before.
func replace(tmp, final string) error {
	if _, err := fault(Rename, final, 0); err != nil {
		return err
	}
	err := unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, final, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // a file system that cannot
		return replaceInTwo(tmp, final)
	}
	if err != nil {
		return &os.LinkError{Op: "exchange", Old: tmp, New: final, Err: err}
	}
	return os.RemoveAll(tmp)
}
