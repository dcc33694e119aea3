package safetensors

import (
	"encoding/binary"
	"fmt"
	"io"
	"unicode/utf8"

	"nibble/internal/source"
)

const (
	lengthBytes = 8           // bytes of the header length
	maxHeader   = 100_000_000 // bytes of the longest header
)

// File is an open safetensors file. Its methods may be called from several goroutines, but for Close.
type File struct {
	in       *source.Source
	start    int64 // of the data section
	tensors  []Tensor
	byName   map[string]int // index into tensors
	metadata map[string]string
}

// Open opens the file at path and checks its header. Tensors are read from the file when they are asked for.
func Open(path string) (*File, error) { return parse(source.Open(path)) }

// New reads a file of size bytes from r, which the caller keeps open for as long as it uses the File.
func New(r io.ReaderAt, size int64) (*File, error) { return parse(source.New(r, size), nil) }

// parse takes over a source, and closes it if it is no file of the format.
func parse(in *source.Source, err error) (*File, error) {
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	f, err := newFile(in)
	if err != nil {
		in.Close()
		return nil, err
	}
	return f, nil
}

func newFile(in *source.Source) (*File, error) {
	corrupt := func(offset int64, kind Kind, format string, args ...any) error {
		return &FormatError{File: in.Name, Offset: offset, Kind: kind, Reason: fmt.Sprintf(format, args...)}
	}
	if in.Size < lengthBytes {
		return nil, corrupt(0, HeaderTooSmall, "the file has %d bytes of at least %d", in.Size, lengthBytes)
	}
	var length [lengthBytes]byte
	if err := in.Read(length[:], 0, in.Size, 0); err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", in.Name, err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader {
		return nil, corrupt(0, HeaderTooLarge, "%d bytes exceed the limit of %d", n, maxHeader)
	}
	if int64(n) > in.Size-lengthBytes {
		return nil, corrupt(0, InvalidHeaderLength, "%d bytes of which the file has %d", n, in.Size-lengthBytes)
	}
	text := make([]byte, n)
	if err := in.Read(text, lengthBytes, int64(n), 0); err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", in.Name, err)
	}
	if i := invalidUTF8(text); i >= 0 {
		return nil, corrupt(lengthBytes+int64(i), InvalidHeader, "byte %#02x", text[i])
	}
	f := &File{in: in, start: lengthBytes + int64(n), byName: map[string]int{}}
	if err := f.parseHeader(text); err != nil {
		return nil, err
	}
	return f, nil
}

// invalidUTF8 returns the index of the first byte of b that is not UTF-8, or -1.
func invalidUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; ; {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
}

// Tensors returns the tensors in the order of their offsets. The slice belongs to the File.
func (f *File) Tensors() []Tensor { return f.tensors }

// Lookup returns the tensor called name.
func (f *File) Lookup(name string) (Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

// Metadata returns the strings of __metadata__, nil if the file has none. The map belongs to the File.
func (f *File) Metadata() map[string]string { return f.metadata }

// DataStart returns the offset of the data section in the file.
func (f *File) DataStart() int64 { return f.start }

// Size returns the size of the file in bytes when it was opened.
func (f *File) Size() int64 { return f.in.Size }

// ReadAt fills p from byte off of the tensor. A range outside the tensor is an error, and if the file became shorter
// since it was opened the error wraps [io.ErrUnexpectedEOF].
func (f *File) ReadAt(t Tensor, p []byte, off int64) error {
	if err := f.readAt(t, p, off); err != nil {
		return fmt.Errorf("safetensors: %s: tensor %q: %w", f.in.Name, t.Name, err)
	}
	return nil
}

func (f *File) readAt(t Tensor, p []byte, off int64) error {
	if !f.holds(t) {
		return fmt.Errorf("bytes %d to %d are outside the %d bytes of data", t.Begin, t.End, f.in.Size-f.start)
	}
	return f.in.Read(p, f.start+t.Begin, t.Bytes(), off)
}

// holds reports whether the bytes of t are in the data section, so that a tensor of another file does no harm.
func (f *File) holds(t Tensor) bool {
	return 0 <= t.Begin && t.Begin <= t.End && t.End <= f.in.Size-f.start
}

// Close closes the file, unless the caller owns it.
func (f *File) Close() error { return f.in.Close() }
