package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The types of Thrift's compact protocol.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
)

// mostDepth is how deep the structs of a file may be nested.
const mostDepth = 16

// errShort is a struct that goes on behind the bytes that are there.
var errShort = errors.New("it ends early")

// compact reads Thrift's compact protocol. After an error it reads zeros.
type compact struct {
	b     []byte
	at    int
	depth int
	err   error
}

func (c *compact) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.at = len(c.b)
}

func (c *compact) byte() byte {
	if c.at >= len(c.b) {
		c.fail(errShort)
		return 0
	}
	c.at++
	return c.b[c.at-1]
}

func (c *compact) uvarint() uint64 {
	v, n := binary.Uvarint(c.b[c.at:])
	switch {
	case n == 0:
		c.fail(errShort)
	case n < 0:
		c.fail(errors.New("a number of more than 64 bits"))
	default:
		c.at += n
	}
	return v
}

// integer reads a number of any width.
func (c *compact) integer(kind byte) int64 {
	switch kind {
	case thriftByte:
		return int64(int8(c.byte()))
	case thriftI16, thriftI32, thriftI64:
		v := c.uvarint()
		return int64(v>>1) ^ -int64(v&1)
	}
	c.fail(fmt.Errorf("type %d where a number is to be", kind))
	return 0
}

// int32 reads a number that has to fit 32 bits.
func (c *compact) int32(kind byte) int {
	v := c.integer(kind)
	if int64(int32(v)) != v {
		c.fail(fmt.Errorf("number %d where one of 32 bits is to be", v))
		return 0
	}
	return int(v)
}

func (c *compact) bool(kind byte) bool {
	if kind != thriftTrue && kind != thriftFalse {
		c.fail(fmt.Errorf("type %d where a truth value is to be", kind))
	}
	return kind == thriftTrue
}

func (c *compact) bytes(kind byte) []byte {
	if kind != thriftBinary {
		c.fail(fmt.Errorf("type %d where a string is to be", kind))
		return nil
	}
	n := c.uvarint()
	if n > uint64(len(c.b)-c.at) {
		c.fail(errShort)
		return nil
	}
	c.at += int(n)
	return c.b[c.at-int(n) : c.at]
}

// structure reads a struct. field reads the value of a field or returns false, and then it is skipped.
func (c *compact) structure(kind byte, field func(id int, kind byte) bool) {
	if kind != thriftStruct {
		c.fail(fmt.Errorf("type %d where a struct is to be", kind))
	}
	if c.depth++; c.depth > mostDepth {
		c.fail(fmt.Errorf("structs nested more than %d deep", mostDepth))
	}
	for id := 0; c.err == nil; {
		head := c.byte()
		if head == 0 {
			break
		}
		if delta := int(head >> 4); delta > 0 {
			id += delta
		} else {
			id = c.int32(thriftI16)
		}
		if kind := head & 15; !field(id, kind) {
			c.skip(kind)
		}
	}
	c.depth--
}

// list reads the head of a list, and calls element for every one of it.
func (c *compact) list(kind byte, element func(kind byte)) {
	if kind != thriftList && kind != thriftSet {
		c.fail(fmt.Errorf("type %d where a list is to be", kind))
		return
	}
	head := c.byte()
	n := uint64(head >> 4)
	if n == 15 {
		n = c.uvarint()
	}
	if n > uint64(len(c.b)-c.at) { // an element has a byte at least
		c.fail(errShort)
	}
	for ; n > 0 && c.err == nil; n-- {
		element(head & 15)
	}
}

// skip passes over the value of a field.
func (c *compact) skip(kind byte) {
	switch kind {
	case thriftTrue, thriftFalse:
	case thriftByte, thriftI16, thriftI32, thriftI64:
		c.integer(kind)
	case thriftDouble:
		for range 8 {
			c.byte()
		}
	case thriftBinary:
		c.bytes(kind)
	case thriftList, thriftSet:
		c.nested(func() { c.list(kind, c.skipElement) })
	case thriftMap:
		if n := c.uvarint(); n > 0 {
			kinds := c.byte()
			c.nested(func() {
				for ; n > 0 && c.err == nil; n-- {
					c.skipElement(kinds >> 4)
					c.skipElement(kinds & 15)
				}
			})
		}
	case thriftStruct:
		c.structure(kind, func(int, byte) bool { return false })
	default:
		c.fail(fmt.Errorf("type %d, which Thrift does not have", kind))
	}
}

// skipElement passes over a value in a list or map, where truth values have a byte.
func (c *compact) skipElement(kind byte) {
	if kind == thriftTrue || kind == thriftFalse {
		c.byte()
		return
	}
	c.skip(kind)
}

// nested counts a level around f.
func (c *compact) nested(f func()) {
	if c.depth++; c.depth > mostDepth {
		c.fail(fmt.Errorf("values nested more than %d deep", mostDepth))
		return
	}
	f()
	c.depth--
}
