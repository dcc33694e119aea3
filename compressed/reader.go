package compressed

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"nibble/quant"
)

// reader reads one checkpoint.
type reader struct {
	format   string
	ignore   []target
	targets  []target // names first, then patterns, then the class
	warnings []string
}

// target is one entry of targets or ignore.
type target struct {
	name    string         // of a module; "" for a pattern or a class
	pattern *regexp.Regexp // nil for a name or a class
	spec    *quant.Spec    // of a target
}

// class is the target that stands for every linear. Other class names are taken as names of modules, which none has.
const class = "Linear"

// fileConfig is the part of a quantization_config that concerns the layout, as peers write it.
type fileConfig struct {
	Format string   `json:"format"`
	Ignore []string `json:"ignore"`
	Groups map[string]struct {
		Targets []string    `json:"targets"`
		Format  string      `json:"format"`
		Weights *fileScheme `json:"weights"`
		Input   *fileScheme `json:"input_activations"`
	} `json:"config_groups"`
}

// fileScheme is a scheme, leniently.
type fileScheme struct {
	Bits      int    `json:"num_bits"`
	Type      string `json:"type"`
	Symmetric *bool  `json:"symmetric"`
	Strategy  string `json:"strategy"`
	Group     *int   `json:"group_size"`
}

// Open returns the reader for a quantization_config of the method compressed-tensors.
func Open(config []byte) (quant.Reader, error) {
	var c fileConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("compressed-tensors: quantization_config: %w", err)
	}
	r := &reader{format: c.Format}
	for _, name := range c.Ignore {
		r.add(&r.ignore, name, nil)
	}
	var names, patterns, classes []target
	for _, key := range slices.Sorted(maps.Keys(c.Groups)) {
		g := c.Groups[key]
		if g.Weights == nil {
			continue // activations only, such as a quantized cache
		}
		format := g.Format
		if format == "" {
			format = c.Format
		}
		if format != packQuantized && format != intQuantized {
			return nil, fmt.Errorf("compressed-tensors: quantization_config: %s: format %q is not supported: %s and %s are", key, format, packQuantized, intQuantized)
		}
		spec, err := g.Weights.spec()
		if err != nil {
			return nil, fmt.Errorf("compressed-tensors: quantization_config: %s: %w", key, err)
		}
		spec.Int8 = format == intQuantized && g.Input != nil
		for _, t := range g.Targets {
			switch {
			case t == class:
				classes = append(classes, target{spec: spec})
			case strings.HasPrefix(t, "re:"):
				r.add(&patterns, t, spec)
			default:
				r.add(&names, t, spec)
			}
		}
	}
	r.targets = slices.Concat(names, patterns, classes)
	return r, nil
}

// add appends a name, or a pattern behind "re:", which is anchored at the start. A pattern in Python syntax that Go's
// regexp does not have is left out with a warning.
func (r *reader) add(list *[]target, name string, spec *quant.Spec) {
	expr, ok := strings.CutPrefix(name, "re:")
	if !ok {
		*list = append(*list, target{name: name, spec: spec})
		return
	}
	p, err := regexp.Compile("^(?:" + expr + ")")
	if err != nil {
		r.warnings = append(r.warnings, fmt.Sprintf("a pattern that cannot be read is ignored: %v", err))
		return
	}
	*list = append(*list, target{pattern: p, spec: spec})
}

func (s *fileScheme) spec() (*quant.Spec, error) {
	spec := &quant.Spec{Bits: s.Bits, Group: -1}
	if s.Symmetric != nil && !*s.Symmetric {
		spec.Zero = quant.Integer
	}
	if s.Strategy == "group" && s.Group != nil || s.Strategy == "" && s.Group != nil && *s.Group > 0 {
		spec.Group = *s.Group
	}
	switch {
	case s.Type != "" && s.Type != "int":
		return nil, fmt.Errorf("weights of type %q are not supported: int is", s.Type)
	case s.Bits < 2 || s.Bits > 8:
		return nil, fmt.Errorf("num_bits %d: a width is 2 to 8", s.Bits)
	case spec.Group < 1 && spec.Group != -1:
		return nil, fmt.Errorf("group_size %d: it is 1 or more", spec.Group)
	case s.Strategy != "" && s.Strategy != "group" && s.Strategy != "channel" && s.Strategy != "tensor":
		return nil, fmt.Errorf("strategy %q is not supported: group, channel and tensor are", s.Strategy)
	}
	return spec, nil
}

// Warnings returns what a user of the checkpoint should know.
func (r *reader) Warnings() []string { return r.warnings }

// Format names the format.
func (r *reader) Format() string { return "compressed-tensors (" + r.format + ")" }

// Expect returns the scheme (width, group size, kind of zero, int8 activations) of the first target that matches, unless
// the module is ignored.
func (r *reader) Expect(module string) *quant.Spec {
	if find(r.ignore, module) != nil {
		return nil
	}
	if t := find(r.targets, module); t != nil {
		return t.spec
	}
	return nil
}

func find(list []target, module string) *target {
	for i := range list {
		switch t := &list[i]; {
		case t.pattern != nil:
			if t.pattern.MatchString(module) {
				return t
			}
		case t.name == "" || t.name == module:
			return t
		}
	}
	return nil
}

// Module returns the module of a tensor with one of the layout's suffixes, or of a weight that has a scale beside it.
func (r *reader) Module(tensor string, src quant.Source) string {
	if m, ok := strings.CutSuffix(tensor, ".weight"); ok {
		_, scaled := src.Lookup(m + ".weight_scale")
		if _, packed := src.Lookup(m + ".weight_packed"); scaled && !packed {
			return m
		}
		return ""
	}
	return quant.ModuleOf(tensor, ".weight_packed", ".weight_scale", ".weight_zero_point", ".weight_shape", ".weight_g_idx",
		".input_scale", ".input_zero_point")
}
