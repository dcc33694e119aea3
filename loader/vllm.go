package loader

import (
	"fmt"
	"slices"
	"strings"

	"nibble/quant"
)

// marlinGroups are the group sizes that vLLM has for GPTQ, also on CPU, since the check runs before a kernel is chosen.
var marlinGroups = []int{-1, 32, 64, 128}

// tinygemmGroups are those of PyTorch's int4 kernel, on which cpu_int4 rests.
var tinygemmGroups = []int{32, 64, 128, 256}

// cpuHeadDims are the head sizes for which vLLM 0.32's CPU attention is compiled.
var cpuHeadDims = []int{32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512}

func (c *check) vllmCPU() {
	c.headDim()
	if c.Format == "" {
		return
	}
	if c.Format == cpuInt4 {
		c.soft("", "cpu_int4 is read by the vLLM-Omni fork; vLLM itself does not know it", "--format gptq, awq or compressed-tensors")
	}
	c.mixtureOnCPU()
	c.tiedHead()
	c.cuts()
	c.fused()
	c.embedding()
	c.quantized(c.grid)
	c.quantized(c.columns)
	c.quantized(c.shardRows)
	c.quantized(c.headRows)
	c.matrixRows()
	c.quantized(c.amx)
	c.oneGroup()
	c.spread()
}

func (c *check) vllmGPU() {
	if c.Format == "" {
		return
	}
	if c.Format == cpuInt4 {
		c.hard("", "vLLM does not know cpu_int4", "--format gptq, awq or compressed-tensors")
		return
	}
	c.tiedHead()
	c.cuts()
	c.fused()
	c.embeddingOnGPU()
	c.quantized(c.gridOnGPU)
	c.quantized(c.fullGroups)
	c.quantized(c.shardRows)
	c.quantized(c.headRows)
	c.marlin()
	c.oneGroup()
	c.spread()
}

// headDim: vLLM 0.32 on CPU loads other head sizes and fails at the first token, quantized or not.
func (c *check) headDim() {
	if c.Arch == nil || c.Arch.HeadDim == 0 || slices.Contains(cpuHeadDims, c.Arch.HeadDim) {
		return
	}
	c.hard("", fmt.Sprintf("attention heads of %d: the CPU attention has %s, so this model cannot run there, quantized or not",
		c.Arch.HeadDim, list(cpuHeadDims)), "--target-loader vllm-gpu, transformers or none plans for another server")
}

// tiedHead: vLLM 0.24 failed on a quantized head in a tied model, or skipped it without a word; 0.32 uses it.
func (c *check) tiedHead() {
	for i := range c.Modules {
		if m := &c.Modules[i]; c.Tied && m.Head && m.Spec != nil {
			c.soft(m.Name, "the head is quantized and the config ties it to the embedding: vLLM 0.24 fails or ignores it, 0.32 uses it",
				"tie_word_embeddings: false")
		}
	}
}

// embedding: no loader on CPU but cpu_int4's looks rows up in a quantized table.
func (c *check) embedding() {
	c.quantized(func(m *Module) {
		if m.Embed && c.Format != cpuInt4 {
			c.hard(m.Name, fmt.Sprintf("a quantized input embedding: %s has none that is read", c.Format), "--embedding keep")
		}
	})
}

// embeddingOnGPU: vLLM's compressed-tensors has a lookup for symmetric tables, in Triton.
func (c *check) embeddingOnGPU() {
	c.quantized(func(m *Module) {
		if m.Embed && (c.Format != compressed || m.Spec.Zero != quant.Symmetric) {
			c.hard(m.Name, "a quantized input embedding: only symmetric ones of compressed-tensors are read", "--embedding keep")
		}
	})
}

