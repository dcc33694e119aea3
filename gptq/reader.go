package gptq

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"nibble/quant"
)

// reader reads one checkpoint, of the method gptq or auto-round.
type reader struct {
	auto     bool // auto-round
	base     quant.Spec
	zeros    convention
	planar   bool // gptq_p: only its 4-bit layout is known
	head     bool
	blocks   []string // auto-round: prefixes of what is quantized
	modules  []string // substrings of what is quantized
	rules    []rule
	exact    map[string]*quant.Spec // auto-round
	warnings []string
}

// rule is an entry of dynamic, or of auto-round's extra_config; a nil spec means float.
type rule struct {
	pattern *regexp.Regexp
	spec    *quant.Spec
}

// convention is how zero points are stored.
type convention int

const (
	plain convention = iota // v2
	wrap                    // v1: less 1, each code by itself
	carry                   // v1 as GPTQModel writes it: less 1 in every code of a word, borrows crossing codes
)

// fileConfig is the quantization_config as peers write it.
type fileConfig struct {
	Bits       *int            `json:"bits"`
	Group      *int            `json:"group_size"`
	Sym        *bool           `json:"sym"`
	Checkpoint string          `json:"checkpoint_format"`
	Format     string          `json:"format"` // another name for it
	Packing    string          `json:"packing_format"`
	Backend    string          `json:"backend"` // old name of packing_format
	LMHead     bool            `json:"lm_head"`
	Method     string          `json:"quant_method"`
	Modules    json.RawMessage `json:"modules_in_block_to_quantize"`
	Blocks     json.RawMessage `json:"block_name_to_quantize"`
	OldBlocks  json.RawMessage `json:"to_quant_block_names"`
	Dynamic    ordered         `json:"dynamic"`
	Extra      ordered         `json:"extra_config"`
	Version    string          `json:"autoround_version"`
	Meta       struct {
		Quantizer json.RawMessage `json:"quantizer"`
	} `json:"meta"`
}

// override is the part of a rule that concerns the layout.
type override struct {
	Bits  *int  `json:"bits"`
	Group *int  `json:"group_size"`
	Sym   *bool `json:"sym"`
}

// Open returns the reader for a quantization_config of the method gptq or auto-round, or for the object in
// quantize_config.json.
func Open(config []byte) (quant.Reader, error) {
	var c fileConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("gptq: quantization_config: %w", err)
	}
	if c.Bits == nil || c.Group == nil {
		return nil, errors.New("gptq: quantization_config: bits and group_size are required")
	}
	r := &reader{auto: strings.Contains(strings.ToLower(c.Method), "auto-round"), head: c.LMHead}
	var err error
	if r.base, err = c.with(quant.Spec{}, override{c.Bits, c.Group, c.Sym}); err != nil {
		return nil, fmt.Errorf("gptq: quantization_config: %w", err)
	}
	if r.auto {
		err = r.openAutoRound(&c)
	} else {
		err = r.openGPTQ(&c)
	}
	if err != nil {
		return nil, fmt.Errorf("gptq: quantization_config: %w", err)
	}
	return r, nil
}

// with returns base with the values that o sets. A missing sym means symmetric.
func (c *fileConfig) with(base quant.Spec, o override) (quant.Spec, error) {
	if o.Bits != nil {
		base.Bits = *o.Bits
	}
	if o.Group != nil {
		base.Group = *o.Group
	}
	if o.Sym != nil {
		base.Zero = quant.Symmetric
		if !*o.Sym {
			base.Zero = quant.Integer
		}
	}
	switch {
	case base.Bits < 2 || base.Bits > 8 && base.Bits != 16 && base.Bits != 32:
		return base, fmt.Errorf("bits %d: a width is 2 to 8 (16 or 32: float)", base.Bits)
	case base.Group == 0 || base.Group < -1:
		return base, fmt.Errorf("group_size %d: it is 1 or more, or -1", base.Group)
	}
	return base, nil
}

func (r *reader) openGPTQ(c *fileConfig) error {
	format := strings.ToLower(c.Checkpoint)
	if format == "" {
		format = strings.ToLower(c.Format)
	}
	switch format {
	case "", V1:
		r.zeros = wrap
		if strings.Contains(strings.ToLower(string(c.Meta.Quantizer)), "gptqmodel") {
			r.zeros = carry
		}
		if c.Version != "" && r.base.Zero == quant.Integer {
			r.warn("asymmetric v1 zero points written by auto-round: a zero point of 0 was stored as if it were 1, and such a group is off by one step")
		}
	case V2:
		r.zeros = plain
	case "gptq_p":
		r.zeros, r.planar = plain, true
	default:
		return fmt.Errorf("checkpoint_format %q is not supported: gptq, gptq_v2 and 4-bit gptq_p are", format)
	}
	if err := listOf(c.Modules, &r.modules); err != nil {
		return fmt.Errorf("modules_in_block_to_quantize: %w", err)
	}
	for _, m := range c.Dynamic {
		pattern, float := strings.CutPrefix(strings.TrimPrefix(m.key, "+:"), "-:")
		if err := r.addRule(c, "^(?:"+pattern+")", m.value, float); err != nil {
			return fmt.Errorf("dynamic %q: %w", m.key, err)
		}
	}
	return nil
}

