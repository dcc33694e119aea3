package awq

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"nibble/quant"
)

// reader reads one checkpoint.
type reader struct {
	spec  quant.Spec
	gemv  bool
	head  bool
	float []string // modules whose names contain one of these are in float
}

// Open returns the reader for a quantization_config of the method awq.
func Open(config []byte) (quant.Reader, error) {
	var c struct {
		Bits    *int     `json:"bits"`
		WBit    *int     `json:"w_bit"`
		Group   *int     `json:"group_size"`
		QGroup  *int     `json:"q_group_size"`
		Zero    *bool    `json:"zero_point"`
		Version string   `json:"version"`
		LMHead  bool     `json:"lm_head"`
		Float   []string `json:"modules_to_not_convert"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("awq: quantization_config: %w", err)
	}
	if c.Bits == nil {
		c.Bits = c.WBit
	}
	if c.Group == nil {
		c.Group = c.QGroup
	}
	if c.Bits == nil || c.Group == nil {
		return nil, errors.New("awq: quantization_config: bits and group_size are required")
	}
	r := &reader{spec: quant.Spec{Bits: *c.Bits, Group: *c.Group, Zero: quant.Integer}, head: c.LMHead, float: c.Float}
	if c.Zero != nil && !*c.Zero {
		r.spec.Zero = quant.Symmetric
	}
	switch version := strings.ToLower(c.Version); {
	case r.spec.Bits != 4:
		return nil, fmt.Errorf("awq: quantization_config: bits %d: the format has 4 only", r.spec.Bits)
	case r.spec.Group < 1 && r.spec.Group != -1:
		return nil, fmt.Errorf("awq: quantization_config: group_size %d: it is 1 or more, or -1", r.spec.Group)
	case version == "gemv":
		r.gemv = true
	case version != "" && version != "gemm":
		return nil, fmt.Errorf("awq: quantization_config: version %q is not supported: gemm and gemv are", c.Version)
	}
	return r, nil
}

// Format names the version of the layout.
func (r *reader) Format() string {
	if r.gemv {
		return "AWQ (gemv)"
	}
	return "AWQ (gemm)"
}

// Module returns the module of a tensor with one of the layout's suffixes.
func (r *reader) Module(tensor string, _ quant.Source) string {
	return quant.ModuleOf(tensor, ".qweight", ".qzeros", ".scales")
}

// Expect returns the file's settings (width, group size, kind of zero) for every module but the listed ones and, unless
// lm_head is true, the head.
func (r *reader) Expect(module string) *quant.Spec {
	if quant.IsHead(module) && !r.head || slices.ContainsFunc(r.float, func(f string) bool { return strings.Contains(module, f) }) {
		return nil
	}
	return &r.spec
}
