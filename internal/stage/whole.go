package stage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrInUse is another run that writes to the same place.
var ErrInUse = errors.New("in use by another run")

// WriteWhole makes a file appear whole or not at all. What was there before is replaced. It is written as .NAME.partial beside it,
// which holds a lock; one that a killed run left is removed.
func WriteWhole(path string, fill func(io.Writer) error) error {
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+Suffix)
	f, err := createLocked(tmp)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = rename(tmp, path)
	}
	if err != nil {
		if e := Discard(tmp); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
		return err
	}
	return syncPath(filepath.Dir(path))
}

// createLocked makes a file that is not there, removing one that nobody has locked, and locks it.
func createLocked(path string) (*File, error) {
	for range 10 {
		f, err := OpenFile(path, os.O_CREATE|os.O_EXCL)
		if errors.Is(err, fs.ErrExist) {
			if err = discardUnlocked(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		// Between its creation and its lock another run may have taken it for left over.
		if lockFile(f.file) == nil && isAt(f.file, path) {
			return f, nil
		}
		f.file.Close()
	}
	return nil, fmt.Errorf("%s is %w", path, ErrInUse)
}

// discardUnlocked removes a file that a run left.
func discardUnlocked(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is in the way, and no run of this program left it; move it away", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := lockFile(f); err != nil {
		return fmt.Errorf("%s is %w", path, ErrInUse)
	}
	if !isAt(f, path) {
		return nil // it has its name by now
	}
	return Discard(path)
}

// isAt reports whether an open file is the one at a path.
func isAt(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	at, err := os.Lstat(path)
	return err == nil && os.SameFile(open, at)
}
