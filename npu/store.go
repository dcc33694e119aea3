package npu

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"nibble/internal/kernel"
	"nibble/internal/parallel"
	"nibble/npu/onnx"
)

// store is the plan of the file with the weights that all graphs of an export share: where everything is, before any of it
// is made.
type store struct {
	File    string
	Size    int64
	Weights int64 // bytes of the matrices that a token needs, their scales included

	model  *Model
	q      *Quantizer // nil: weights are float32
	params []*value
	losses []Loss                    // of the matrices that were written
	scales map[string][]float32      // of their output channels
	places map[string]*onnx.External // by tensor
}

// Alignments in the file: large tensors begin where Windows can map, small ones with a page.
const (
	page      = 4 << 10
	largePage = 64 << 10
	inline    = 1 << 10 // bytes from which a constant goes into the file
)

// newStore plans the file for the weights of a graph.
func newStore(g *graph, q *Quantizer, file string) *store {
	s := &store{File: file, model: g.Model, q: q, places: map[string]*onnx.External{}, scales: map[string][]float32{}}
	for _, v := range g.values {
		switch {
		case v.Kind == constant && s.elementBits(v)*len(v.Param.Values)/8 >= inline:
			s.place(v.Param.Name, int64(s.elementBits(v)*len(v.Param.Values)/8))
		case v.Kind == weight:
			w := v.Param.from
			n := (int64(w.n)*int64(w.k)*int64(s.elementBits(v)) + 7) / 8
			s.place(v.Param.Name, n)
			if q != nil && !v.Param.Table {
				n += 4 * int64(w.n)
				s.place(v.Param.Name+".scale", 4*int64(w.n))
			}
			if !v.Param.Table {
				s.Weights += n
			}
		default:
			continue
		}
		s.params = append(s.params, v)
	}
	return s
}

// elementBits is the size of an element of a parameter in the file.
func (s *store) elementBits(v *value) int {
	switch {
	case s.q == nil:
		return 32
	case v.Kind == constant || v.Param.Table:
		return s.q.act().Bits()
	}
	return s.q.bits(v.Param)
}

// place gives a tensor its place.
func (s *store) place(name string, n int64) {
	align := int64(page)
	if n >= largePage {
		align = largePage
	}
	at := (s.Size + align - 1) / align * align
	s.places[name] = &onnx.External{Location: s.File, Offset: at, Length: n}
	s.Size = at + n
}

// write makes the file, a matrix at a time.
func (s *store) write(w io.WriterAt, threads int, progress func(done, all int)) error {
	for i, v := range s.params {
		if progress != nil {
			progress(i, len(s.params))
		}
		var err error
		switch {
		case v.Kind == constant:
			_, err = w.WriteAt(s.vector(v), s.places[v.Param.Name].Offset)
		case v.Param.Table:
			err = s.table(w, v)
		default:
			err = s.matrix(w, v, threads)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// vector is a constant as it is stored.
func (s *store) vector(v *value) []byte {
	if s.q == nil {
		return floatBytes(v.Param.Values)
	}
	e := s.q.encoding(v)
	var b []byte
	for _, x := range v.Param.Values {
		b = e.Type.append(b, e.Code(x))
	}
	return b
}

// append appends a code. Two codes of 4 bits are the caller's to join.
func (d DType) append(b []byte, code int32) []byte {
	if d.Bits() == 16 {
		return binary.LittleEndian.AppendUint16(b, uint16(code))
	}
	return append(b, byte(code))
}

func floatBytes(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// table writes the embedding, as floats or on the grid of activations.
func (s *store) table(w io.WriterAt, v *value) error {
	p := v.Param
	at := s.places[p.Name].Offset
	row := make([]float32, p.from.k)
	for r := range p.from.n {
		if err := s.model.rows(p, row, p.from.k, r, 1); err != nil {
			return err
		}
		b := floatBytes
		if s.q != nil {
			e := s.q.encoding(v)
			b = func(row []float32) (b []byte) {
				for _, x := range row {
					b = e.Type.append(b, e.Code(x))
				}
				return b
			}
		}
		n, err := w.WriteAt(b(row), at)
		if err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

// matrix writes a matrix, transposed for MatMul, and the scales of its output channels.
func (s *store) matrix(w io.WriterAt, v *value, threads int) error {
	p := v.Param
	n, k := p.from.n, p.from.k
	bits := s.elementBits(v)
	size := max(bits/8, 1)
	out := make([]byte, n*k*size)
	scales := make([]float32, n)
	noise := make([][2]float64, (n+stripRows-1)/stripRows)
	err := parallel.Each(context.Background(), (n+stripRows-1)/stripRows, threads, func(i int) error {
		row := i * stripRows
		rows := min(stripRows, n-row)
		x, codes := make([]float32, rows*k), make([]int16, rows*k)
		if err := s.model.rows(p, x, k, row, rows); err != nil {
			return err
		}
		if s.q != nil {
			was := slices.Clone(x)
			for r := range rows {
				scales[row+r] = s.q.roundRow(p, row+r, bits, x[r*k:(r+1)*k], codes[r*k:], x[r*k:(r+1)*k])
			}
			noise[i][0], noise[i][1], _ = kernel.Noise(was, x)
		}
		put := func(at, i int) {
			switch {
			case s.q == nil:
				binary.LittleEndian.PutUint32(out[4*at:], math.Float32bits(x[i]))
			case size == 2:
				binary.LittleEndian.PutUint16(out[2*at:], uint16(codes[i]))
			default:
				out[at] = byte(codes[i])
			}
		}
		if p.Axis == 0 {
			for i := range x {
				put(row*k+i, i)
			}
			return nil
		}
		for c := range k {
			for r := range rows {
				put(c*n+row+r, r*k+c)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if bits == 4 {
		out = nibbles(out)
	}
	var signal, errors float64
	for _, x := range noise {
		signal, errors = signal+x[0], errors+x[1]
	}
	s.losses = append(s.losses, Loss{p.Name, sqnr(signal, errors)})
	s.scales[p.Name] = scales
	if got, want := int64(len(out)), s.places[p.Name].Length; got != want {
		return fmt.Errorf("npu: %s: %d bytes where %d were planned", p.Name, got, want)
	}
	if _, err := w.WriteAt(out, s.places[p.Name].Offset); err != nil || s.q == nil {
		return err
	}
	_, err = w.WriteAt(floatBytes(scales), s.places[p.Name+".scale"].Offset)
	return err
}

// nibbles joins codes of 4 bits, the first one of two in the low half.
func nibbles(codes []byte) []byte {
	n := (len(codes) + 1) / 2
	for i := range n {
		b := codes[2*i] & 15
		if 2*i+1 < len(codes) {
			b |= codes[2*i+1] << 4
		}
		codes[i] = b
	}
	return codes[:n]
}
