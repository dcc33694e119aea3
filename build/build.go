// Package build opens a checkpoint whatever it is made of: plain floats, or any quantized format that formats knows.
//
// It joins the table of the architecture (what the model needs), the config (what the file claims) and the tensors
// (what is there). A plain checkpoint is a build without quantized linears.
package build

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"nibble/formats"
	"nibble/hf"
	"nibble/quant"
	"nibble/safetensors"
)

// Build is an opened checkpoint.
type Build struct {
	*hf.Model
	Reader  quant.Reader            // nil for a plain checkpoint
	Linears map[string]quant.Linear // quantized linears by module
	Defects []*quant.Defect         // quantized modules that cannot be opened
	Legacy  bool                    // the options come from quantize_config.json or quant_config.json
}

// Open opens a folder. Modules that are broken are listed in Defects; everything else that is wrong is an error.
func Open(f *hf.Folder, o hf.Options) (*Build, error) {
	b := &Build{Linears: map[string]quant.Linear{}}
	options, legacy, err := quantization(f)
	if err != nil {
		return nil, err
	}
	b.Legacy = legacy
	set, err := safetensors.OpenSet(f.FS, f.Weights)
	if err != nil {
		return nil, err
	}
	if err := b.open(f, set, options, o); err != nil {
		set.Close()
		return nil, err
	}
	return b, nil
}

// open joins table, config and tensors.
func (b *Build) open(f *hf.Folder, set *safetensors.Set, options []byte, o hf.Options) (err error) {
	var modules []string
	if options != nil {
		if b.Reader, err = formats.Open(options); err != nil {
			return fmt.Errorf("%s: %w", f.In("config.json"), err)
		}
		o.Owner, o.Quantized = map[string]string{}, map[string]bool{}
		for _, t := range set.Tensors() {
			m := b.Reader.Module(t.Name, set)
			if m == "" {
				continue
			}
			o.Owner[t.Name] = m
			if !o.Quantized[m] {
				o.Quantized[m] = true
				modules = append(modules, m)
			}
		}
	} else if t := looksQuantized(set); t != "" {
		return fmt.Errorf("hf: %s: %w: %s is the tensor of a quantized layer, but config.json has no quantization_config",
			f.In(f.Weights), hf.ErrMismatch, t)
	}
	if b.Model, err = hf.Open(f, set, o); err != nil {
		return err
	}
	if r, ok := b.Reader.(interface{ Warnings() []string }); ok {
		b.Notes = append(b.Notes, r.Warnings()...)
	}
	for _, m := range modules {
		l, err := b.Reader.Open(m, set)
		var d *quant.Defect
		switch {
		case errors.As(err, &d):
			b.Defects = append(b.Defects, d)
		case err != nil:
			return err
		default:
			b.Linears[m] = l
		}
	}
	return b.shapes()
}

// shapes compares the quantized linears with the table; rows of a generic model take the shape from the layout.
func (b *Build) shapes() error {
	for i := range b.Tensors {
		t := &b.Tensors[i]
		l := b.Linears[t.Module()]
		if t.Source != "" || l == nil {
			continue
		}
		n, k := l.Shape()
		switch {
		case t.Shape == nil:
			t.Shape = []int{n, k}
		case n != t.Out() || k != t.In():
			b.Defects = append(b.Defects, &quant.Defect{Module: t.Module(), Kind: quant.BadShape,
				Detail: fmt.Sprintf("its tensors make a matrix [%d,%d], config.json demands [%d,%d]", n, k, t.Out(), t.In())})
			delete(b.Linears, t.Module())
		}
	}
	return nil
}

// Bytes returns what the tensors of a quantized linear take.
func (b *Build) Bytes(l quant.Linear) (n int64) {
	for _, name := range l.Tensors() {
		t, _ := b.Set.Lookup(name)
		n += t.Bytes()
	}
	return n
}

// quantization finds the options of a quantized checkpoint: in config.json, or in the file that older tools wrote.
func quantization(f *hf.Folder) (options []byte, legacy bool, err error) {
	if f.Config != nil {
		c, err := hf.ParseConfig(f.Config)
		if err != nil {
			return nil, false, err
		}
		if q := c.Quantization(); q != nil {
			return q, false, nil
		}
	}
	if f.Legacy == nil {
		return nil, false, nil
	}
	if !json.Valid(f.Legacy) || !gjson.ParseBytes(f.Legacy).IsObject() {
		return nil, false, fmt.Errorf("hf: %s: not a JSON object", f.In(f.LegacyName))
	}
	if gjson.GetBytes(f.Legacy, "quant_method").Exists() {
		return f.Legacy, true, nil
	}
	method := "gptq" // AutoGPTQ's file; llm-awq's and AutoAWQ's is quant_config.json
	if f.LegacyName == "quant_config.json" {
		method = "awq"
	}
	options, err = sjson.SetBytes(f.Legacy, "quant_method", method)
	return options, true, err
}

// looksQuantized returns the name of a tensor that only quantized checkpoints have, or "".
func looksQuantized(set *safetensors.Set) string {
	for _, t := range set.Tensors() {
		for _, suffix := range []string{".qweight", ".weight_packed", ".weight_scale", ".scales", ".weight_zero"} {
			if strings.HasSuffix(t.Name, suffix) {
				return t.Name
			}
		}
	}
	return ""
}
