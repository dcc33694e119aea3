package gguf

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"unicode/utf8"

	"nibble/gguf/block"
)

const (
	maxKey        = 65535 // bytes
	maxName       = 64    // bytes
	maxDimensions = 4
	leastEntry    = 8 + 1 + 4 + 1         // bytes of the shortest entry
	leastTensor   = 8 + 1 + 4 + 0 + 4 + 8 // bytes of the shortest tensor
)

// parseHeader reads and checks all that precedes the data.
func (f *File) parseHeader(c *cursor) error {
	tensors, entries, err := f.parseCounts(c)
	if err != nil {
		return err
	}
	if err := c.need(entries, leastEntry, "metadata entries"); err != nil {
		return err
	}
	for range entries {
		if err := f.parseEntry(c); err != nil {
			return err
		}
	}
	c.name = ""
	if err := c.need(tensors, leastTensor, "tensors"); err != nil {
		return err
	}
	places := make([]int64, 0, tensors) // where each tensor is described
	for range tensors {
		places = append(places, c.pos)
		if err := f.parseTensor(c); err != nil {
			return err
		}
	}
	c.name = ""
	f.start = roundUp(c.pos, f.alignment)
	return f.checkLayout(c, places)
}

// parseCounts reads the magic, the version with the byte order, and the numbers of tensors and of entries.
func (f *File) parseCounts(c *cursor) (tensors, entries uint64, err error) {
	magic, err := c.bytes(4, "bytes of the magic")
	if err != nil {
		return 0, 0, err
	}
	if string(magic) != "GGUF" {
		return 0, 0, c.fail(0, BadMagic, "it begins with %q", magic)
	}
	version, err := c.bytes(4, "bytes of the version")
	if err != nil {
		return 0, 0, err
	}
	f.version = binary.LittleEndian.Uint32(version)
	if f.version&0xffff == 0 {
		c.order, f.bigEndian = binary.BigEndian, true
		f.version = binary.BigEndian.Uint32(version)
	}
	if f.version != 2 && f.version != 3 {
		return 0, 0, c.fail(4, UnsupportedVersion, "version %d, and 2 and 3 are read", f.version)
	}
	if tensors, err = c.uint64("bytes of the number of tensors"); err != nil {
		return 0, 0, err
	}
	entries, err = c.uint64("bytes of the number of entries")
	return tensors, entries, err
}

// parseEntry reads an entry of the metadata.
func (f *File) parseEntry(c *cursor) error {
	at := c.pos
	c.name = ""
	key, err := c.string("a key")
	if err != nil {
		return err
	}
	if key == "" || len(key) > maxKey || !utf8.ValidString(key) {
		return c.fail(at, InvalidKey, "%q of %d bytes, where UTF-8 of 1 to %d is expected", key, len(key), maxKey)
	}
	c.name = key
	if _, ok := f.byKey[key]; ok {
		return c.fail(at, Duplicate, "the key")
	}
	t, err := c.valueType()
	if err != nil {
		return err
	}
	at = c.pos
	value, err := c.value(t, 0)
	if err != nil {
		return err
	}
	if key == alignmentKey {
		a, ok := value.(uint32)
		if !ok || a == 0 || a&(a-1) != 0 {
			return c.fail(at, InvalidAlignment, "%v, where a power of two of type uint32 is expected", value)
		}
		f.alignment = int64(a)
	}
	f.byKey[key] = len(f.metadata)
	f.metadata = append(f.metadata, Entry{key, value})
	return nil
}

// parseTensor reads the description of a tensor. Its offset remains that of the file, from the start of the data.
func (f *File) parseTensor(c *cursor) error {
	at := c.pos
	c.name = ""
	name, err := c.string("a tensor's name")
	if err != nil {
		return err
	}
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return c.fail(at, InvalidName, "%q of %d bytes, where UTF-8 of 1 to %d is expected", name, len(name), maxName)
	}
	c.name = name
	if _, ok := f.byName[name]; ok {
		return c.fail(at, Duplicate, "the tensor")
	}
	t := Tensor{Name: name}
	if t.Shape, err = parseShape(c); err != nil {
		return err
	}
	at = c.pos
	number, err := c.uint32("bytes of a tensor's type")
	if err != nil {
		return err
	}
	if t.Type = block.Type(number); !t.Type.Known() {
		return c.fail(at, UnknownType, "%s", t.Type)
	}
	var wrong string
	if t.Bytes, wrong = sizeOf(t.Type, t.Shape); wrong != "" {
		return c.fail(at, InvalidShape, "%s %v: %s", t.Type, t.Shape, wrong)
	}
	at = c.pos
	offset, err := c.uint64("bytes of a tensor's offset")
	if err != nil {
		return err
	}
	if offset > math.MaxInt64 || offset%uint64(f.alignment) != 0 {
		return c.fail(at, InvalidOffset, "%d is not a multiple of %d, or beyond any file", offset, f.alignment)
	}
	t.Offset = int64(offset)
	f.byName[name] = len(f.tensors)
	f.tensors = append(f.tensors, t)
	return nil
}

func parseShape(c *cursor) ([]int, error) {
	at := c.pos
	n, err := c.uint32("bytes of the number of dimensions")
	if err != nil {
		return nil, err
	}
	if n > maxDimensions {
		return nil, c.fail(at, InvalidShape, "%d dimensions, and %d are the limit", n, maxDimensions)
	}
	shape := make([]int, n)
	for i := range shape {
		at = c.pos
		d, err := c.uint64("bytes of a dimension")
		if err != nil {
			return nil, err
		}
		if d > math.MaxInt {
			return nil, c.fail(at, InvalidShape, "dimension %d is too large", d)
		}
		shape[len(shape)-1-i] = int(d)
	}
	return shape, nil
}

// checkLayout checks that the tensors are in the file and do not overlap, and makes their offsets count from its start.
func (f *File) checkLayout(c *cursor, places []int64) error {
	for i := range f.tensors {
		t := &f.tensors[i]
		if t.Offset > f.in.Size-f.start || t.Bytes > f.in.Size-f.start-t.Offset {
			c.name = t.Name
			return c.fail(places[i], InvalidOffset, "%d bytes at byte %d of the data, which has %d", t.Bytes, t.Offset,
				max(f.in.Size-f.start, 0))
		}
		t.Offset += f.start
	}
	sorted := slices.Clone(f.tensors)
	slices.SortFunc(sorted, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Bytes, b.Bytes))
	})
	for i := 1; i < len(sorted); i++ {
		a, b := sorted[i-1], sorted[i]
		if a.Offset+a.Bytes > b.Offset {
			c.name = b.Name
			return c.fail(places[f.byName[b.Name]], Overlap, "it begins at byte %d, and %q ends at %d", b.Offset, a.Name,
				a.Offset+a.Bytes)
		}
	}
	return nil
}