// grid: what vLLM 0.32 has CPU kernels for.
func (c *check) grid(m *Module) {
	if m.Embed && c.Format != cpuInt4 {
		return // refused as a whole
	}
	s := m.Spec
	switch {
	case c.Format == cpuInt4:
		c.groupIn(m, tinygemmGroups)
		return
	case int8Weights(s):
		c.int8Grid(m)
		return
	case s.Bits != 4:
		c.hard(m.Name, fmt.Sprintf("%d-bit codes: the CPU kernel has 4", s.Bits), c.fourBits())
	}
	if c.Format == gptq {
		c.symmetric(m)
		c.groupIn(m, marlinGroups)
		return
	}
	if !whole(s) && s.Group%2 != 0 {
		c.shape(m, fmt.Sprintf("groups of %d: the CPU kernel has even ones", s.Group), c.regroup()...)
	}
}

// fourBits is the fix for other widths.
func (c *check) fourBits() string {
	if c.Format == compressed {
		return "--bits 4, --scheme W4A16 or W8A8, or --target-loader vllm-gpu"
	}
	return "--bits 4, or --target-loader vllm-gpu"
}

// gridOnGPU: what vLLM 0.24's Marlin kernels have. Other groups may find another kernel, which was not tried.
func (c *check) gridOnGPU(m *Module) {
	s := m.Spec
	switch {
	case int8Weights(s):
		c.int8Grid(m)
		return
	case c.Format == awq && s.Bits != 4:
		c.hard(m.Name, fmt.Sprintf("%d-bit codes: awq has 4", s.Bits), "--bits 4")
	case s.Bits != 4 && s.Bits != 8:
		c.hard(m.Name, fmt.Sprintf("%d-bit codes: the kernels have 4 and 8", s.Bits), "--bits 4")
	}
	if c.Format == gptq {
		c.symmetric(m)
	}
	c.groupIn(m, marlinGroups)
}

// int8Grid: int8 weights for int8 activations are symmetric and have one scale a row.
func (c *check) int8Grid(m *Module) {
	if m.Spec.Zero != quant.Symmetric {
		c.hard(m.Name, "asymmetric int8 weights: with int8 activations they must be symmetric", "--sym")
	}
	if !whole(m.Spec) {
		c.hard(m.Name, fmt.Sprintf("int8 weights in groups of %d: with int8 activations a scale is for a row", m.Spec.Group), "--group -1")
	}
}

// symmetric: since 0.21 vLLM refuses GPTQ with sym false.
func (c *check) symmetric(m *Module) {
	if m.Spec.Zero != quant.Symmetric {
		c.hard(m.Name, fmt.Sprintf("gptq with %s: it must be symmetric", plural(m.Spec.Zero)),
			"--sym, or --format awq or compressed-tensors")
	}
}

func plural(z quant.Zero) string { return z.String() + " points" }

// groupIn verifies that the group size is one of a list.
func (c *check) groupIn(m *Module, sizes []int) {
	if g := m.Spec.Group; !slices.Contains(sizes, g) {
		c.shape(m, fmt.Sprintf("groups of %d: %s has %s", g, c.Format, list(sizes)), c.regroup()...)
	}
}

// fullGroups: a row is a whole number of groups, on every rank. Groups of a whole row may span ranks.
func (c *check) fullGroups(m *Module) {
	_, k, ok := c.share(m)
	if g := m.Spec.Group; ok && !whole(m.Spec) && k%g != 0 {
		c.shape(m, fmt.Sprintf("%d columns%s are not a multiple of the group size %d", k, c.perRank(), g), c.widths(m)...)
	}
}

// widths returns the fixes for a row's length.
func (c *check) widths(m *Module) []string {
	fixes := c.regroup()
	if mlp(m) && rowParallel(m.Role) {
		fixes = append([]string{"--pad-mlp auto"}, fixes...)
	}
	return fixes
}

