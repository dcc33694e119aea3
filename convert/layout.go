package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"nibble/hf"
	"nibble/quant"
	"nibble/safetensors"
)

// layOut fixes every byte of the output that is not a weight, and the place of those that are.
func (p *Plan) layOut() error {
	var specs []safetensors.Spec
	for i := range p.Items {
		if err := p.outputs(&p.Items[i]); err != nil {
			return err
		}
		specs = append(specs, p.Items[i].Outputs...)
	}
	for i := range p.Source.Tensors {
		p.Params += p.Source.Tensors[i].Elements()
	}
	if err := p.memory(); err != nil {
		return err
	}
	var err error
	if p.Weights, err = safetensors.NewPlan(specs, map[string]string{"format": "pt"}, p.MaxShard); err != nil {
		return err
	}
	return p.files()
}

// outputs lists the tensors that an item becomes.
func (p *Plan) outputs(it *Item) error {
	t := &it.Tensor
	if it.Spec == nil {
		x, _ := p.Source.Set.Lookup(t.Source)
		shape := t.Shape
		switch r := it.rows; {
		case r == nil:
		case len(shape) == 1: // a padded bias
			shape = []int{r.n}
		case t.Transposed: // is padded as it is stored
			r.t.Transposed = false
			r.out, r.in, r.n, r.k = r.in, r.out, r.k, r.n
			fallthrough
		default:
			shape = []int{r.n, r.k}
		}
		it.Outputs = []safetensors.Spec{{Name: t.Name, DType: x.DType, Shape: shape}}
		return nil
	}
	if it.rows == nil {
		var err error
		if it.rows, err = newRows(p.Source.Model, *t); err != nil {
			return err
		}
	}
	for _, x := range p.Format.Tensors(*it.Spec, it.N, it.K) {
		it.Outputs = append(it.Outputs, safetensors.Spec{Name: it.Name + x.Suffix, DType: x.DType, Shape: x.Shape})
	}
	return nil
}

// config is the source's config.json with what the build changes.
func (p *Plan) config() ([]byte, error) {
	c := p.Source.Config
	q, err := p.quantization("  ")
	if err != nil {
		return nil, err
	}
	if p.Source.Arch.Tied && !p.tied() {
		if c, err = c.Set("tie_word_embeddings", []byte("false")); err != nil {
			return nil, err
		}
	}
	if p.PadMLP > 0 {
		if c, err = c.Set(p.widthKey(), fmt.Append(nil, p.PadMLP)); err != nil {
			return nil, err
		}
	}
	if c, err = c.Set("quantization_config", q); err != nil {
		return nil, err
	}
	return c.Raw(), nil
}

// quantization returns the format's config, indented to stand inside an object at the given indent.
func (p *Plan) quantization(indent string) ([]byte, error) {
	modules := p.input().Modules
	list := make([]quant.Module, len(modules))
	for i, m := range modules {
		list[i] = m.Module
	}
	raw, err := p.Format.Config(list, p.Options)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, indent, "  "); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// files fixes the texts and lists the output. The size of the report, which comes last, is fixed here, too.
func (p *Plan) files() error {
	config, err := p.config()
	if err != nil {
		return err
	}
	if index := p.Weights.Index(); index != nil {
		p.texts = append(p.texts, text{indexName, index})
	}
	p.texts = append(p.texts, text{"config.json", config})
	if name := p.Format.Sidecar(); name != "" {
		side, err := p.quantization("")
		if err != nil {
			return err
		}
		p.texts = append(p.texts, text{name, append(side, '\n')})
	}
	var skipped []string
	if p.Files, skipped, err = listFiles(p.Source.Model, p.Weights, p.texts); err != nil {
		return err
	}
	if len(skipped) > 0 {
		p.Notes = append(p.Notes, "not carried over: "+strings.Join(skipped, ", "))
	}
	p.Files = append(p.Files, File{CardName, p.cardSize()})
	p.Files = append(p.Files, File{ReportName, p.reportSize()})
	return nil
}

// Bytes returns the size of the whole output.
func (p *Plan) Bytes() int64 { return totalSize(p.Files) }

// BitsPerWeight counts all bytes of all tensors over all weights of the source, tied ones once.
func (p *Plan) BitsPerWeight() float64 { return bitsPerWeight(p.tensorBytes(), p.Params) }

// tensorBytes counts all bytes of all tensors.
func (p *Plan) tensorBytes() int64 {
	if p.gguf != nil {
		return p.gguf.File.Bytes
	}
	return p.Weights.TotalSize
}

