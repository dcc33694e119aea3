package asym

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"nibble/quant"
	"nibble/safetensors"
)

// reader reads one checkpoint.
type reader struct {
	spec   quant.Spec
	embed  bool
	ignore []string
}

// Open returns the reader for a quantization_config of the method cpu_int4. Every key has a default.
func Open(config []byte) (quant.Reader, error) {
	c := struct {
		Bits   int      `json:"bits"`
		Group  int      `json:"group_size"`
		Embed  bool     `json:"quantize_embedding"`
		Ignore []string `json:"ignore"`
	}{Bits: 4, Group: 64, Embed: true}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("cpu_int4: quantization_config: %w", err)
	}
	if c.Bits != 4 {
		return nil, fmt.Errorf("cpu_int4: quantization_config: bits %d: the format has 4 only", c.Bits)
	}
	if c.Group < 1 {
		return nil, fmt.Errorf("cpu_int4: quantization_config: group_size %d: it is 1 or more", c.Group)
	}
	return &reader{quant.Spec{Bits: 4, Group: c.Group, Zero: quant.Float, Scale: safetensors.BF16}, c.Embed, c.Ignore}, nil
}

// Format returns "cpu_int4".
func (r *reader) Format() string { return "cpu_int4" }

// Module returns the module of a tensor with one of the layout's suffixes.
func (r *reader) Module(tensor string, _ quant.Source) string {
	return quant.ModuleOf(tensor, ".weight_packed", ".weight_scale", ".weight_zero")
}

// Expect returns the file's settings (width, group size, kind of zero and type) for every module but those that ignore
// names, in full or by a dotted end, and the embedding if quantize_embedding is false.
func (r *reader) Expect(module string) *quant.Spec {
	ignored := slices.ContainsFunc(r.ignore, func(name string) bool {
		return module == name || strings.HasSuffix(module, "."+name)
	})
	if ignored || !r.embed && strings.Contains(module[strings.LastIndexByte(module, '.')+1:], "embed") {
		return nil
	}
	return &r.spec
}

// linear is one quantized matrix.
type linear struct {
	module string
	src    quant.Source
	n, k   int
	groups int
	spec   quant.Spec
}

// Open checks the tensors of a module against one another.
func (r *reader) Open(module string, src quant.Source) (quant.Linear, error) {
	packed, err := quant.Find(src, module, ".weight_packed", 2, safetensors.U8)
	if err != nil {
		return nil, err
	}
	scale, err := quant.Find(src, module, ".weight_scale", 2, safetensors.BF16)
	if err != nil {
		return nil, err
	}
	zero, err := quant.Find(src, module, ".weight_zero", 2, safetensors.BF16)
	if err != nil {
		return nil, err
	}
	l := &linear{module, src, packed.Shape[0], 2 * packed.Shape[1], scale.Shape[1], r.spec}
	if err := quant.CheckShape(scale, module, "weight_packed", l.n, l.groups); err != nil {
		return nil, err
	}
	if err := quant.CheckShape(zero, module, "weight_scale", l.n, l.groups); err != nil {
		return nil, err
	}
	if l.spec.Group, err = quant.FindGroup(module, scale.Name, l.k, l.groups, &r.spec); err != nil {
		return nil, err
	}
	return l, nil
}

// Shape returns rows and columns.
func (l *linear) Shape() (n, k int) { return l.n, l.k }

// Spec returns what the tensors say.
func (l *linear) Spec() quant.Spec { return l.spec }

// Tensors returns the names of the module's tensors.
func (l *linear) Tensors() []string {
	return []string{l.module + ".weight_packed", l.module + ".weight_scale", l.module + ".weight_zero"}
}

// Rows reads a strip.
func (l *linear) Rows(row0, rows int) (*quant.Matrix, error) {
	if err := quant.CheckStrip(row0, rows, l.n); err != nil {
		return nil, err
	}
	m := quant.NewMatrix(rows, l.k, 4, l.spec.Group, quant.Float)
	b, p := quant.Borrow(len(m.Codes) / 2)
	defer b.Return()
	if err := l.src.ReadAt(l.module+".weight_packed", p, int64(row0)*int64(l.k/2)); err != nil {
		return nil, err
	}
	quant.UnpackBits(m.Codes, p, 4)
	if err := l.floats(m.Scales, ".weight_scale", row0); err != nil {
		return nil, err
	}
	return m, l.floats(m.Bias, ".weight_zero", row0)
}

// floats reads rows of weight_scale or weight_zero from row0.
func (l *linear) floats(dst []float32, suffix string, row0 int) error {
	p := make([]byte, 2*len(dst))
	if err := l.src.ReadAt(l.module+suffix, p, 2*int64(row0)*int64(l.groups)); err != nil {
		return err
	}
	quant.DecodeFloats(dst, p, safetensors.BF16)
	return quant.CheckFinite(l.module, l.module+suffix, dst, row0, l.groups)
}
