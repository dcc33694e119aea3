package stage

import (
	"fmt"
	"io/fs"
	"os"
)

// Op is a step that changes the disk.
type Op string

// The steps.
const (
	Create  Op = "create"  // or open for writing
	Reserve Op = "reserve" // space
	Write   Op = "write"
	Sync    Op = "sync" // of a file or a folder
	Close   Op = "close"
	Rename  Op = "rename"
	Remove  Op = "remove"
)

// Fault, which only tests set, is asked before every step of an output. With an error the step fails; of the size bytes of a
// write the first n are written all the same. Every file of every output is made through this package, so that there is no
// other place where a disk can fail.
var Fault func(op Op, path string, size int) (n int, err error)

// fault is Fault, if there is one, with the error as the system would word it.
func fault(op Op, path string, size int) (int, error) {
	if Fault == nil {
		return 0, nil
	}
	n, err := Fault(op, path, size)
	if err != nil {
		err = &fs.PathError{Op: string(op), Path: path, Err: err}
	}
	return n, err
}

// File is a file of an output, open for reading and writing.
type File struct{ file *os.File }

// OpenFile opens a file for reading and writing. flag is what [os.OpenFile] takes besides O_RDWR. A file that is made has the
// permissions that the umask leaves.
func OpenFile(path string, flag int) (*File, error) {
	if _, err := fault(Create, path, 0); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|flag, 0o666)
	if err != nil {
		return nil, err
	}
	return &File{f}, nil
}

// WriteFile makes a file with this content. What was there before is gone.
func WriteFile(path string, raw []byte) error {
	f, err := OpenFile(path, os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	if _, err := f.Write(raw); err != nil {
		f.file.Close()
		return err
	}
	return f.Close()
}

// Discard removes a file.
func Discard(path string) error {
	if _, err := fault(Remove, path, 0); err != nil {
		return err
	}
	return os.Remove(path)
}

// Name returns the path.
func (f *File) Name() string { return f.file.Name() }

// Fd returns the descriptor, to map the file.
func (f *File) Fd() uintptr { return f.file.Fd() }

// Stat describes the file.
func (f *File) Stat() (fs.FileInfo, error) { return f.file.Stat() }

// Read is that of [os.File].
func (f *File) Read(p []byte) (int, error) { return f.file.Read(p) }

// ReadAt is that of [os.File].
func (f *File) ReadAt(p []byte, off int64) (int, error) { return f.file.ReadAt(p, off) }

// Truncate cuts the file off.
func (f *File) Truncate(size int64) error {
	if _, err := fault(Write, f.Name(), 0); err != nil {
		return err
	}
	return f.file.Truncate(size)
}

// Reserve makes an empty file size bytes long and claims the space for it, as far as the file system can: claimed is false if
// writing may still find the disk full.
func (f *File) Reserve(size int64) (claimed bool, err error) {
	if _, err := fault(Reserve, f.Name(), 0); err != nil {
		return false, err
	}
	if claimed, err = reserve(f.file, size); err != nil {
		return false, fmt.Errorf("reserving %d bytes for %s: %w", size, f.Name(), err)
	}
	return claimed, nil
}

// Write is that of [os.File].
func (f *File) Write(p []byte) (int, error) {
	if n, err := fault(Write, f.Name(), len(p)); err != nil {
		_, _ = f.file.Write(p[:n])
		return n, err
	}
	return f.file.Write(p)
}

// WriteAt is that of [os.File].
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	if n, err := fault(Write, f.Name(), len(p)); err != nil {
		_, _ = f.file.WriteAt(p[:n], off)
		return n, err
	}
	return f.file.WriteAt(p, off)
}

// Sync is that of [os.File].
func (f *File) Sync() error {
	if _, err := fault(Sync, f.Name(), 0); err != nil {
		return err
	}
	return f.file.Sync()
}

// Close closes the file, also where it reports that what was written may be lost.
func (f *File) Close() error {
	_, err := fault(Close, f.Name(), 0)
	if e := f.file.Close(); err == nil {
		err = e
	}
	return err
}
