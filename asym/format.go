package asym

import (
	"encoding/json"
	"fmt"

	"nibble/quant"
	"nibble/safetensors"
)

// Format writes cpu_int4 checkpoints.
type Format struct{}

var _ quant.Format = Format{}

// Indices into the list of Tensors.
const (
	weightPacked = iota
	weightScale
	weightZero
)

// Name returns "cpu_int4".
func (Format) Name() string { return "cpu_int4" }

// RowsSplit returns true: everything is row-major, and the loader cuts fused projections by rows.
func (Format) RowsSplit() bool { return true }

// DefaultZero returns Float, the only kind of the format.
func (Format) DefaultZero() quant.Zero { return quant.Float }

// Sidecar returns "": the config is in config.json alone.
func (Format) Sidecar() string { return "" }

// Solver returns the solver of a 4-bit grid with a float zero, both stored as BF16.
func (Format) Solver(s quant.Spec) (quant.Solver, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("cpu_int4: %w", err)
	}
	switch {
	case s.Bits != 4:
		return nil, fmt.Errorf("cpu_int4: %d bits: the format has 4 only", s.Bits)
	case s.Group == -1:
		return nil, fmt.Errorf("cpu_int4: one group for a whole row: the config names a number, such as 64 or 128")
	case s.Zero != quant.Float:
		return nil, fmt.Errorf("cpu_int4: a grid with zero kind %q: the format has float zeros", s.Zero)
	case s.Scale != safetensors.BF16:
		return nil, fmt.Errorf("cpu_int4: scales of type %s: the format has BF16", s.Scale)
	case s.Int8:
		return nil, fmt.Errorf("cpu_int4: int8 activations: compressed-tensors can ask for them")
	}
	return NewSolver(s)
}

// Tensors lists weight_packed, weight_scale and weight_zero.
func (Format) Tensors(s quant.Spec, n, k int) []quant.TensorSpec {
	g := k / s.GroupSize(k)
	return []quant.TensorSpec{
		weightPacked: {Suffix: ".weight_packed", DType: safetensors.U8, Shape: []int{n, k / 2}},
		weightScale:  {Suffix: ".weight_scale", DType: safetensors.BF16, Shape: []int{n, g}},
		weightZero:   {Suffix: ".weight_zero", DType: safetensors.BF16, Shape: []int{n, g}},
	}
}

// CheckShape verifies that columns fill whole bytes and groups.
func (Format) CheckShape(s quant.Spec, _, k int) error {
	if k%2 != 0 {
		return fmt.Errorf("cpu_int4: %d columns are odd, and a byte holds two codes", k)
	}
	if err := s.CheckGroups(k); err != nil {
		return fmt.Errorf("cpu_int4: %w", err)
	}
	return nil
}

// Pack stores a strip of rows: one run of bytes in each tensor.
func (Format) Pack(_ quant.Spec, _ quant.Options, m *quant.Matrix, row0, _ int, put quant.Put) error {
	b, p := quant.Borrow(len(m.Codes) / 2)
	defer b.Return()
	quant.PackBits(p, m.Codes, 4) // rows are whole bytes
	if err := put(weightPacked, int64(row0*m.K/2), p); err != nil {
		return err
	}
	off := 2 * int64(row0*m.Groups())
	scales := make([]byte, 2*len(m.Scales))
	quant.EncodeFloats(scales, m.Scales, safetensors.BF16)
	if err := put(weightScale, off, scales); err != nil {
		return err
	}
	zeros := make([]byte, 2*len(m.Bias))
	quant.EncodeFloats(zeros, m.Bias, safetensors.BF16)
	return put(weightZero, off, zeros)
}

// Config returns the quantization_config, with the keys that the format's exporter writes.
func (Format) Config(modules []quant.Module, _ quant.Options) ([]byte, error) {
	var first *quant.Module
	var embed bool
	ignore := []string{}
	for i, m := range modules {
		switch {
		case m.FloatLinear():
			ignore = append(ignore, m.Name)
			continue
		case m.Spec == nil:
			continue
		case first == nil:
			first = &modules[i]
		case m.Spec.Group != first.Spec.Group:
			return nil, fmt.Errorf("cpu_int4: %s has groups of %d and %s of %d: the config has one group size for all modules",
				first.Name, first.Spec.Group, m.Name, m.Spec.Group)
		}
		embed = embed || m.Embed
	}
	if first == nil {
		return nil, fmt.Errorf("cpu_int4: %w", quant.ErrNoModules)
	}
	return json.MarshalIndent(struct {
		Method    string   `json:"quant_method"`
		Bits      int      `json:"bits"`
		Group     int      `json:"group_size"`
		Embed     bool     `json:"quantize_embedding"`
		Prefill   bool     `json:"prefill_dequant"`
		Threshold int      `json:"dequant_threshold"`
		Ignore    []string `json:"ignore"`
	}{"cpu_int4", 4, first.Spec.Group, embed, true, 2, ignore}, "", "  ")
}
