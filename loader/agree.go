package loader

import (
	"fmt"

	"nibble/quant"
)

// fused: the projections of a fused matrix, and all experts of a layer, share one kernel. vLLM 0.32 refuses a mixture
// of float and quantized ones by name, and one of group sizes with an assertion that has no text.
func (c *check) fused() {
	first := map[string]*Module{}
	odd := map[string]string{}
	for i := range c.Modules {
		m := &c.Modules[i]
		if m.Fused == "" {
			continue
		}
		f := first[m.Fused]
		switch {
		case f == nil:
			first[m.Fused] = m
		case !alike(f.Spec, m.Spec) && odd[m.Fused] == "":
			odd[m.Fused] = fmt.Sprintf("%s is %s and %s is %s", base(f.Name), describe(f.Spec), base(m.Name), describe(m.Spec))
		}
	}
	c.quantized(func(m *Module) {
		if why := odd[m.Fused]; why != "" {
			c.shape(m, fmt.Sprintf("%s is one matrix, so its parts must agree: %s", m.Fused, why), "one setting for all of them")
		}
	})
}

// alike reports whether two modules can be parts of one matrix.
func alike(a, b *quant.Spec) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Bits == b.Bits && a.Group == b.Group && a.Zero == b.Zero && a.Int8 == b.Int8
}

func describe(s *quant.Spec) string {
	if s == nil {
		return "float"
	}
	return s.String()
}

// oneGroup: AWQ's config has one group size and one kind of zero for all modules.
func (c *check) oneGroup() {
	if c.Format != awq {
		return
	}
	var first *Module
	c.quantized(func(m *Module) {
		switch {
		case first == nil:
			first = m
		case !alike(first.Spec, m.Spec):
			c.hard(m.Name, fmt.Sprintf("it is %s and %s is %s: awq has one setting for all modules", m.Spec, first.Name, first.Spec),
				"--format gptq or compressed-tensors")
		}
	})
}

// spread names the modules that are fused with one whose shape does not fit: they cannot be quantized without it.
func (c *check) spread() {
	unfit := map[string]string{} // module by fused matrix
	named := map[string]bool{}
	fused := map[string]string{}
	for _, m := range c.Modules {
		fused[m.Name] = m.Fused
	}
	for _, p := range c.problems {
		if f := fused[p.Module]; p.Shape && f != "" {
			named[p.Module] = true
			if unfit[f] == "" {
				unfit[f] = p.Module
			}
		}
	}
	c.quantized(func(m *Module) {
		if u := unfit[m.Fused]; u != "" && !named[m.Name] {
			c.shape(m, fmt.Sprintf("%s, which does not fit, is a part of the same matrix", u))
		}
	})
}
