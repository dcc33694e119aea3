package gguf

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"nibble/internal/source"
)

// maxHeader is the most bytes that may precede the data: many times what the largest vocabularies take.
const maxHeader = 256 << 20

// cursor reads what precedes the data, from front to back.
type cursor struct {
	r     *bufio.Reader
	order binary.ByteOrder
	file  string
	name  string // of the tensor or entry that is being read
	pos   int64
	size  int64 // of the file
}

func newCursor(in *source.Source) *cursor {
	section := io.NewSectionReader(in, 0, min(in.Size, maxHeader))
	return &cursor{r: bufio.NewReaderSize(section, 1<<16), order: binary.LittleEndian, file: in.Name, size: in.Size}
}

// fail returns a breach at byte at.
func (c *cursor) fail(at int64, kind Kind, format string, args ...any) error {
	return &FormatError{c.file, c.name, at, kind, fmt.Sprintf(format, args...)}
}

// need reports an error if fewer than count·bytes bytes are left, of the file or of what may precede its data.
func (c *cursor) need(count uint64, bytes int64, what string) error {
	if left := c.size - c.pos; count > uint64(left/bytes) {
		return c.fail(c.pos, Truncated, "%d %s, but %d bytes are left", count, what, left)
	}
	if count > uint64((maxHeader-c.pos)/bytes) {
		return c.fail(c.pos, HeaderTooLarge, "%d %s, and %d bytes are the limit", count, what, int64(maxHeader))
	}
	return nil
}

// bytes returns the next n bytes.
func (c *cursor) bytes(n uint64, what string) ([]byte, error) {
	if err := c.need(n, 1, what); err != nil {
		return nil, err
	}
	p := make([]byte, n)
	if _, err := io.ReadFull(c.r, p); err != nil {
		return nil, fmt.Errorf("gguf: %s: reading %d bytes at byte %d of the file: %w", c.file, n, c.pos, err)
	}
	c.pos += int64(n)
	return p, nil
}

func (c *cursor) uint32(what string) (uint32, error) {
	p, err := c.bytes(4, what)
	if err != nil {
		return 0, err
	}
	return c.order.Uint32(p), nil
}

func (c *cursor) uint64(what string) (uint64, error) {
	p, err := c.bytes(8, what)
	if err != nil {
		return 0, err
	}
	return c.order.Uint64(p), nil
}

func (c *cursor) string(what string) (string, error) {
	n, err := c.uint64("bytes of the length of " + what)
	if err != nil {
		return "", err
	}
	p, err := c.bytes(n, "bytes of "+what)
	return string(p), err
}

// valueType reads the type of a value.
func (c *cursor) valueType() (uint32, error) {
	at := c.pos
	t, err := c.uint32("bytes of a value type")
	if err == nil && t >= numTypes {
		err = c.fail(at, InvalidValueType, "type %d, and the types are 0 to %d", t, numTypes-1)
	}
	return t, err
}

// value reads a value that is inside depth arrays.
func (c *cursor) value(t uint32, depth int) (any, error) {
	switch t {
	case typeString:
		return c.string("a string")
	case typeArray:
		return c.array(depth)
	}
	return c.numbers(t, 1, false)
}

// array reads the type, the number and the elements of an array.
func (c *cursor) array(depth int) (any, error) {
	if depth == maxDepth {
		return nil, c.fail(c.pos, TooDeep, "more than %d deep", maxDepth)
	}
	t, err := c.valueType()
	if err != nil {
		return nil, err
	}
	n, err := c.uint64("bytes of the number of elements")
	if err != nil {
		return nil, err
	}
	if err := c.need(n, valueBytes[t], "elements"); err != nil {
		return nil, err
	}
	switch t {
	case typeString:
		// Lengths are checked one by one: a slice of n strings takes at most twice the bytes of n empty ones.
		values := make([]string, n)
		for i := range values {
			if values[i], err = c.string("a string"); err != nil {
				return nil, err
			}
		}
		return values, nil
	case typeArray:
		values := make([]any, n)
		for i := range values {
			if values[i], err = c.array(depth + 1); err != nil {
				return nil, err
			}
		}
		return values, nil
	}
	return c.numbers(t, n, true)
}

// numbers reads n values of a type of fixed size into a slice of that type or, for no array, one value.
func (c *cursor) numbers(t uint32, n uint64, array bool) (any, error) {
	at := c.pos
	if err := c.need(n, valueBytes[t], "values"); err != nil {
		return nil, err
	}
	p, err := c.bytes(n*uint64(valueBytes[t]), "bytes of values")
	if err != nil {
		return nil, err
	}
	switch t {
	case typeUint8:
		return values(p, 1, array, func(p []byte) uint8 { return p[0] }), nil
	case typeInt8:
		return values(p, 1, array, func(p []byte) int8 { return int8(p[0]) }), nil
	case typeUint16:
		return values(p, 2, array, c.order.Uint16), nil
	case typeInt16:
		return values(p, 2, array, func(p []byte) int16 { return int16(c.order.Uint16(p)) }), nil
	case typeUint32:
		return values(p, 4, array, c.order.Uint32), nil
	case typeInt32:
		return values(p, 4, array, func(p []byte) int32 { return int32(c.order.Uint32(p)) }), nil
	case typeUint64:
		return values(p, 8, array, c.order.Uint64), nil
	case typeInt64:
		return values(p, 8, array, func(p []byte) int64 { return int64(c.order.Uint64(p)) }), nil
	case typeFloat32:
		return values(p, 4, array, func(p []byte) float32 { return math.Float32frombits(c.order.Uint32(p)) }), nil
	case typeFloat64:
		return values(p, 8, array, func(p []byte) float64 { return math.Float64frombits(c.order.Uint64(p)) }), nil
	}
	for i, b := range p {
		if b > 1 {
			return nil, c.fail(at+int64(i), InvalidBool, "byte %#02x, where 0 or 1 is expected", b)
		}
	}
	return values(p, 1, array, func(p []byte) bool { return p[0] == 1 }), nil
}

// values applies get to every size bytes of p, and returns a slice or, for no array, the value.
func values[T any](p []byte, size int, array bool, get func([]byte) T) any {
	if !array {
		return get(p)
	}
	values := make([]T, len(p)/size)
	for i := range values {
		values[i] = get(p[i*size:])
	}
	return values
}
