package parquet

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
)

// Entry is one entry of a column.
type Entry struct {
	Rep, Def int
	Value    []byte // nil without one; valid until the next call
}

// Column reads the entries of one leaf, row group by row group.
type Column struct {
	file  *File
	index int // of the leaf
	leaf  *Leaf
	group int // the next one

	chunk      *chunk
	at         int64 // of the next page
	left       int64 // entries of the chunk
	rows       int64 // of the group that have begun
	dictionary [][]byte
	hasWords   bool // dictionary has been read

	page page
}

// Column starts to read a leaf of byte strings.
func (f *File) Column(leaf int) (*Column, error) {
	l := &f.Leaves[leaf]
	if !l.Strings {
		return nil, unsupported("column %.200q is not of byte strings", l.Name())
	}
	return &Column{file: f, index: leaf, leaf: l}, nil
}

// Next returns the next entry, io.EOF behind the last one. Behind an error there is nothing.
func (c *Column) Next() (Entry, error) {
	for c.page.left == 0 {
		if err := c.advance(); err != nil {
			return Entry{}, c.name(err)
		}
	}
	e, err := c.page.next(c)
	if err != nil {
		return Entry{}, c.name(err)
	}
	if c.left--; e.Rep == 0 {
		c.rows++
	} else if c.rows == 0 {
		return Entry{}, c.name(corrupt("row group %d begins in the middle of a row", c.group-1))
	}
	return e, nil
}

// name adds the column to an error.
func (c *Column) name(err error) error {
	if err == io.EOF {
		return err
	}
	return &columnError{c.leaf.Name(), err}
}

// columnError is an error in a column.
type columnError struct {
	column string
	err    error
}

func (e *columnError) Error() string { return fmt.Sprintf("column %.100q: %v", e.column, e.err) }
func (e *columnError) Unwrap() error { return e.err }

// advance goes on to the next page, and where the chunk has no more entries to the next row group.
func (c *Column) advance() error {
	if c.chunk != nil && c.left > 0 {
		return c.readPage()
	}
	if c.chunk != nil {
		if want := c.file.groups[c.group-1].rows; c.rows != want {
			return corrupt("row group %d has %d rows of the column, want %d", c.group-1, c.rows, want)
		}
	}
	if c.group == len(c.file.groups) {
		return io.EOF
	}
	x := &c.file.groups[c.group].chunks[c.index]
	switch {
	case x.external:
		return unsupported("row group %d keeps it in another file, or encrypted", c.group)
	case x.kind != byteArray:
		return corrupt("row group %d has type %d for it, the schema %d", c.group, x.kind, byteArray)
	case x.start < int64(len(magic)) || x.size < 0 || x.start > c.file.end || x.size > c.file.end-x.start:
		return corrupt("row group %d has it in %d bytes from %d on, outside of the %d before the footer", c.group, x.size, x.start, c.file.end)
	case x.values < 0 || x.values < c.file.groups[c.group].rows:
		return corrupt("row group %d has %d entries of it for %d rows", c.group, x.values, c.file.groups[c.group].rows)
	}
	c.group++
	c.chunk, c.at, c.left, c.rows = x, x.start, x.values, 0
	c.dictionary, c.hasWords = nil, false
	return nil
}

// page is a data page on its way out.
type page struct {
	left    int // entries
	rep     hybrid
	def     hybrid
	numbers hybrid // into the dictionary
	plain   []byte
	words   bool // values are numbers into the dictionary
}

// next returns the next entry of the page.
func (p *page) next(c *Column) (e Entry, err error) {
	p.left--
	if e.Rep, err = level(&p.rep, c.leaf.MaxRep); err != nil {
		return e, err
	}
	if e.Def, err = level(&p.def, c.leaf.MaxDef); err != nil || e.Def < c.leaf.MaxDef {
		return e, err
	}
	if p.words {
		n, err := p.numbers.next()
		if err != nil {
			return e, err
		}
		if int64(n) >= int64(len(c.dictionary)) {
			return e, corrupt("entry %d of a dictionary of %d", n, len(c.dictionary))
		}
		e.Value = c.dictionary[n]
		return e, nil
	}
	e.Value, p.plain, err = plainValue(p.plain)
	return e, err
}

// level reads a level of which the highest is most.
func level(h *hybrid, most int) (int, error) {
	if most == 0 {
		return 0, nil
	}
	v, err := h.next()
	if err == nil && int64(v) > int64(most) {
		err = corrupt("level %d, over %d", v, most)
	}
	return int(v), err
}

// levelWidth is the number of bits of a level.
func levelWidth(most int) int { return bits.Len(uint(most)) }

// plainValue cuts a value from the front of b.
func plainValue(b []byte) (value, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, corrupt("%d bytes where the length of a value is to be", len(b))
	}
	n := binary.LittleEndian.Uint32(b)
	if b = b[4:]; uint64(n) > uint64(len(b)) {
		return nil, nil, corrupt("a value of %d bytes, %d are left in its page", n, len(b))
	}
	return b[:n:n], b[n:], nil
}
