package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrCorrupt is what every error of the reader unwraps to.
var ErrCorrupt = errors.New("onnx: corrupt file")

// FormatError says what is wrong, and at which byte of the file.
type FormatError struct {
	Offset int
	Reason string
}

// Error states both.
func (e *FormatError) Error() string {
	return fmt.Sprintf("onnx: corrupt file at byte %d: %s", e.Offset, e.Reason)
}

// Unwrap returns ErrCorrupt.
func (e *FormatError) Unwrap() error { return ErrCorrupt }

// mostParts bounds the nodes, tensors, attributes and entries of a file: each may be two bytes long and take a hundred in
// memory.
const mostParts = 1 << 22

// Decode reads the bytes of a file. Tensors of the model share them. An error is a [*FormatError].
func Decode(raw []byte) (*Model, error) {
	d := &decoder{size: len(raw)}
	m := &Model{}
	d.each(raw, 0, func(f field) {
		switch f.number {
		case 1:
			m.IR = f.int()
		case 2:
			m.Producer = f.text()
		case 3:
			m.ProducerVersion = f.text()
		case 7:
			d.graph(&m.Graph, f)
		case 8:
			var o Opset
			d.each(f.bytes, f.at, func(f field) {
				switch f.number {
				case 1:
					o.Domain = f.text()
				case 2:
					o.Version = f.int()
				}
			})
			m.Opsets = append(m.Opsets, o)
		case 14:
			m.Metadata = append(m.Metadata, d.entry(f))
		}
	})
	if d.err != nil {
		return nil, d.err
	}
	if m.IR < 1 || len(m.Opsets) == 0 {
		return nil, &FormatError{0, "no version and no operators: not an ONNX model"}
	}
	return m, nil
}

// decoder reads messages until the first error.
type decoder struct {
	size, parts int
	err         error
}

func (d *decoder) fail(at int, format string, args ...any) {
	if d.err == nil {
		d.err = &FormatError{at, fmt.Sprintf(format, args...)}
	}
}

// field is one field of a message.
type field struct {
	d      *decoder
	at     int // of its contents in the file
	number protowire.Number
	kind   protowire.Type
	bits   uint64
	bytes  []byte
}

// each calls f with every field of a message that begins at byte at.
func (d *decoder) each(b []byte, at int, f func(field)) {
	for len(b) > 0 && d.err == nil {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			d.fail(at, "a field without a number")
			return
		}
		x := field{d: d, at: at + n, number: number, kind: kind}
		b, at = b[n:], at+n
		switch kind {
		case protowire.VarintType:
			x.bits, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			x.bits = uint64(v)
		case protowire.Fixed64Type:
			x.bits, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			x.bytes, n = protowire.ConsumeBytes(b)
			x.at = at + n - len(x.bytes)
		default:
			d.fail(at, "field %d has wire type %d, which ONNX does not use", number, kind)
			return
		}
		if n < 0 {
			d.fail(at, "field %d is cut off", number)
			return
		}
		b, at = b[n:], at+n
		if d.parts++; d.parts > mostParts {
			d.fail(at, "more than %d fields", mostParts)
			return
		}
		f(x)
	}
}

// is checks the wire type.
func (f *field) is(kind protowire.Type) bool {
	if f.kind != kind {
		f.d.fail(f.at, "field %d has wire type %d, want %d", f.number, f.kind, kind)
	}
	return f.kind == kind
}

func (f *field) int() int64 {
	f.is(protowire.VarintType)
	return int64(f.bits)
}

func (f *field) text() string {
	if f.is(protowire.BytesType) && !utf8.Valid(f.bytes) {
		f.d.fail(f.at, "field %d is not UTF-8", f.number)
	}
	return string(f.bytes)
}

// list appends varints, one or packed.
func (f *field) list(to []int64) []int64 {
	if f.kind != protowire.BytesType {
		return append(to, f.int())
	}
	for b := f.bytes; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			f.d.fail(f.at, "a packed list in field %d is cut off", f.number)
			return to
		}
		to, b = append(to, int64(v)), b[n:]
	}
	return to
}