// columns: vLLM 0.32's CPU kernel takes 32 columns at a time, besides full groups.
func (c *check) columns(m *Module) {
	c.fullGroups(m)
	_, k, ok := c.share(m)
	if !ok || c.Format == cpuInt4 || int8Weights(m.Spec) || k%32 == 0 {
		return
	}
	var fixes []string
	if mlp(m) && rowParallel(m.Role) {
		fixes = []string{"--pad-mlp auto"}
	}
	c.shape(m, fmt.Sprintf("%d columns%s are not a multiple of 32, as the CPU kernel wants them", k, c.perRank()), fixes...)
}

// packsZeros reports whether eight rows share a word of zero points.
func (c *check) packsZeros(s *quant.Spec) bool {
	return c.Format == gptq || c.Format == awq || c.Format == compressed && s.Zero == quant.Integer
}

// shardRows: a fused matrix is cut from words of eight zero points.
func (c *check) shardRows(m *Module) {
	n, _, ok := c.share(m)
	if ok && c.packsZeros(m.Spec) && n%8 != 0 {
		c.shape(m, fmt.Sprintf("%d rows%s are not a multiple of 8, the zero points in a word", n, c.perRank()))
	}
}

// headRows: GPTQ and AWQ heads are copied into a buffer whose rows are padded to 64, and vLLM 0.32 fails if they differ.
func (c *check) headRows(m *Module) {
	if m.Head && (c.Format == gptq || c.Format == awq) && m.N%64 != 0 {
		c.shape(m, fmt.Sprintf("%d rows of the head are not a multiple of 64", m.N), "--format compressed-tensors")
	}
}

// matrixRows: the CPU kernel takes 32 rows of a fused matrix at a time, cpu_int4's 16. Heads of compressed-tensors are
// padded by the loader, whole ones of GPTQ and AWQ have a stricter rule.
func (c *check) matrixRows() {
	unit := 32
	if c.Format == cpuInt4 {
		unit = 16
	}
	for _, x := range c.matrices {
		n, ok := c.rows(x)
		if !ok || n%unit == 0 {
			continue
		}
		for _, m := range x.parts {
			padded := m.Head && (c.Format == compressed || c.ranks == 1) || m.Embed
			if m.Spec == nil || int8Weights(m.Spec) || padded && c.Format != cpuInt4 {
				continue
			}
			var fixes []string
			if mlp(m) && !rowParallel(m.Role) {
				fixes = []string{"--pad-mlp auto"}
			}
			c.shape(m, fmt.Sprintf("%d rows of %s%s are not a multiple of %d, as the CPU kernel wants them",
				n, base(x.name), c.perRank(), unit), fixes...)
		}
	}
}

// marlin: Marlin works on 64 rows and 128 columns at a time. Which kernel vLLM takes for other shapes was not tried.
func (c *check) marlin() {
	for _, x := range c.matrices {
		n, ok := c.rows(x)
		for _, m := range x.parts {
			_, k, _ := c.share(m)
			if ok && m.Spec != nil && !int8Weights(m.Spec) && (n%64 != 0 || k%128 != 0) {
				c.soft(m.Name, fmt.Sprintf("a matrix [%d,%d]%s: Marlin takes multiples of 64 and 128, another kernel may be slower or missing",
					n, k, c.perRank()), "")
			}
		}
	}
}

// amx: on processors with AMX, vLLM computes 4-bit layers of bfloat16 models with int8 activations, in blocks of up to
// 128 columns that must not straddle groups or the end of a row.
func (c *check) amx(m *Module) {
	_, k, ok := c.share(m)
	s := m.Spec
	if !ok || c.Format == cpuInt4 || s.Bits != 4 || m.Embed {
		return
	}
	if g := s.GroupSize(k); g > 128 && g%128 != 0 {
		c.soft(m.Name, fmt.Sprintf("%s of %d columns%s: not a multiple of 128, so its int8 mode (AMX) fails; VLLM_CPU_INT4_W4A8=0 avoids it",
			s, k, c.perRank()), strings.Join(c.regroup(), ""))
	}
}
