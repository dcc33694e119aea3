package loader

import (
	"fmt"
	"strings"

	"nibble/hf"
	"nibble/quant"
)

// Check returns what the target has against the modules, rule by rule, and by module in their order. Where a shape does
// not fit, all modules of the fused matrix are named, so that leaving the named ones in float gives a build that loads.
func Check(t Target, in Input) []Problem {
	c := newCheck(t, in)
	switch t {
	case VLLMCPU:
		c.vllmCPU()
	case VLLMGPU:
		c.vllmGPU()
	case Transformers:
		c.transformers()
	case LlamaCpp:
		c.hard("", "llama.cpp reads GGUF, and this is a safetensors checkpoint", "convert the source model to GGUF")
	case None:
		c.quantized(c.fullGroups)
	}
	return c.problems
}

// QuantizesHead reports whether the target reads a quantized output head of the format, so that quantizing it is the
// sensible default. transformers 5.24 loads a random head in its place, without an error.
func QuantizesHead(t Target, format string) bool {
	return t != Transformers || format == compressed || format == cpuInt4
}

// DefaultSigned reports whether the target is known to read negative scales: vLLM 0.32 on CPU and GPTQModel's torch
// kernels do. The CUDA kernels were not tried.
func DefaultSigned(t Target) bool { return t != VLLMGPU }

// check collects the problems of one question.
type check struct {
	Input
	ranks    int
	groups   []int // group sizes to propose, the largest first
	matrices []matrix
	problems []Problem
}

// matrix is what a server computes as one: the modules that it fuses, or one that stands alone.
type matrix struct {
	name  string
	parts []*Module
}

func newCheck(t Target, in Input) *check {
	c := &check{Input: in, ranks: 1, groups: proposals(t, in.Format)}
	if t == VLLMCPU || t == VLLMGPU {
		c.ranks = max(in.TensorParallel, 1)
	}
	index := map[string]int{}
	for i := range c.Modules {
		m := &c.Modules[i]
		key := m.Name
		if m.Fused != "" {
			key = m.Fused
		}
		if m.Expert >= 0 { // an expert's gate and up are one matrix, its down another
			key = fmt.Sprintf("%s.%d.%t", m.Fused, m.Expert, m.Role == hf.Down)
		}
		at, ok := index[key]
		if !ok {
			at = len(c.matrices)
			index[key] = at
			c.matrices = append(c.matrices, matrix{name: key})
		}
		c.matrices[at].parts = append(c.matrices[at].parts, m)
	}
	for i, m := range c.matrices {
		if m.parts[0].Expert >= 0 {
			c.matrices[i].name = m.parts[0].Name
		}
	}
	return c
}

func (c *check) hard(module, rule, fix string) {
	c.problems = append(c.problems, Problem{Module: module, Rule: rule, Fix: fix})
}

func (c *check) soft(module, rule, fix string) {
	c.problems = append(c.problems, Problem{Module: module, Rule: rule, Fix: fix, Soft: true})
}

// shape reports that a module's shape does not fit. fixes are tried before the last resort, leaving it in float.
func (c *check) shape(m *Module, rule string, fixes ...string) {
	fixes = append(fixes, keep(m))
	c.problems = append(c.problems, Problem{Module: m.Name, Rule: rule, Fix: strings.Join(fixes, ", or "), Shape: true})
}

// keep returns the flag that leaves a module in float.
func keep(m *Module) string {
	switch {
	case m.Head:
		return "--lm-head keep"
	case m.Embed:
		return "--embedding keep"
	}
	return "--unfit keep"
}

// quantized calls f for every quantized module.
func (c *check) quantized(f func(m *Module)) {
	for i := range c.Modules {
		if c.Modules[i].Spec != nil {
			f(&c.Modules[i])
		}
	}
}

// whole reports whether a group is a whole row.
func whole(s *quant.Spec) bool { return s.Group < 0 }

// int8Weights reports whether a module has 8-bit weights for int8 activations, which have kernels of their own.
func int8Weights(s *quant.Spec) bool { return s.Int8 && s.Bits == 8 }

// list writes numbers as a sentence does.
func list(n []int) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint(n), " ", ", "), "[]") }

// base returns the last part of a module's name.
func base(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
