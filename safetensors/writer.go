package safetensors

import (
	"bytes"
	"errors"
	"fmt"
	"nibble/internal/mmap"
	"os"
	"path/filepath"
)

// Writer stores the data of a [Plan] in its files, in any order. WriteAt and ReadAt may be called from several
// goroutines.
type Writer struct {
	files []*os.File
	at    map[string]slot
}

// slot is the place of a tensor on disk.
type slot struct {
	file        *os.File
	begin, size int64 // bytes of the file
}

// Create creates the files of the plan in the folder dir, writes their headers and reserves their space, so that a disk
// that is too small fails here where the system allows that. A file that exists already is an error that wraps
// [fs.ErrExist]. After an error no file of this call is left.
func Create(dir string, p *Plan) (*Writer, error) {
	w := &Writer{at: map[string]slot{}}
	for i := range p.Files {
		if err := w.create(dir, &p.Files[i]); err != nil {
			w.Close()
			for _, f := range w.files {
				os.Remove(f.Name())
			}
			return nil, fmt.Errorf("safetensors: %w", err)
		}
	}
	return w, nil
}

func (w *Writer) create(dir string, plan *PlanFile) error {
	f, err := os.OpenFile(filepath.Join(dir, plan.Name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	w.add(f, plan)
	if err := mmap.Reserve(f, plan.Size); err != nil {
		return fmt.Errorf("reserving %d bytes for %s: %w", plan.Size, f.Name(), err)
	}
	_, err = f.WriteAt(plan.Header, 0)
	return err
}

// Reopen opens the files of a plan that [Create] made earlier, with what was written to them. A file that is missing,
// or has another size or header than the plan, is an error.
func Reopen(dir string, p *Plan) (*Writer, error) {
	w := &Writer{at: map[string]slot{}}
	for i := range p.Files {
		if err := w.reopen(dir, &p.Files[i]); err != nil {
			w.Close()
			return nil, fmt.Errorf("safetensors: %w", err)
		}
	}
	return w, nil
}

func (w *Writer) reopen(dir string, plan *PlanFile) error {
	f, err := os.OpenFile(filepath.Join(dir, plan.Name), os.O_RDWR, 0)
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
	if err := readFull(f, header, 0); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	if !bytes.Equal(header, plan.Header) {
		return fmt.Errorf("%s: the header is not the plan's", f.Name())
	}
	return nil
}

func (w *Writer) add(f *os.File, plan *PlanFile) {
	w.files = append(w.files, f)
	for _, t := range plan.Tensors {
		w.at[t.Name] = slot{f, int64(len(plan.Header)) + t.Begin, t.Bytes()}
	}
}

// WriteAt stores p at byte off of the tensor called name. A range outside the tensor is an error, and nothing is
// written.
func (w *Writer) WriteAt(name string, p []byte, off int64) error {
	return w.access(name, p, off, func(s slot) error {
		_, err := s.file.WriteAt(p, s.begin+off)
		return err
	})
}

// ReadAt fills p from byte off of the tensor called name. What was not written yet is zero.
func (w *Writer) ReadAt(name string, p []byte, off int64) error {
	return w.access(name, p, off, func(s slot) error { return readFull(s.file, p, s.begin+off) })
}

func (w *Writer) access(name string, p []byte, off int64, do func(slot) error) error {
	s, ok := w.at[name]
	err := errors.New("not in the plan")
	if ok {
		err = checkRange(s.size, off, len(p))
	}
	if err == nil {
		err = do(s)
	}
	if err != nil {
		return fmt.Errorf("safetensors: tensor %q: %w", name, err)
	}
	return nil
}

// Sync makes the disk hold what was written so far. It does not cover the folder's list of files.
func (w *Writer) Sync() error { return w.each((*os.File).Sync) }

// Close closes the files.
func (w *Writer) Close() error { return w.each((*os.File).Close) }

// each calls do for all files, also after an error.
func (w *Writer) each(do func(*os.File) error) error {
	var errs []error
	for _, f := range w.files {
		if err := do(f); err != nil {
			errs = append(errs, fmt.Errorf("safetensors: %w", err))
		}
	}
	return errors.Join(errs...)
}
