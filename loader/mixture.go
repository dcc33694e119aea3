package loader

import "nibble/quant"

// mixtureOnCPU: vLLM 0.32's int4 kernel for experts was read, not run. It needs AMX, takes the zero points of a GPTQ
// file as v1 ones even where linears ignore them, and adds 1 to those of every other format too.
func (c *check) mixtureOnCPU() {
	said := false
	c.quantized(func(m *Module) {
		if m.Expert < 0 || c.Format == cpuInt4 || int8Weights(m.Spec) {
			return
		}
		if !said {
			c.soft("", "4-bit experts need a processor with AMX", "")
			said = true
		}
		switch {
		case m.Spec.Zero != quant.Symmetric:
			c.hard(m.Name, "zero points of asymmetric experts are read 1 too high", "--sym")
		case c.Format == gptq && c.CheckpointFormat == "gptq_v2":
			c.hard(m.Name, "zero points of experts are read as v1, so those of gptq_v2 are 1 too high", "--checkpoint-format gptq")
		}
	})
}
