// Package slots reads and writes named byte ranges of files whose layout is known in advance, in any order.
package slots

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"nibble/internal/stage"
)

// File is the layout of a file that is to be written.
type File struct {
	Name   string
	Header []byte // what the file begins with
	Size   int64  // of the whole file
	Slots  []Slot
}

// Slot is a range of bytes of a file.
type Slot struct {
	Name        string
	Begin, Size int64 // Begin counts from the start of the file
}

// Writer stores data in the slots of files. WriteAt and ReadAt may be called from several goroutines.
type Writer struct {
	files []*stage.File
	at    map[string]place
}

type place struct {
	file *stage.File
	Slot
}

// Create creates files in the folder dir, writes their headers and reserves their space, so that a disk that is too small
// fails here where the system allows that. A file that exists already is an error that wraps [fs.ErrExist]. After an error
// no file of this call is left.
func Create(dir string, files []File) (*Writer, error) {
	w := &Writer{at: map[string]place{}}
	for i := range files {
		if err := w.create(dir, &files[i]); err != nil {
			w.Close()
			for _, f := range w.files {
				os.Remove(f.Name())
			}
			return nil, err
		}
	}
	return w, nil
}

func (w *Writer) create(dir string, plan *File) error {
	f, err := stage.OpenFile(filepath.Join(dir, plan.Name), os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	w.add(f, plan)
	if _, err := f.Reserve(plan.Size); err != nil {
		return err
	}
	_, err = f.WriteAt(plan.Header, 0)
	return err
}

// Reopen opens files that [Create] made earlier, with what was written to them. A file that is missing, or has another
// size or header than planned, is an error.
func Reopen(dir string, files []File) (*Writer, error) {
	w := &Writer{at: map[string]place{}}
	for i := range files {
		if err := w.reopen(dir, &files[i]); err != nil {
			w.Close()
			return nil, err
		}
	}
	return w, nil
}

func (w *Writer) reopen(dir string, plan *File) error {
	f, err := stage.OpenFile(filepath.Join(dir, plan.Name), 0)
	if err != nil {
		return err
	}
	w.add(f, plan)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != plan.Size {
		return fmt.Errorf("%s: the file has %d bytes, the plan %d", f.Name(), info.Size(), plan.Size)
	}
	header := make([]byte, len(plan.Header))
	if err := ReadFull(f, header, 0); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	if !bytes.Equal(header, plan.Header) {
		return fmt.Errorf("%s: the header is not the plan's", f.Name())
	}
	return nil
}

func (w *Writer) add(f *stage.File, plan *File) {
	w.files = append(w.files, f)
	for _, s := range plan.Slots {
		w.at[s.Name] = place{f, s}
	}
}

// WriteAt stores p at byte off of a slot. A range outside the slot is an error, and nothing is written.
func (w *Writer) WriteAt(name string, p []byte, off int64) error {
	return w.access(name, p, off, func(at place) error {
		_, err := at.file.WriteAt(p, at.Begin+off)
		return err
	})
}

// ReadAt fills p from byte off of a slot. What was not written yet is zero.
func (w *Writer) ReadAt(name string, p []byte, off int64) error {
	return w.access(name, p, off, func(at place) error { return ReadFull(at.file, p, at.Begin+off) })
}

func (w *Writer) access(name string, p []byte, off int64, do func(place) error) error {
	at, ok := w.at[name]
	err := errors.New("not in the plan")
	if ok {
		err = CheckRange(at.Size, off, len(p))
	}
	if err == nil {
		err = do(at)
	}
	if err != nil {
		return fmt.Errorf("tensor %q: %w", name, err)
	}
	return nil
}

// Sync makes the disk hold what was written so far. It does not cover the folder's list of files.
func (w *Writer) Sync() error { return w.each((*stage.File).Sync) }

// Close closes the files.
func (w *Writer) Close() error { return w.each((*stage.File).Close) }

// each calls do for all files, also after an error.
func (w *Writer) each(do func(*stage.File) error) error {
	var errs []error
	for _, f := range w.files {
		errs = append(errs, do(f))
	}
	return errors.Join(errs...)
}

// CheckRange reports an error if n bytes from byte off are not all in a tensor of size bytes.
func CheckRange(size, off int64, n int) error {
	if off < 0 || off > size || int64(n) > size-off {
		return fmt.Errorf("%d bytes from byte %d are outside its %d bytes", n, off, size)
	}
	return nil
}

// ReadFull fills p from byte off of a file.
func ReadFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("reading %d bytes at byte %d of the file: %w", len(p), off, err)
}
