package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	magic      = "PAR1"
	mostFooter = 64 << 20
	mostLeaves = 1 << 14
)

// ErrCorrupt is a file that breaks a rule of the format, ErrUnsupported one that uses what this package does not read.
var (
	ErrCorrupt     = errors.New("corrupt parquet file")
	ErrUnsupported = errors.New("unsupported parquet file")
)

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

// File is an opened file. Nothing but its footer has been read.
type File struct {
	Leaves []Leaf // in the order of the schema
	Rows   int64

	r      io.ReaderAt
	end    int64 // of the column chunks
	groups []group
}

// Leaf is a column.
type Leaf struct {
	Path           []string // names of the nodes, without the root
	Strings        bool     // the values are byte strings
	MaxRep, MaxDef int      // highest levels
	ElementDef     int      // definition level from which on an entry is an element of the innermost repeated node; 0 without one
}

// Name is the path with dots.
func (l *Leaf) Name() string { return strings.Join(l.Path, ".") }

// node is an element of the schema.
type node struct {
	name       string
	kind       int // physical type; −1: a group
	repetition int // required, optional, repeated
	children   int
}

// The physical type of byte strings, and two of the repetitions.
const (
	byteArray = 6
	optional  = 1
	repeated  = 2
)

// group is a row group.
type group struct {
	rows   int64
	chunks []chunk
}

// chunk is a column of a row group.
type chunk struct {
	external         bool // in another file, or encrypted
	kind, codec      int
	values           int64 // entries, null ones included
	start, size      int64
	dictionary, data int64 // offsets
}

