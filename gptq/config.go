package gptq

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"nibble/quant"
)

// Values of checkpoint_format.
const (
	V1 = "gptq"    // zero points are stored less 1
	V2 = "gptq_v2" // zero points are stored as they are
)

// settings are the overrides of one entry of dynamic.
type settings struct {
	Bits      int  `json:"bits"`
	GroupSize int  `json:"group_size"`
	Sym       bool `json:"sym"`
	DescAct   bool `json:"desc_act"`
}

// Config returns the quantization_config. The settings that most modules have are the file's; the others get entries in
// dynamic, and so do linears left in float.
func (Format) Config(modules []quant.Module, o quant.Options) ([]byte, error) {
	format := o.CheckpointFormat
	if format == "" {
		format = V1
	}
	if format != V1 && format != V2 {
		return nil, fmt.Errorf("gptq: checkpoint format %q: it can be %q or %q", format, V1, V2)
	}
	base, err := commonest(modules)
	if err != nil {
		return nil, err
	}
	head := slices.ContainsFunc(modules, func(m quant.Module) bool { return m.Head && m.Spec != nil })
	return json.MarshalIndent(struct {
		Method string `json:"quant_method"`
		settings
		LMHead     bool                `json:"lm_head"`
		Checkpoint string              `json:"checkpoint_format"`
		Pack       string              `json:"pack_dtype"`
		Dynamic    ordered             `json:"dynamic,omitempty"`
		Meta       map[string][]string `json:"meta"`
	}{
		"gptq", base, head, format, "int32", overrides(modules, base),
		map[string][]string{"quantizer": {"nibble:" + o.Version}},
	}, "", "  ")
}

func settingsOf(s *quant.Spec) settings {
	return settings{Bits: s.Bits, GroupSize: s.Group, Sym: true}
}

// commonest returns the settings that most modules have, the earliest of equals.
func commonest(modules []quant.Module) (settings, error) {
	count := map[settings]int{}
	for _, m := range modules {
		if m.Spec == nil {
			continue
		}
		if m.Spec.Zero != quant.Symmetric {
			return settings{}, fmt.Errorf("gptq: %s: a grid with an %s: this program writes symmetric ones", m.Name, m.Spec.Zero)
		}
		count[settingsOf(m.Spec)]++
	}
	var best settings
	for _, m := range modules {
		if m.Spec != nil && count[settingsOf(m.Spec)] > count[best] {
			best = settingsOf(m.Spec)
		}
	}
	if best.Bits == 0 {
		return best, fmt.Errorf("gptq: %w", quant.ErrNoModules)
	}
	return best, nil
}

// overrides returns the entries of dynamic, in the order of the modules. Shards of a fused matrix share one, which
// names the fused matrix too, since vLLM asks for that.
func overrides(modules []quant.Module, base settings) ordered {
	type key struct {
		matrix string
		values string // "" for a linear left in float
	}
	names := map[key][]string{}
	var order []key
	for _, m := range modules {
		k := key{matrix: m.Name}
		if m.Fused != "" {
			k.matrix = m.Fused
		}
		switch {
		case m.Spec == nil && (m.Head || !m.FloatLinear()):
			continue // never quantized unless asked for
		case m.Spec != nil && settingsOf(m.Spec) == base:
			continue
		case m.Spec != nil:
			v, _ := json.Marshal(settingsOf(m.Spec)) // a struct of numbers and booleans
			k.values = string(v)
		}
		if names[k] == nil {
			order = append(order, k)
		}
		names[k] = append(names[k], m.Name)
	}
	var out ordered
	for _, k := range order {
		list := names[k]
		if !slices.Contains(list, k.matrix) {
			list = append(list, k.matrix)
		}
		if k.values == "" {
			out = append(out, member{"-:" + pattern(list), json.RawMessage("{}")})
		} else {
			out = append(out, member{pattern(list), json.RawMessage(k.values)})
		}
	}
	return out
}

// pattern returns a regular expression that matches exactly the names: model\.layers\.3\.mlp\.(gate_proj|up_proj)$.
// Readers anchor it at the start.
func pattern(names []string) string {
	if len(names) == 1 {
		return regexp.QuoteMeta(names[0]) + "$"
	}
	parent := names[0][:strings.LastIndexByte(names[0], '.')+1]
	for _, n := range names {
		for !strings.HasPrefix(n, parent) {
			parent = parent[:strings.LastIndexByte(strings.TrimSuffix(parent, "."), '.')+1]
		}
	}
	rest := make([]string, len(names))
	for i, n := range names {
		rest[i] = regexp.QuoteMeta(strings.TrimPrefix(n, parent))
	}
	return regexp.QuoteMeta(parent) + "(" + strings.Join(rest, "|") + ")$"
}

// ordered is a JSON object whose members keep their order, because the first pattern that matches a module wins.
type ordered []member

type member struct {
	key   string
	value json.RawMessage
}

// MarshalJSON writes the members in order.
func (o ordered) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, m := range o {
		b.WriteByte("{,"[min(i, 1)])
		key, err := json.Marshal(m.key)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads the members in order.
func (o *ordered) UnmarshalJSON(p []byte) error {
	if string(p) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(p))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("not an object")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var m member
		m.key, _ = key.(string) // in key position the decoder allows nothing else
		if err := d.Decode(&m.value); err != nil {
			return err
		}
		*o = append(*o, m)
	}
	return nil
}
