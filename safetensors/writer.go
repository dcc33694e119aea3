package safetensors

import (
	"fmt"

	"nibble/internal/slots"
)

// Writer stores the data of a [Plan] in its files, in any order. WriteAt and ReadAt may be called from several
// goroutines.
type Writer struct{ w *slots.Writer }

// Create creates the files of the plan in the folder dir, writes their headers and reserves their space, so that a disk
// that is too small fails here where the system allows that. A file that exists already is an error that wraps
// [fs.ErrExist]. After an error no file of this call is left.
func Create(dir string, p *Plan) (*Writer, error) { return newWriter(slots.Create(dir, p.slots())) }

// Reopen opens the files of a plan that [Create] made earlier, with what was written to them. A file that is missing,
// or has another size or header than the plan, is an error.
func Reopen(dir string, p *Plan) (*Writer, error) { return newWriter(slots.Reopen(dir, p.slots())) }

func newWriter(w *slots.Writer, err error) (*Writer, error) {
	if err != nil {
		return nil, wrap(err)
	}
	return &Writer{w}, nil
}

// slots is the plan as its files are written.
func (p *Plan) slots() []slots.File {
	files := make([]slots.File, len(p.Files))
	for i, f := range p.Files {
		files[i] = slots.File{Name: f.Name, Header: f.Header, Size: f.Size}
		for _, t := range f.Tensors {
			files[i].Slots = append(files[i].Slots, slots.Slot{Name: t.Name, Begin: int64(len(f.Header)) + t.Begin, Size: t.Bytes()})
		}
	}
	return files
}

// WriteAt stores p at byte off of the tensor called name. A range outside the tensor is an error, and nothing is
// written.
func (w *Writer) WriteAt(name string, p []byte, off int64) error {
	return wrap(w.w.WriteAt(name, p, off))
}

// ReadAt fills p from byte off of the tensor called name. What was not written yet is zero.
func (w *Writer) ReadAt(name string, p []byte, off int64) error {
	return wrap(w.w.ReadAt(name, p, off))
}

// Sync makes the disk hold what was written so far. It does not cover the folder's list of files.
func (w *Writer) Sync() error { return wrap(w.w.Sync()) }

// Close closes the files.
func (w *Writer) Close() error { return wrap(w.w.Close()) }

// wrap says where an error comes from.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("safetensors: %w", err)
}
