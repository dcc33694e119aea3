package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"unicode/utf8"

	"nibble/internal/mmap"
	"nibble/internal/slots"
)

const (
	lengthBytes = 8           // bytes of the header length
	maxHeader   = 100_000_000 // bytes of the longest header
)

// File is an open safetensors file. Its methods may be called from several goroutines, but for Close.
type File struct {
	name     string
	r        io.ReaderAt
	closer   io.Closer // nil if the caller owns r
	view     []byte    // the whole file, if it is mapped
	size     int64
	start    int64 // of the data section
	tensors  []Tensor
	byName   map[string]int // index into tensors
	metadata map[string]string
}

// Open opens the file at path and checks its header. Tensors are read from the file when they are asked for.
func Open(path string) (*File, error) {
	info, err := os.Stat(path) // before opening, which would wait for the writer of a pipe
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("safetensors: %s: not a regular file", path)
	}
	r, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	return openFile(path, r)
}

// Map opens the file at path like [Open] and maps it into memory, so that Bytes returns views of it. On systems where
// this package cannot map files it is the same as Open. Touching a view beyond the end of a file that was shortened
// meanwhile ends the program, or the goroutine after [runtime/debug.SetPanicOnFault]; ReadAt returns an error there.
func Map(path string) (*File, error) {
	m, err := mmap.Open(path)
	if errors.Is(err, errors.ErrUnsupported) {
		return Open(path)
	}
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
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
		return nil, fmt.Errorf("safetensors: %s: its file system cannot read at an offset", name)
	}
	info, err := r.Stat()
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	return newFile(name, at, info.Size())
}

func newFile(name string, r io.ReaderAt, size int64) (*File, error) {
	corrupt := func(offset int64, kind Kind, format string, args ...any) error {
		return &FormatError{File: name, Offset: offset, Kind: kind, Reason: fmt.Sprintf(format, args...)}
	}
	if size < lengthBytes {
		return nil, corrupt(0, HeaderTooSmall, "the file has %d bytes of at least %d", size, lengthBytes)
	}
	var length [lengthBytes]byte
	if err := slots.ReadFull(r, length[:], 0); err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", name, err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader {
		return nil, corrupt(0, HeaderTooLarge, "%d bytes exceed the limit of %d", n, maxHeader)
	}
	if int64(n) > size-lengthBytes {
		return nil, corrupt(0, InvalidHeaderLength, "%d bytes of which the file has %d", n, size-lengthBytes)
	}
	text := make([]byte, n)
	if err := slots.ReadFull(r, text, lengthBytes); err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", name, err)
	}
	if i := invalidUTF8(text); i >= 0 {
		return nil, corrupt(lengthBytes+int64(i), InvalidHeader, "byte %#02x", text[i])
	}
	f := &File{name: name, r: r, size: size, start: lengthBytes + int64(n), byName: map[string]int{}}
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
func (f *File) Size() int64 { return f.size }

// ReadAt fills p from byte off of the tensor. A range outside the tensor is an error, and if the file became shorter
// since it was opened the error wraps [io.ErrUnexpectedEOF].
func (f *File) ReadAt(t Tensor, p []byte, off int64) error {
	if err := f.readAt(t, p, off); err != nil {
		return fmt.Errorf("safetensors: %s: tensor %q: %w", f.name, t.Name, err)
	}
	return nil
}

func (f *File) readAt(t Tensor, p []byte, off int64) error {
	if !f.holds(t) {
		return fmt.Errorf("bytes %d to %d are outside the %d bytes of data", t.Begin, t.End, f.size-f.start)
	}
	if err := slots.CheckRange(t.Bytes(), off, len(p)); err != nil {
		return err
	}
	return slots.ReadFull(f.r, p, f.start+t.Begin+off)
}

// Bytes returns the bytes of the tensor as a view of the mapped file, which must not be written to and is valid until
// Close. It returns nil if the file is not mapped.
func (f *File) Bytes(t Tensor) []byte {
	if f.view == nil || !f.holds(t) {
		return nil
	}
	return f.view[f.start+t.Begin : f.start+t.End : f.start+t.End]
}

// holds reports whether the bytes of t are in the data section, so that a tensor of another file does no harm.
func (f *File) holds(t Tensor) bool {
	return 0 <= t.Begin && t.Begin <= t.End && t.End <= f.size-f.start
}

// Close closes the file, unless the caller owns it, and ends its views.
func (f *File) Close() error {
	f.view = nil
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}