func (r *reader) openAutoRound(c *fileConfig) error {
	packing := strings.ToLower(c.Packing + c.Backend)
	if strings.Contains(packing, "awq") {
		return fmt.Errorf("packing_format %q is not supported: auto_round:auto_gptq is", c.Packing+c.Backend)
	}
	r.zeros = wrap
	blocks := c.Blocks
	if len(blocks) == 0 {
		blocks = c.OldBlocks
	}
	if err := listOf(blocks, &r.blocks); err != nil {
		return fmt.Errorf("block_name_to_quantize: %w", err)
	}
	r.exact = map[string]*quant.Spec{}
	for _, m := range c.Extra {
		var err error
		if strings.ContainsAny(m.key, `*+?^$()[]{}|\`) {
			err = r.addRule(c, m.key, m.value, false)
		} else {
			r.exact[m.key], err = r.override(c, m.value)
		}
		if err != nil {
			return fmt.Errorf("extra_config %q: %w", m.key, err)
		}
	}
	return nil
}

// addRule adds a rule, or a warning if the pattern uses Python syntax that Go's regexp does not have.
func (r *reader) addRule(c *fileConfig, pattern string, value json.RawMessage, float bool) error {
	p, err := regexp.Compile(pattern)
	if err != nil {
		r.warn("a rule that cannot be read is ignored: %v", err)
		return nil
	}
	var spec *quant.Spec
	if !float {
		if spec, err = r.override(c, value); err != nil {
			return err
		}
	}
	r.rules = append(r.rules, rule{p, spec})
	return nil
}

// override returns the base with a rule's values, or nil if they ask for float.
func (r *reader) override(c *fileConfig, value json.RawMessage) (*quant.Spec, error) {
	var o override
	if err := json.Unmarshal(value, &o); err != nil {
		return nil, err
	}
	s, err := c.with(r.base, o)
	if err != nil || s.Bits > 8 {
		return nil, err
	}
	return &s, nil
}

// listOf reads a string with commas, a list of strings or a list of such lists.
func listOf(p json.RawMessage, out *[]string) error {
	if len(p) == 0 {
		return nil
	}
	var v any
	if err := json.Unmarshal(p, &v); err != nil {
		return err
	}
	return flatten(v, out)
}

func flatten(v any, out *[]string) error {
	switch v := v.(type) {
	case nil:
	case string:
		*out = append(*out, strings.Split(v, ",")...)
	case []any:
		for _, e := range v {
			if err := flatten(e, out); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("%v is not a list of names", v)
	}
	return nil
}

func (r *reader) warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

// Warnings returns what a user of the checkpoint should know.
func (r *reader) Warnings() []string { return r.warnings }

// Format says whose file it is and how it stores zero points.
func (r *reader) Format() string {
	if r.auto {
		return "AutoRound (GPTQ layout, v1 zero points)"
	}
	return [...]string{plain: "GPTQ (v2 zero points)", wrap: "GPTQ (v1 zero points)", carry: "GPTQ (v1 zero points of GPTQModel)"}[r.zeros]
}

// Module returns the module of a tensor with one of the layout's suffixes.
func (r *reader) Module(tensor string, _ quant.Source) string {
	return quant.ModuleOf(tensor, ".qweight", ".qzeros", ".scales", ".g_idx")
}

// Expect returns the settings of the first rule that matches, or the file's: width, group size and kind of zero.
func (r *reader) Expect(module string) *quant.Spec {
	if s, ok := r.exact[module]; ok {
		return s
	}
	listed := !quant.IsHead(module) || r.head
	for _, rule := range r.rules {
		if !rule.pattern.MatchString(module) {
			continue
		}
		if !r.auto && !listed {
			return nil
		}
		return rule.spec
	}
	in := func(name string) bool { return strings.Contains(module, name) }
	if !listed || r.modules != nil && !slices.ContainsFunc(r.modules, in) ||
		r.blocks != nil && !slices.ContainsFunc(r.blocks, func(b string) bool { return strings.HasPrefix(module, b) }) || r.base.Bits > 8 {
		return nil
	}
	return &r.base
}
