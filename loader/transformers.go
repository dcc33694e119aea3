package loader

import (
	"fmt"
	"slices"

	"nibble/quant"
)

// gptqModelGroups are the group sizes of GPTQModel 7.7, through which transformers 5 reads GPTQ and AWQ.
var gptqModelGroups = []int{-1, 16, 32, 64, 128, 256, 512, 1024}

func (c *check) transformers() {
	switch c.Format {
	case gptq, awq:
		c.quantized(c.gptqModelGrid)
		c.quantized(c.randomHead)
		c.quantized(c.fullGroups)
		c.quantized(c.noLookup)
		c.oneSetting()
		c.oneGroup()
	case compressed:
		c.quantized(c.fullGroups)
		c.quantized(c.packedZeros)
	case cpuInt4:
		c.hard("", "transformers does not know cpu_int4", "--format gptq, awq or compressed-tensors")
	}
	c.quantized(c.conv1D)
}

// gptqModelGrid: bits and groups of GPTQModel's kernels.
func (c *check) gptqModelGrid(m *Module) {
	bits := []int{2, 3, 4, 8}
	if c.Format == awq {
		bits = []int{4}
	}
	if b := m.Spec.Bits; !slices.Contains(bits, b) {
		c.hard(m.Name, fmt.Sprintf("%d-bit codes: GPTQModel has %s", b, list(bits)), "--bits 4")
	}
	c.groupIn(m, gptqModelGroups)
}

// randomHead: only layers of the decoder are converted. transformers 5.24 reports the head's tensors as unexpected,
// initialises a new one and goes on.
func (c *check) randomHead(m *Module) {
	if m.Head {
		c.hard(m.Name, "a quantized head: transformers loads a random one in its place, with no error", "--lm-head keep")
	}
}

func (c *check) noLookup(m *Module) {
	if m.Embed {
		c.hard(m.Name, "a quantized input embedding is not read", "--embedding keep")
	}
}

// oneSetting: transformers takes every linear of the decoder layers for quantized in the one way the config states, and
// ignores dynamic, which says otherwise. A list of modules may leave whole kinds of linear out.
func (c *check) oneSetting() {
	if c.Format != gptq {
		return
	}
	var first *Module
	for i := range c.Modules {
		m := &c.Modules[i]
		switch {
		case !m.Role.Linear() || m.Spec == nil && (c.Listed || generic(c.Arch)):
		case m.Spec == nil:
			c.hard(m.Name, "a float linear among quantized ones: transformers ignores quantization_config.dynamic and would convert it",
				"--format awq or compressed-tensors")
		case first == nil:
			first = m
		case !alike(first.Spec, m.Spec):
			c.hard(m.Name, fmt.Sprintf("it is %s and %s is %s: transformers ignores quantization_config.dynamic, where single modules have their settings", m.Spec, first.Name, first.Spec),
				"one setting for all modules, or --format compressed-tensors")
		}
	}
}

// packedZeros: transformers 5.24 expects unpacked zero points; 5.17 reads them packed, as all writers store them.
func (c *check) packedZeros(m *Module) {
	if m.Spec.Zero == quant.Integer && !int8Weights(m.Spec) {
		c.soft(m.Name, "packed zero points: transformers 5.17 loads them, 5.24 does not", "--sym")
	}
}

// conv1D: GPT-2's matrices are of a class of their own, which only GPTQModel's GPTQ converts.
func (c *check) conv1D(m *Module) {
	if m.Class == "Conv1D" && c.Format != gptq && c.Format != cpuInt4 {
		c.hard(m.Name, fmt.Sprintf("its class is Conv1D: %s in transformers converts Linear", c.Format), "--format gptq")
	}
}
