package compressed

import (
	"encoding/binary"
	"fmt"

	"nibble/awq"
	"nibble/gptq"
	"nibble/internal/kernel"
	"nibble/quant"
	"nibble/safetensors"
)

// Format writes compressed-tensors checkpoints: pack-quantized or, for int8 activations, int-quantized.
type Format struct{}

var _ quant.Format = Format{}

// Indices into the list of Tensors. The shape is the last, if it is there.
const (
	codes = iota
	scale
	zeroPoint
)

// Name returns "compressed-tensors".
func (Format) Name() string { return "compressed-tensors" }

// RowsSplit returns false: a file holds the projections that the model's own class has.
func (Format) RowsSplit() bool { return false }

// DefaultZero returns Symmetric, as the W4A16 preset has it.
func (Format) DefaultZero() quant.Zero { return quant.Symmetric }

// Sidecar returns "": the config is in config.json alone.
func (Format) Sidecar() string { return "" }

// Solver returns the solver of a 4-bit grid, symmetric or with an integer zero, or of a symmetric 8-bit one.
func (Format) Solver(s quant.Spec) (quant.Solver, error) {
	if err := check(s); err != nil {
		return nil, fmt.Errorf("compressed-tensors: %w", err)
	}
	if s.Zero == quant.Integer {
		return awq.NewSolver(s)
	}
	return gptq.NewSolver(s)
}

func check(s quant.Spec) error {
	if err := s.Check(); err != nil {
		return err
	}
	switch {
	case s.Bits != 4 && s.Bits != 8:
		return fmt.Errorf("%d bits: this program writes 4 and 8", s.Bits)
	case s.Zero == quant.Float:
		return fmt.Errorf("a grid with a float zero: the format has integer zeros; cpu_int4 holds float ones")
	case s.Bits == 8 && s.Zero != quant.Symmetric:
		return fmt.Errorf("8 bits with an integer zero: loaders take symmetric 8-bit weights only")
	case s.Int8 && (s.Bits != 8 || s.Group != -1):
		return fmt.Errorf("int8 activations with %s weights: they need 8-bit weights with one scale per row", s)
	}
	return nil
}

// Tensors lists weight_packed, weight_scale, weight_zero_point (with an integer zero) and weight_shape; or weight and
// weight_scale under int8 activations.
func (Format) Tensors(s quant.Spec, n, k int) []quant.TensorSpec {
	g := k / s.GroupSize(k)
	scales := quant.TensorSpec{Suffix: ".weight_scale", DType: s.Scale, Shape: []int{n, g}}
	if s.Int8 {
		return []quant.TensorSpec{{Suffix: ".weight", DType: safetensors.I8, Shape: []int{n, k}}, scales}
	}
	t := []quant.TensorSpec{{Suffix: ".weight_packed", DType: safetensors.I32, Shape: []int{n, words(k, s.Bits)}}, scales}
	if s.Zero == quant.Integer {
		t = append(t, quant.TensorSpec{Suffix: ".weight_zero_point", DType: safetensors.I32, Shape: []int{words(n, s.Bits), g}})
	}
	return append(t, quant.TensorSpec{Suffix: ".weight_shape", DType: safetensors.I64, Shape: []int{2}})
}

// words returns the number of 32-bit words of a stream of n codes.
func words(n, width int) int { return quant.StreamBytes(n, width) / 4 }

// CheckShape verifies that columns fill whole groups and, with an integer zero, rows whole words.
func (Format) CheckShape(s quant.Spec, n, k int) error {
	if s.Zero == quant.Integer && n%(32/s.Bits) != 0 {
		return fmt.Errorf("compressed-tensors: %d rows are not a multiple of %d, the zero points in a word of weight_zero_point", n, 32/s.Bits)
	}
	if err := s.CheckGroups(k); err != nil {
		return fmt.Errorf("compressed-tensors: %w", err)
	}
	return nil
}

// putInts stores codes as int8, q − 128, piece by piece.
func putInts(q []uint8, off int64, put quant.Put) error {
	b, buf := quant.Borrow(min(len(q), 1<<20))
	defer b.Return()
	for len(q) > 0 {
		p := buf[:min(len(q), len(buf))]
		flip(p, q[:len(p)])
		if err := put(codes, off, p); err != nil {
			return err
		}
		q, off = q[len(p):], off+int64(len(p))
	}
	return nil
}

// flip sets dst to src with the highest bit of every byte turned over.
func flip(dst, src []byte) {
	i := 0
	for ; i+8 <= len(src); i += 8 {
		binary.LittleEndian.PutUint64(dst[i:], binary.LittleEndian.Uint64(src[i:])^0x8080808080808080)
	}
	for ; i < len(src); i++ {
		dst[i] = src[i] ^ 0x80
	}
}

// Pack stores a strip of rows: one run of bytes in each tensor.
func (f Format) Pack(s quant.Spec, _ quant.Options, m *quant.Matrix, row0, n int, put quant.Put) error {
	scales := make([]byte, len(m.Scales)*s.Scale.Bits()/8)
	quant.EncodeFloats(scales, m.Scales, s.Scale)
	if err := put(scale, int64(row0*m.Groups()*s.Scale.Bits()/8), scales); err != nil {
		return err
	}
	if s.Int8 {
		return putInts(m.Codes, int64(row0*m.K), put)
	}
	size := quant.StreamBytes(m.K, m.Bits)
	b, p := quant.Borrow(m.N * size)
	defer b.Return()
	for r := range m.N {
		quant.PackBits(p[r*size:(r+1)*size], m.Codes[r*m.K:(r+1)*m.K], m.Bits)
	}
	if err := put(codes, int64(row0*size), p); err != nil {
		return err
	}
	if s.Zero == quant.Integer {
		z := m.ZeroStreams() // [groups, words]
		p = make([]byte, len(z))
		kernel.Transpose32(p, z, m.Groups(), words(m.N, m.Bits))
		if err := put(zeroPoint, int64(row0*m.Bits/8*m.Groups()), p); err != nil {
			return err
		}
	}
	if row0 != 0 {
		return nil
	}
	shape := len(f.Tensors(s, n, m.K)) - 1
	p = binary.LittleEndian.AppendUint64(nil, uint64(n))
	return put(shape, 0, binary.LittleEndian.AppendUint64(p, uint64(m.K)))
}