// Open reads the footer of a file of the given size.
func Open(r io.ReaderAt, size int64) (*File, error) {
	const ends = int64(2*len(magic) + 4)
	if size < ends {
		return nil, corrupt("%d bytes, less than the %d of an empty file", size, ends)
	}
	var head [len(magic)]byte
	var tail [4 + len(magic)]byte
	if err := readAt(r, head[:], 0); err != nil {
		return nil, err
	}
	if err := readAt(r, tail[:], size-int64(len(tail))); err != nil {
		return nil, err
	}
	switch mark := string(tail[4:]); {
	case mark == "PARE":
		return nil, unsupported("the footer is encrypted")
	case string(head[:]) != magic || mark != magic:
		return nil, corrupt("it begins with %q and ends with %q, not with %s", head, mark, magic)
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if n > size-ends {
		return nil, corrupt("a footer of %d bytes in a file of %d", n, size)
	}
	if n > mostFooter {
		return nil, unsupported("a footer of %d MB, over %d", n>>20, mostFooter>>20)
	}
	f := &File{r: r, end: size - int64(len(tail)) - n}
	raw := make([]byte, n)
	if err := readAt(r, raw, f.end); err != nil {
		return nil, err
	}
	return f, f.parse(raw)
}

// readAt fills b. A file that became shorter is an error, not its end.
func readAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// parse reads the footer, FileMetaData.
func (f *File) parse(raw []byte) error {
	c := &compact{b: raw}
	var nodes []node
	encrypted := false
	c.structure(thriftStruct, func(id int, kind byte) bool {
		switch id {
		case 2:
			c.list(kind, func(kind byte) { nodes = append(nodes, readNode(c, kind)) })
		case 3:
			f.Rows = c.integer(kind)
		case 4:
			c.list(kind, func(kind byte) { f.groups = append(f.groups, readGroup(c, kind)) })
		case 8:
			encrypted = true
			return false
		default:
			return false
		}
		return true
	})
	if c.err != nil {
		return corrupt("footer: byte %d: %v", f.end+int64(c.at), c.err)
	}
	if encrypted {
		return unsupported("columns are encrypted")
	}
	if err := f.walk(nodes); err != nil {
		return err
	}
	var rows int64
	for i := range f.groups {
		g := &f.groups[i]
		if len(g.chunks) != len(f.Leaves) {
			return corrupt("row group %d has %d columns, the schema %d", i, len(g.chunks), len(f.Leaves))
		}
		if g.rows < 0 || g.rows > f.Rows-rows {
			return corrupt("row group %d has %d rows, of %d that are left of the file's", i, g.rows, f.Rows-rows)
		}
		rows += g.rows
	}
	if rows != f.Rows {
		return corrupt("%d rows in the row groups, %d in the file", rows, f.Rows)
	}
	return nil
}

// walk makes leaves of the schema's nodes.
func (f *File) walk(nodes []node) error {
	if len(nodes) == 0 {
		return corrupt("no schema")
	}
	type open struct {
		left int // children that are still to come
		leaf Leaf
	}
	stack := []open{{left: nodes[0].children}}
	for _, n := range nodes[1:] {
		for len(stack) > 0 && stack[len(stack)-1].left == 0 {
			stack = stack[:len(stack)-1]
		}
		if len(stack) == 0 {
			return corrupt("node %.100q is outside of the schema's tree", n.name)
		}
		parent := &stack[len(stack)-1]
		parent.left--
		leaf := parent.leaf
		leaf.Path = append(leaf.Path[:len(leaf.Path):len(leaf.Path)], n.name)
		switch n.repetition {
		case repeated:
			leaf.MaxRep++
			leaf.MaxDef++
			leaf.ElementDef = leaf.MaxDef
		case optional:
			leaf.MaxDef++
		}
		if n.kind < 0 || n.children > 0 {
			if len(stack) > mostDepth {
				return unsupported("a schema of more than %d levels", mostDepth)
			}
			stack = append(stack, open{n.children, leaf})
			continue
		}
		leaf.Strings = n.kind == byteArray
		if f.Leaves = append(f.Leaves, leaf); len(f.Leaves) > mostLeaves {
			return unsupported("more than %d columns", mostLeaves)
		}
	}
	for _, o := range stack {
		if o.left != 0 {
			return corrupt("the schema lacks nodes")
		}
	}
	return nil
}

// readNode reads a SchemaElement.
func readNode(c *compact, kind byte) node {
	n := node{kind: -1}
	c.structure(kind, func(id int, kind byte) bool {
		switch id {
		case 1:
			n.kind = c.int32(kind)
		case 3:
			n.repetition = c.int32(kind)
		case 4:
			n.name = string(c.bytes(kind))
		case 5:
			if n.children = c.int32(kind); n.children < 0 {
				c.fail(fmt.Errorf("a node with %d children", n.children))
			}
		default:
			return false
		}
		return true
	})
	return n
}

// readGroup reads a RowGroup.
func readGroup(c *compact, kind byte) (g group) {
	c.structure(kind, func(id int, kind byte) bool {
		switch id {
		case 1:
			c.list(kind, func(kind byte) { g.chunks = append(g.chunks, readChunk(c, kind)) })
		case 3:
			g.rows = c.integer(kind)
		default:
			return false
		}
		return true
	})
	return g
}

// readChunk reads a ColumnChunk with its ColumnMetaData.
func readChunk(c *compact, kind byte) (x chunk) {
	c.structure(kind, func(id int, kind byte) bool {
		switch id {
		case 1, 8: // file_path, crypto_metadata
			x.external = true
			return false
		case 3:
			c.structure(kind, func(id int, kind byte) bool {
				switch id {
				case 1:
					x.kind = c.int32(kind)
				case 4:
					x.codec = c.int32(kind)
				case 5:
					x.values = c.integer(kind)
				case 7:
					x.size = c.integer(kind)
				case 9:
					x.data = c.integer(kind)
				case 11:
					x.dictionary = c.integer(kind)
				default:
					return false
				}
				return true
			})
			return true
		}
		return false
	})
	x.start = x.data
	if x.dictionary > 0 { // some writers say 0 for none
		x.start = min(x.start, x.dictionary)
	}
	return x
}