// floats appends float32s, one or packed.
func (f *field) floats(to []float32) []float32 {
	if f.kind != protowire.BytesType {
		f.is(protowire.Fixed32Type)
		return append(to, math.Float32frombits(uint32(f.bits)))
	}
	if len(f.bytes)%4 != 0 {
		f.d.fail(f.at, "a packed list of floats has %d bytes", len(f.bytes))
		return to
	}
	for b := f.bytes; len(b) > 0; b = b[4:] {
		to = append(to, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return to
}

func (d *decoder) entry(f field) (e Entry) {
	f.is(protowire.BytesType)
	d.each(f.bytes, f.at, func(f field) {
		switch f.number {
		case 1:
			e.Key = f.text()
		case 2:
			e.Value = f.text()
		}
	})
	return e
}

func (d *decoder) graph(g *Graph, f field) {
	f.is(protowire.BytesType)
	d.each(f.bytes, f.at, func(f field) {
		switch f.number {
		case 1:
			g.Nodes = append(g.Nodes, d.node(f))
		case 2:
			g.Name = f.text()
		case 5:
			g.Initializers = append(g.Initializers, d.tensor(f))
		case 11:
			g.Inputs = append(g.Inputs, d.info(f))
		case 12:
			g.Outputs = append(g.Outputs, d.info(f))
		case 13:
			g.Infos = append(g.Infos, d.info(f))
		}
	})
}

func (d *decoder) node(f field) (n Node) {
	f.is(protowire.BytesType)
	d.each(f.bytes, f.at, func(f field) {
		switch f.number {
		case 1:
			n.In = append(n.In, f.text())
		case 2:
			n.Out = append(n.Out, f.text())
		case 3:
			n.Name = f.text()
		case 4:
			n.Op = f.text()
		case 5:
			n.Attributes = append(n.Attributes, d.attribute(f))
		case 7:
			n.Domain = f.text()
		}
	})
	return n
}

func (d *decoder) attribute(f field) (a Attribute) {
	f.is(protowire.BytesType)
	d.each(f.bytes, f.at, func(f field) {
		switch f.number {
		case 1:
			a.Name = f.text()
		case 2:
			if f.is(protowire.Fixed32Type) {
				a.F = math.Float32frombits(uint32(f.bits))
			}
		case 3:
			a.I = f.int()
		case 4:
			f.is(protowire.BytesType)
			a.S = string(f.bytes)
		case 7:
			a.Floats = f.floats(a.Floats)
		case 8:
			a.Ints = f.list(a.Ints)
		case 20:
			a.Kind = Kind(f.int())
		}
	})
	return a
}

func (d *decoder) tensor(f field) (t Tensor) {
	f.is(protowire.BytesType)
	start, external := f.at, false
	var x External
	d.each(f.bytes, f.at, func(f field) {
		switch f.number {
		case 1:
			t.Dims = f.list(t.Dims)
		case 2:
			t.Type = Type(f.int())
		case 4:
			t.Floats = f.floats(t.Floats)
		case 5:
			for _, v := range f.list(nil) {
				t.Int32s = append(t.Int32s, int32(v))
			}
		case 7:
			t.Int64s = f.list(t.Int64s)
		case 8:
			t.Name = f.text()
		case 9:
			f.is(protowire.BytesType)
			t.Raw = f.bytes
		case 13:
			d.external(&x, f)
		case 14:
			external = f.int() == 1
		}
	})
	for _, n := range t.Dims {
		if n < 0 {
			d.fail(start, "tensor %q has a dimension of %d", clip(t.Name), n)
		}
	}
	if external {
		if x.Location == "" {
			d.fail(start, "tensor %q has external data nowhere", clip(t.Name))
		}
		t.External = &x
	}
	return t
}

// external reads one of the entries that say where data lie.
func (d *decoder) external(x *External, f field) {
	e := d.entry(f)
	whole := func() int64 {
		n, err := strconv.ParseInt(e.Value, 10, 64)
		if err != nil || n < 0 {
			d.fail(f.at, "external data with %s %q", e.Key, clip(e.Value))
		}
		return n
	}
	switch e.Key {
	case "location":
		if e.Value == "" || strings.HasPrefix(e.Value, "/") || strings.Contains(e.Value, "..") {
			d.fail(f.at, "external data at %q, which leads out of the folder", clip(e.Value))
		}
		x.Location = e.Value
	case "offset":
		x.Offset = whole()
	case "length":
		x.Length = whole()
	}
}

func (d *decoder) info(f field) (v ValueInfo) {
	f.is(protowire.BytesType)
	d.each(f.bytes, f.at, func(f field) {
		switch f.number {
		case 1:
			v.Name = f.text()
		case 2:
			d.each(f.bytes, f.at, func(f field) {
				if f.number == 1 {
					d.tensorType(&v, f)
				}
			})
		}
	})
	return v
}

func (d *decoder) tensorType(v *ValueInfo, f field) {
	d.each(f.bytes, f.at, func(f field) {
		switch f.number {
		case 1:
			v.Type = Type(f.int())
		case 2:
			v.Rank = true
			d.each(f.bytes, f.at, func(f field) {
				n := int64(-1)
				d.each(f.bytes, f.at, func(f field) {
					if f.number == 1 {
						n = f.int()
					}
				})
				v.Shape = append(v.Shape, n)
			})
		}
	})
}

// clip keeps names from hostile files short.
func clip(s string) string {
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return s
}
