package gguf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"nibble/internal/mmap"
	"nibble/internal/slots"
)

// File is an open file. Its methods may be called from several goroutines, but for Close.
type File struct {
	name      string
	r         io.ReaderAt
	closer    io.Closer // nil if the caller owns r
	view      []byte    // the whole file, if it is mapped
	size      int64
	start     int64 // of the data
	version   uint32
	bigEndian bool
	alignment int64
	metadata  []Entry
	byKey     map[string]int // index into metadata
	tensors   []Tensor
	byName    map[string]int // index into tensors
}

// Open opens the file at path and checks what precedes the data. Tensors are read when they are asked for.
func Open(path string) (*File, error) {
	info, err := os.Stat(path) // before opening, which would wait for the writer of a pipe
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("gguf: %s: not a regular file", path)
	}
	r, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	return openFile(path, r)
}

// Map opens the file at path like [Open] and maps it into memory, so that View returns views of it. On systems where this
// package cannot map files it is the same as Open. Touching a view beyond the end of a file that was shortened meanwhile
// ends the program, or the goroutine after [runtime/debug.SetPanicOnFault]; ReadAt returns an error there.
func Map(path string) (*File, error) {
	m, err := mmap.Open(path)
	if errors.Is(err, errors.ErrUnsupported) {
		return Open(path)
	}
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	f, err := newFile(path, m, int64(len(m.Bytes())))
	if err != nil {
		m.Close()
		return nil, err
	}
	f.closer, f.view = m, m.Bytes()
	return f, nil
}

// New reads a file of size bytes from r, which the caller keeps open for as long as it uses the File.
func New(r io.ReaderAt, size int64) (*File, error) { return newFile("input", r, size) }

// openFile takes over r, an open file that can be read at any offset, and closes it if it cannot be used.
func openFile(name string, r fs.File) (*File, error) {
	f, err := statFile(name, r)
	if err != nil {
		r.Close()
		return nil, err
	}
	f.closer = r
	return f, nil
}

func statFile(name string, r fs.File) (*File, error) {
	at, ok := r.(io.ReaderAt)
	if !ok {
		return nil, fmt.Errorf("gguf: %s: its file system cannot read at an offset", name)
	}
	info, err := r.Stat()
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	return newFile(name, at, info.Size())
}

func newFile(name string, r io.ReaderAt, size int64) (*File, error) {
	f := &File{name: name, r: r, size: size, alignment: defaultAlignment, byKey: map[string]int{}, byName: map[string]int{}}
	if err := f.parseHeader(newCursor(r, name, size)); err != nil {
		return nil, err
	}
	return f, nil
}

// Metadata returns the entries in the order of the file. The slice belongs to the File.
func (f *File) Metadata() []Entry { return f.metadata }

// Value returns the value of a key of the metadata.
func (f *File) Value(key string) (any, bool) {
	i, ok := f.byKey[key]
	if !ok {
		return nil, false
	}
	return f.metadata[i].Value, true
}

// Tensors returns the tensors in the order of the file. The slice belongs to the File.
func (f *File) Tensors() []Tensor { return f.tensors }

// Lookup returns the tensor called name.
func (f *File) Lookup(name string) (Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

// Version returns the version of the format, 2 or 3.
func (f *File) Version() int { return int(f.version) }

// BigEndian reports whether the numbers of the data are big-endian; [block.Type.Swap] turns them around.
func (f *File) BigEndian() bool { return f.bigEndian }

// Alignment returns the number of bytes of which the offsets of tensors in the data are multiples.
func (f *File) Alignment() int64 { return f.alignment }

// DataStart returns the offset of the data in the file.
func (f *File) DataStart() int64 { return f.start }

// Size returns the size of the file in bytes when it was opened.
func (f *File) Size() int64 { return f.size }

// ReadAt fills p from byte off of the tensor. A range outside the tensor is an error, and if the file became shorter since
// it was opened the error wraps [io.ErrUnexpectedEOF].
func (f *File) ReadAt(t Tensor, p []byte, off int64) error {
	err := slots.CheckRange(t.Bytes, off, len(p))
	if !f.holds(t) {
		err = fmt.Errorf("%d bytes at byte %d are outside the %d bytes of the file", t.Bytes, t.Offset, f.size)
	}
	if err == nil {
		err = slots.ReadFull(f.r, p, t.Offset+off)
	}
	if err != nil {
		return fmt.Errorf("gguf: %s: tensor %q: %w", f.name, t.Name, err)
	}
	return nil
}

// View returns the bytes of the tensor in the mapped file, which must not be written to and are valid until Close. It
// returns nil if the file is not mapped.
func (f *File) View(t Tensor) []byte {
	if f.view == nil || !f.holds(t) {
		return nil
	}
	return f.view[t.Offset : t.Offset+t.Bytes : t.Offset+t.Bytes]
}

// holds reports whether the bytes of t are in the data, so that a tensor of another file does no harm.
func (f *File) holds(t Tensor) bool {
	return f.start <= t.Offset && t.Offset <= f.size && 0 <= t.Bytes && t.Bytes <= f.size-t.Offset
}

// Close closes the file, unless the caller owns it, and ends its views.
func (f *File) Close() error {
	f.view = nil
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}
