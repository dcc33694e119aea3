package gptq

import (
	"encoding/binary"
	"fmt"
	"math"

	"nibble/internal/kernel"
	"nibble/quant"
	"nibble/safetensors"
)

// Format writes GPTQ checkpoints.
type Format struct{}

var _ quant.Format = Format{}

// Indices into the list of Tensors.
const (
	qweight = iota
	qzeros
	scales
	gIdx
)

// Name returns "gptq".
func (Format) Name() string { return "gptq" }

// RowsSplit returns false: a file holds the projections that the model's own class has.
func (Format) RowsSplit() bool { return false }

// DefaultZero returns Symmetric, the only kind that it writes.
func (Format) DefaultZero() quant.Zero { return quant.Symmetric }

// Sidecar names the second copy of the config, beside config.json.
func (Format) Sidecar() string { return "quantize_config.json" }

// Solver returns the solver of a symmetric grid of 4 or 8 bits.
func (Format) Solver(s quant.Spec) (quant.Solver, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("gptq: %w", err)
	}
	switch {
	case s.Bits != 4 && s.Bits != 8:
		return nil, fmt.Errorf("gptq: %d bits: this program writes 4 and 8", s.Bits)
	case s.Zero != quant.Symmetric:
		return nil, fmt.Errorf("gptq: a grid with an %s: loaders disagree about the zero points of this format; awq and compressed-tensors hold it", s.Zero)
	case s.Int8:
		return nil, fmt.Errorf("gptq: int8 activations: compressed-tensors can ask for them")
	}
	return NewSolver(s)
}

// Tensors lists qweight, qzeros, scales and g_idx.
func (Format) Tensors(s quant.Spec, n, k int) []quant.TensorSpec {
	g := k / s.GroupSize(k)
	return []quant.TensorSpec{
		qweight: {Suffix: ".qweight", DType: safetensors.I32, Shape: []int{k * s.Bits / 32, n}},
		qzeros:  {Suffix: ".qzeros", DType: safetensors.I32, Shape: []int{g, n * s.Bits / 32}},
		scales:  {Suffix: ".scales", DType: s.Scale, Shape: []int{g, n}},
		gIdx:    {Suffix: ".g_idx", DType: safetensors.I32, Shape: []int{k}},
	}
}

// CheckShape verifies that rows, columns and groups fill whole words and groups.
func (Format) CheckShape(s quant.Spec, n, k int) error {
	per := 32 / s.Bits
	if k%per != 0 {
		return fmt.Errorf("gptq: %d columns are not a multiple of %d, the codes in a word of qweight", k, per)
	}
	if n%per != 0 {
		return fmt.Errorf("gptq: %d rows are not a multiple of %d, the zero points in a word of qzeros", n, per)
	}
	if err := s.CheckGroups(k); err != nil {
		return fmt.Errorf("gptq: %w", err)
	}
	return nil
}

// Pack stores a strip of rows, which are columns of qweight, qzeros and scales.
func (Format) Pack(s quant.Spec, o quant.Options, m *quant.Matrix, row0, n int, put quant.Put) error {
	if row0 == 0 {
		if err := put(gIdx, 0, naturalGroups(m.K, m.Group)); err != nil {
			return err
		}
	}
	words := m.K * m.Bits / 32
	b, rows := quant.Borrow(4 * words * m.N) // [m.N, words]
	defer b.Return()
	quant.PackBits(rows, m.Codes, m.Bits)
	b, p := quant.Borrow(len(rows)) // [words, m.N]
	defer b.Return()
	kernel.Transpose32(p, rows, m.N, words)
	if err := put.Columns(qweight, 4*int64(row0), 4*int64(n), words, p); err != nil {
		return err
	}

	z := m.ZeroStreams()
	if o.CheckpointFormat != V2 {
		lowerZeros(z, m.Bits)
	}
	if err := put.Columns(qzeros, int64(row0*m.Bits/8), int64(n*m.Bits/8), m.Groups(), z); err != nil {
		return err
	}

	return put.ScaleColumns(scales, m, s.Scale, row0, n)
}

// naturalGroups returns g_idx[k] = k / group.
func naturalGroups(k, group int) []byte {
	p := make([]byte, 0, 4*k)
	for i := range k {
		p = binary.LittleEndian.AppendUint32(p, uint32(i/group))
	}
	return p
}

// ones returns a word with a 1 in each field of the given width: 0x11111111 for 4 bits. Widths that do not divide 32
// have no such word.
func ones(width int) uint32 { return uint32(math.MaxUint32 / (uint64(1)<<width - 1)) }

// lowerZeros subtracts 1 from each zero point of the words in p: the v1 convention. None of them is 0 on a symmetric
// grid, so no word borrows and both ways of reading v1 agree.
func lowerZeros(p []byte, width int) {
	for i := 0; i < len(p); i += 4 {
		binary.LittleEndian.PutUint32(p[i:], binary.LittleEndian.Uint32(p[i:])-ones(width))
	}
}
