package awq

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"nibble/gptq"
	"nibble/internal/kernel"
	"nibble/quant"
	"nibble/safetensors"
)

// Format writes AWQ checkpoints of the GEMM version.
type Format struct{}

var _ quant.Format = Format{}

// Indices into the list of Tensors.
const (
	qweight = iota
	qzeros
	scales
)

// Name returns "awq".
func (Format) Name() string { return "awq" }

// RowsSplit returns false: a file holds the projections that the model's own class has.
func (Format) RowsSplit() bool { return false }

// DefaultZero returns Integer, the usual kind.
func (Format) DefaultZero() quant.Zero { return quant.Integer }

// Sidecar returns "": the config is in config.json alone.
func (Format) Sidecar() string { return "" }

// Solver returns the solver of a 4-bit grid, with an integer zero or symmetric.
func (Format) Solver(s quant.Spec) (quant.Solver, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("awq: %w", err)
	}
	switch {
	case s.Bits != 4:
		return nil, fmt.Errorf("awq: %d bits: the format has 4 only; gptq and compressed-tensors hold 8", s.Bits)
	case s.Zero == quant.Float:
		return nil, fmt.Errorf("awq: a grid with a float zero: the format has integer zeros; cpu_int4 holds float ones")
	case s.Int8:
		return nil, fmt.Errorf("awq: int8 activations: compressed-tensors can ask for them")
	case s.Zero == quant.Symmetric:
		return gptq.NewSolver(s)
	}
	return NewSolver(s)
}

// Tensors lists qweight, qzeros and scales.
func (Format) Tensors(s quant.Spec, n, k int) []quant.TensorSpec {
	g := k / s.GroupSize(k)
	return []quant.TensorSpec{
		qweight: {Suffix: ".qweight", DType: safetensors.I32, Shape: []int{k, n / 8}},
		qzeros:  {Suffix: ".qzeros", DType: safetensors.I32, Shape: []int{g, n / 8}},
		scales:  {Suffix: ".scales", DType: s.Scale, Shape: []int{g, n}},
	}
}

// CheckShape verifies that rows fill whole words and columns whole groups.
func (Format) CheckShape(s quant.Spec, n, k int) error {
	if n%8 != 0 {
		return fmt.Errorf("awq: %d rows are not a multiple of 8, the codes in a word of qweight", n)
	}
	if err := s.CheckGroups(k); err != nil {
		return fmt.Errorf("awq: %w", err)
	}
	return nil
}

// Pack stores a strip of rows, which are columns of every tensor.
func (Format) Pack(s quant.Spec, _ quant.Options, m *quant.Matrix, row0, n int, put quant.Put) error {
	groups := m.Groups()
	b, p := quant.Borrow(m.K * m.N / 2) // no fewer than the zero points take
	defer b.Return()
	packColumns(p, m.Codes, m.N, m.K)
	if err := put.Columns(qweight, int64(row0/2), int64(n/2), m.K, p); err != nil {
		return err
	}

	zeros := m.Zeros
	if m.Zero == quant.Symmetric {
		zeros = slices.Repeat([]uint8{8}, m.N*groups)
	}
	p = p[:groups*m.N/2]
	packColumns(p, zeros, m.N, groups)
	if err := put.Columns(qzeros, int64(row0/2), int64(n/2), groups, p); err != nil {
		return err
	}

	return put.ScaleColumns(scales, m, s.Scale, row0, n)
}

// packColumns packs codes [n, k] into words [k, n/8]: the codes of eight rows make a word, in the order of kernel.Weave.
func packColumns(dst []byte, codes []uint8, n, k int) {
	b, words := quant.Borrow(n * k / 2) // [n/8, k]
	defer b.Return()
	for c := range n / 8 {
		kernel.Weave(words[4*c*k:], codes[8*c*k:], k)
	}
	kernel.Transpose32(dst, words, n/8, k)
}

// unpackColumns is the inverse of packColumns.
func unpackColumns(codes []uint8, src []byte, n, k int) {
	b, words := quant.Borrow(n * k / 2)
	defer b.Return()
	kernel.Transpose32(words, src, k, n/8)
	for c := range n / 8 {
		kernel.Unweave(codes[8*c*k:], words[4*c*k:], k)
	}
}

// Config returns the quantization_config. It has one group size and one kind of zero for the whole file.
func (Format) Config(modules []quant.Module, o quant.Options) ([]byte, error) {
	var first *quant.Module
	var head bool
	var float []string
	for i, m := range modules {
		switch {
		case m.FloatLinear():
			float = append(float, m.Name)
			continue
		case m.Spec == nil:
			continue
		case first == nil:
			first = &modules[i]
		case m.Spec.Group != first.Spec.Group || m.Spec.Zero != first.Spec.Zero:
			return nil, fmt.Errorf("awq: %s is %s and %s is %s: the config has one group size and one kind of zero for all modules; gptq and compressed-tensors can differ by module",
				first.Name, first.Spec, m.Name, m.Spec)
		}
		head = head || m.Head
	}
	if first == nil {
		return nil, fmt.Errorf("awq: %w", quant.ErrNoModules)
	}
	return json.MarshalIndent(struct {
		Method    string   `json:"quant_method"`
		ZeroPoint bool     `json:"zero_point"`
		Group     int      `json:"group_size"`
		Bits      int      `json:"bits"`
		Version   string   `json:"version"`
		LMHead    bool     `json:"lm_head"`
		Float     []string `json:"modules_to_not_convert"`
	}{
		"awq", first.Spec.Zero == quant.Integer, first.Spec.Group, first.Spec.Bits, "gemm", head, unambiguous(float, modules),
	}, "", "  ")
}

// unambiguous returns the names of the float linears, or nil if one of them is a part of a quantized module's name:
// loaders match substrings, so that layers.1.mlp would leave layers.1.mlp_extra in float as well.
func unambiguous(float []string, modules []quant.Module) []string {
	for _, m := range modules {
		if m.Spec == nil {
			continue
		}
		for _, f := range float {
			if strings.Contains(m.Name, f) || strings.Contains(m.Fused, f) {
				return nil
			}
		}
	}
	return float
}
