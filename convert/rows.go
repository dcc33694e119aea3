package convert

import (
	"encoding/binary"
	"fmt"

	"nibble/hf"
	"nibble/quant"
	"nibble/safetensors"
)

// rows reads rows of a float matrix, padded to the size of the output.
type rows struct {
	m        *hf.Model
	t        hf.Tensor
	dtype    safetensors.DType
	first    int // row of the tensor at which the matrix starts: a part of a fused one
	out, in  int // rows and columns that are there
	n, k     int // rows and columns of the output
	halves   int // 2 where rows are gate and up one behind the other and each is padded; otherwise 1
	elements int // bytes of an element
}

func newRows(m *hf.Model, t hf.Tensor) (*rows, error) {
	x, _ := m.Set.Lookup(t.Source)
	if !x.DType.IsFloat() {
		return nil, &quant.Defect{Module: t.Module(), Tensor: t.Name, Kind: quant.BadType,
			Detail: fmt.Sprintf("%s: only BF16, F16, F32 and F64 weights can be quantized", x.DType)}
	}
	return &rows{m: m, t: t, dtype: x.DType, out: t.Out(), in: t.In(), n: t.Out(), k: t.In(), halves: 1,
		elements: x.DType.Bits() / 8}, nil
}

// source returns the row of the stored matrix that output row n comes from, or -1 for a row of padding.
func (r *rows) source(n int) int {
	padded, real := r.n/r.halves, r.out/r.halves
	half, i := n/padded, n%padded
	if i >= real {
		return -1
	}
	return r.first + half*real + i
}

// read returns count rows of float32 from row0 on, [count, k]. The slice belongs to the worker.
func (r *rows) read(w *worker, row0, count int) ([]float32, error) {
	dst := grow(&w.floats, count*r.k)
	if r.t.Transposed {
		return dst, r.readColumns(w, dst, row0, count)
	}
	for n := 0; n < count; {
		src := r.source(row0 + n)
		if src < 0 {
			clear(dst[n*r.k : (n+1)*r.k])
			n++
			continue
		}
		run := 1 // rows that follow one another in the file
		for n+run < count && r.source(row0+n+run) == src+run {
			run++
		}
		raw := grow(&w.raw, run*r.in*r.elements)
		off := (r.t.Offset + int64(src)*int64(r.in)) * int64(r.elements)
		if err := r.m.Set.ReadAt(r.t.Source, raw, off); err != nil {
			return nil, err
		}
		for i := range run {
			row := dst[(n+i)*r.k : (n+i+1)*r.k]
			quant.DecodeFloats(row[:r.in], raw[i*r.in*r.elements:], r.dtype)
			clear(row[r.in:])
		}
		n += run
	}
	return dst, r.finite(dst, row0)
}

// readColumns reads rows of a matrix that is stored [in, out].
func (r *rows) readColumns(w *worker, dst []float32, row0, count int) error {
	clear(dst)
	have := min(count, max(r.out-row0, 0)) // rows behind the last are padding
	raw, line := grow(&w.raw, have*r.elements), grow(&w.row, have)
	for k := range r.in {
		if have == 0 {
			break
		}
		off := (r.t.Offset + int64(k)*int64(r.out) + int64(row0)) * int64(r.elements)
		if err := r.m.Set.ReadAt(r.t.Source, raw, off); err != nil {
			return err
		}
		quant.DecodeFloats(line, raw, r.dtype)
		for n, f := range line {
			dst[n*r.k+k] = f
		}
	}
	return r.finite(dst, row0)
}

// finite names the first weight that is not.
func (r *rows) finite(w []float32, row0 int) error {
	if i := quant.NonFinite(w); i >= 0 {
		return fmt.Errorf("convert: %s: row %d, column %d is %v: %w; --allow-nonfinite keeps such tensors as they are",
			r.t.Name, r.source(row0+i/r.k), i%r.k, w[i], quant.ErrNonFinite)
	}
	return nil
}

// nonFinite returns the offset of the first NaN or infinity in stored elements, or -1. Types that are not weights have
// none.
func nonFinite(d safetensors.DType, raw []byte) int {
	size := d.Bits() / 8
	var exponent uint64 // its bits, all set in what is not finite
	switch d {
	case safetensors.BF16:
		exponent = 0x7f80
	case safetensors.F16:
		exponent = 0x7c00
	case safetensors.F32:
		exponent = 0x7f800000
	case safetensors.F64:
		exponent = 0x7ff0000000000000
	default:
		return -1
	}
	// Eight bytes at a time: in an element of ones the exponent's lowest bit, added, carries into the sign.
	var exponents, lowest, signs uint64
	for shift := 0; shift < 64; shift += 8 * size {
		exponents |= exponent << shift
		lowest |= exponent & -exponent << shift
		signs |= 1 << (8*size - 1) << shift
	}
	i := 0
	for ; i+8 <= len(raw); i += 8 {
		if (binary.LittleEndian.Uint64(raw[i:])&exponents+lowest)&signs != 0 {
			break
		}
	}
	for ; i+size <= len(raw); i += size {
		var bits uint64
		for b := range size {
			bits |= uint64(raw[i+b]) << (8 * b)
		}
		if bits&exponent == exponent {
			return i
		}
	}
	return -1
}

// unpadded returns the rows and columns of an output matrix that are there in the source.
func (r *rows) unpadded(m *quant.Matrix) *quant.Matrix {
	if r.n == r.out && r.k == r.in {
		return m
	}
	x := quant.NewMatrix(r.out, r.in, m.Bits, min(m.Group, r.in), m.Zero)
	to := 0
	for n := range m.N {
		if r.source(n) < 0 {
			continue
		}
		g, all := x.Groups(), m.Groups()
		copy(x.Codes[to*x.K:(to+1)*x.K], m.Codes[n*m.K:])
		copy(x.Scales[to*g:(to+1)*g], m.Scales[n*all:])
		if m.Zeros != nil {
			copy(x.Zeros[to*g:(to+1)*g], m.Zeros[n*all:])
		}
		if m.Bias != nil {
			copy(x.Bias[to*g:(to+1)*g], m.Bias[n*all:])
		}
		to++
	}
	return x
}
