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

// Whole is a file that appears whole or not at all. It is written as .NAME.partial beside its place, which holds a lock; one that a
// killed run left is removed.
type Whole struct {
	*File
	path string
}

// CreateWhole begins a file, which takes the place of what is there. Commit or Abort ends it.
func CreateWhole(path string) (*Whole, error) {
	f, err := createLocked(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+Suffix))
	if err != nil {
		return nil, err
	}
	return &Whole{f, path}, nil
}

// Commit gives the file its name. After an error there is none.
func (w *Whole) Commit() error {
	defer keepLock(w.file)() // until it has its name: without a lock another run would take it for left over
	err := w.Sync()
	if e := w.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = rename(w.Name(), w.path)
	}
	if err != nil {
		return errors.Join(err, w.discard())
	}
	return syncPath(filepath.Dir(w.path))
}

// Abort removes the file.
func (w *Whole) Abort() error { return errors.Join(w.Close(), w.discard()) }

func (w *Whole) discard() error {
	if err := Discard(w.Name()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// WriteWhole makes a file appear whole or not at all.
func WriteWhole(path string, fill func(io.Writer) error) error {
	w, err := CreateWhole(path)
	if err != nil {
		return err
	}
	if err := fill(w); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Commit()
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
