package gguf

import (
	"fmt"
	"io"

	"nibble/internal/source"
)

// File is an open file. Its methods may be called from several goroutines, but for Close.
type File struct {
	in        *source.Source
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
func Open(path string) (*File, error) { return parse(source.Open(path)) }

// New reads a file of size bytes from r, which the caller keeps open for as long as it uses the File.
func New(r io.ReaderAt, size int64) (*File, error) { return parse(source.New(r, size), nil) }

// parse takes over a source, and closes it if it is no file of the format.
func parse(in *source.Source, err error) (*File, error) {
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	f := &File{in: in, alignment: Alignment, byKey: map[string]int{}, byName: map[string]int{}}
	if err := f.parseHeader(newCursor(in)); err != nil {
		in.Close()
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
func (f *File) Size() int64 { return f.in.Size }

// ReadAt fills p from byte off of the tensor. A range outside the tensor is an error, and if the file became shorter since
// it was opened the error wraps [io.ErrUnexpectedEOF].
func (f *File) ReadAt(t Tensor, p []byte, off int64) error {
	if err := f.readAt(t, p, off); err != nil {
		return fmt.Errorf("gguf: %s: tensor %q: %w", f.in.Name, t.Name, err)
	}
	return nil
}

func (f *File) readAt(t Tensor, p []byte, off int64) error {
	if !f.holds(t) {
		return fmt.Errorf("%d bytes at byte %d are outside the %d bytes of the file", t.Bytes, t.Offset, f.in.Size)
	}
	return f.in.Read(p, t.Offset, t.Bytes, off)
}

// holds reports whether the bytes of t are in the data, so that a tensor of another file does no harm.
func (f *File) holds(t Tensor) bool {
	return f.start <= t.Offset && t.Offset <= f.in.Size && 0 <= t.Bytes && t.Bytes <= f.in.Size-t.Offset
}

// Close closes the file, unless the caller owns it.
func (f *File) Close() error { return f.in.Close() }