func bitsPerWeight(bytes, params int64) float64 { return 8 * float64(bytes) / float64(params) }

// padMLP widens the matrices of the dense MLP.
func (p *Plan) padMLP() error {
	if p.PadMLP == 0 {
		return nil
	}
	a := p.Source.Arch
	if a.Experts > 0 || a.Intermediate == 0 {
		return fmt.Errorf("convert: --pad-mlp pads dense MLPs, not those of %s", a.Name)
	}
	if p.PadMLP < 0 {
		unit := 32
		for i := range p.Items {
			if it := &p.Items[i]; it.Role == hf.Down && it.Spec != nil && it.Spec.Group > 0 {
				unit = lcm(unit, it.Spec.Group)
			}
		}
		unit *= max(p.TensorParallel, 1)
		p.PadMLP = (a.Intermediate + unit - 1) / unit * unit
	}
	if p.PadMLP < a.Intermediate {
		return fmt.Errorf("convert: --pad-mlp %d is less than the width %d of the MLP", p.PadMLP, a.Intermediate)
	}
	if p.PadMLP == a.Intermediate {
		p.PadMLP = 0 // fits as it is
		return nil
	}
	p.Notes = append(p.Notes, fmt.Sprintf("MLP padded with zeros from %d to %d", a.Intermediate, p.PadMLP))
	widened := map[string]bool{} // modules whose rows are the width of the MLP
	for i := range p.Items {
		it := &p.Items[i]
		widened[it.Name] = it.Role == hf.Gate || it.Role == hf.Up
	}
	for i := range p.Items {
		if err := p.pad(&p.Items[i], widened); err != nil {
			return err
		}
	}
	return nil
}

// pad gives one item the new width, if it has the old one.
func (p *Plan) pad(it *Item, widened map[string]bool) error {
	t := &it.Tensor
	bias := t.Role == hf.Bias && widened[strings.TrimSuffix(t.Name, ".bias")]
	if it.Role != hf.Gate && it.Role != hf.Up && it.Role != hf.GateUp && it.Role != hf.Down && !bias {
		return nil
	}
	x, _ := p.Source.Set.Lookup(t.Source)
	if x.DType == safetensors.F64 { // what stays in float would be rounded on its way
		return fmt.Errorf("convert: %s is F64: --pad-mlp pads BF16, F16 and F32 models", t.Name)
	}
	if bias {
		it.rows = &rows{m: p.Source.Model, t: *t, dtype: x.DType, out: t.Shape[0], in: 1, n: p.PadMLP, k: 1, halves: 1, elements: x.DType.Bits() / 8}
		return nil
	}
	r, err := newRows(p.Source.Model, *t)
	if err != nil {
		return err
	}
	switch it.Role {
	case hf.Down:
		r.k, it.K = p.PadMLP, p.PadMLP
	case hf.GateUp:
		r.halves = 2
		r.n, it.N = 2*p.PadMLP, 2*p.PadMLP
	default:
		r.n, it.N = p.PadMLP, p.PadMLP
	}
	it.rows = r
	return nil
}

// keepNonFinite leaves matrices in float that hold a NaN or an infinity, with all that servers fuse them with. It is the
// one step of planning that reads weights.
func (p *Plan) keepNonFinite() error {
	var w worker
	bad := map[string]bool{} // by fused name
	for i := range p.Items {
		it := &p.Items[i]
		if it.Spec == nil {
			continue
		}
		r := it.rows
		if r == nil {
			var err error
			if r, err = newRows(p.Source.Model, it.Tensor); err != nil {
				return err
			}
		}
		strip := max(block, (1<<20)/r.k/block*block)
		for row0 := 0; row0 < r.n; row0 += strip {
			_, err := r.read(&w, row0, min(strip, r.n-row0))
			if errors.Is(err, quant.ErrNonFinite) {
				it.Spec, it.Reason = nil, "holds a NaN or an infinity"
				bad[it.Fused] = true
				break
			}
			if err != nil {
				return err
			}
		}
	}
	for i := range p.Items {
		if it := &p.Items[i]; it.Spec != nil && it.Fused != "" && bad[it.Fused] {
			it.Spec, it.Reason = nil, "fused with a matrix that holds a NaN or an infinity"
		}
	}
	return nil
}

// widthKey is the key of config.json that holds the width of the MLP.
func (p *Plan) widthKey() string {
	if p.Source.Arch.Name == "GPT2LMHeadModel" {
		return "n_inner"
	}
	return "intermediate_size"
}

func lcm(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}
