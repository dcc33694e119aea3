package view

import (
	"bytes"
	"io"
	"io/fs"
	"sort"
	"sync"
	"time"

	"nibble/gguf"
	"nibble/gguf/block"
	"nibble/gguf/names"
	"nibble/internal/half"
	"nibble/safetensors"
)

// part is a tensor of the folder, and the rows of a GGUF tensor that it is.
type part struct {
	spec  safetensors.Spec
	begin int64 // of its first byte in the file of weights

	names.Tensor
	from      gguf.Tensor
	rows      int  // of the tensor; a vector is one row, or has one element a row if they are reordered
	k         int  // elements of a row
	first     int  // row of the GGUF tensor, the experts before it counted
	stored    int  // bytes of a row in the GGUF file
	size      int  // bytes of a row as it is shown
	decodes   bool // rows become float32
	swaps     bool // numbers are big-endian
	transpose bool // is shown [in, out]

	mu    sync.Mutex
	whole []byte // a transposed tensor
}

// floats are the types of elements that are shown as they are.
var floats = map[block.Type]safetensors.DType{block.F32: safetensors.F32, block.F16: safetensors.F16, block.BF16: safetensors.BF16}

// newPart describes source number index of a tensor.
func newPart(t *names.Tensor, from gguf.Tensor, index int, swaps, plain bool) *part {
	source := t.Sources[index]
	p := &part{Tensor: *t, from: from, swaps: swaps && from.Type != block.I8, transpose: source.Transposed}
	p.spec.Name, p.spec.Shape = source.Name, source.Shape
	switch {
	case len(source.Shape) == 1 && t.Heads > 0:
		p.rows, p.k = source.Shape[0], 1
	case len(source.Shape) == 1:
		p.rows, p.k = 1, source.Shape[0]
	default:
		p.rows, p.k = source.Out(), source.In()
	}
	p.first = index * p.rows
	p.stored = p.k / from.Type.Size() * from.Type.Bytes()
	dtype, float := floats[from.Type]
	_, grid := from.Type.Grid()
	switch {
	case float && !t.PlusOne:
		p.spec.DType, p.size = dtype, p.stored
	case grid && !plain && len(source.Shape) == 2:
		p.spec = safetensors.Spec{Name: source.Module() + "." + from.Type.String(), DType: safetensors.U8, Shape: []int{p.rows, p.stored}}
		p.size, p.transpose = p.stored, false
	default:
		p.spec.DType, p.size, p.decodes = safetensors.F32, 4*p.k, true
	}
	return p
}

// source returns the row of the GGUF tensor that is row r.
func (p *part) source(r int) int { return p.first + p.Place(r, p.rows) }

// read fills dst with rows from row on, as they are shown but for a transposition.
func (p *part) read(set *gguf.Set, dst []byte, row int) error {
	var raw []byte
	var values []float32
	for len(dst) > 0 {
		run := 1 // rows that follow one another in the file
		for run < len(dst)/p.size && p.source(row+run) == p.source(row)+run && run*p.stored < 1<<20 {
			run++
		}
		to := dst[:run*p.size]
		from := to
		if p.decodes {
			if cap(raw) < run*p.stored {
				raw, values = make([]byte, run*p.stored), make([]float32, run*p.k)
			}
			from = raw[:run*p.stored]
		}
		if err := set.ReadAt(p.from.Name, from, int64(p.source(row))*int64(p.stored)); err != nil {
			return err
		}
		if p.swaps {
			if err := p.from.Type.Swap(from); err != nil {
				return err
			}
		}
		if p.decodes {
			v := values[:run*p.k]
			if err := p.from.Type.Decode(v, from); err != nil {
				return err
			}
			for i := range v {
				if p.PlusOne {
					v[i]--
				}
			}
			half.EncodeF32(to, v)
		}
		dst, row = dst[run*p.size:], row+run
	}
	return nil
}

// readAt fills dst from byte off of the tensor.
func (p *part) readAt(set *gguf.Set, dst []byte, off int64) error {
	if p.transpose {
		return p.readTransposed(set, dst, off)
	}
	size := int64(p.size)
	row, skip := int(off/size), int(off%size)
	if skip == 0 && len(dst)%p.size == 0 {
		return p.read(set, dst, row)
	}
	rows := make([]byte, (skip+len(dst)+p.size-1)/p.size*p.size)
	if err := p.read(set, rows, row); err != nil {
		return err
	}
	copy(dst, rows[skip:])
	return nil
}

// readTransposed keeps the whole tensor, [in, out].
func (p *part) readTransposed(set *gguf.Set, dst []byte, off int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.whole == nil {
		rows := make([]byte, p.rows*p.size)
		if err := p.read(set, rows, 0); err != nil {
			return err
		}
		element := p.size / p.k
		whole := make([]byte, len(rows))
		for r := range p.rows {
			for c := range p.k {
				copy(whole[(c*p.rows+r)*element:][:element], rows[r*p.size+c*element:])
			}
		}
		p.whole = whole
	}
	copy(dst, p.whole[off:])
	return nil
}

// data is the open file of weights.
type data struct {
	*files
	set *gguf.Set
	pos int64
}

// ReadAt reads from the header and the tensors, which fill the file.
func (d *data) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 || off >= d.size {
		return 0, io.EOF
	}
	if int64(len(p)) > d.size-off {
		p, err = p[:d.size-off], io.EOF
	}
	if off < int64(len(d.header)) {
		n = copy(p, d.header[off:])
	}
	for n < len(p) {
		at := off + int64(n)
		i := sort.Search(len(d.parts), func(i int) bool { return d.parts[i].begin > at }) - 1
		x := d.parts[i]
		count := int(min(int64(len(p)-n), x.begin+int64(x.rows)*int64(x.size)-at))
		if err := x.readAt(d.set, p[n:n+count], at-x.begin); err != nil {
			return n, err
		}
		n += count
	}
	return n, err
}

// Read reads on.
func (d *data) Read(p []byte) (int, error) {
	n, err := d.ReadAt(p, d.pos)
	d.pos += int64(n)
	return n, err
}

// Stat describes the file.
func (d *data) Stat() (fs.FileInfo, error) { return info{weights, d.size}, nil }

// Close closes the GGUF files.
func (d *data) Close() error { return d.set.Close() }

// text is an open file that was made.
type text struct {
	*bytes.Reader
	info
}

func newText(name string, raw []byte) *text {
	return &text{bytes.NewReader(raw), info{name, int64(len(raw))}}
}

// Stat describes the file.
func (t *text) Stat() (fs.FileInfo, error) { return t.info, nil }

// Size is that of the reader.
func (t *text) Size() int64 { return t.info.size }

// Close does nothing.
func (t *text) Close() error { return nil }

// info describes a file of the folder.
type info struct {
	name string
	size int64
}

// The answers of a regular file that is as old as time.
func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return 0o444 }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return false }
func (i info) Sys() any           { return nil }
