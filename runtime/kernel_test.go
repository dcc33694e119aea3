package runtime

import (
	"fmt"
	"testing"

	"nibble/formats"
	"nibble/internal/kernel"
)

// Every set of kernels gives the logits of the generic one, bit for bit, in every mode.
func TestKernels(t *testing.T) {
	for i, family := range []string{"llama-llama3", "qwen3moe", "gemma2", "gpt2", "spark2_5"} {
		g := readGolden(t, family)
		format := formats.All[i%len(formats.All)]
		plain, quantized := open(t, g.files(t)), quantize(t, g, format, 16)
		for _, mode := range []Mode{F32, A16, A8, A8Row} {
			b := plain
			if mode >= A8 {
				b = quantized
			}
			kernel.Use(t, "generic")
			want := run(t, load(t, b, mode, 2), g.Tokens, KVF32)
			for _, name := range kernel.Names() {
				kernel.Use(t, name)
				same(t, fmt.Sprintf("%s, %s, mode %d: ", family, name, mode), run(t, load(t, b, mode, 2), g.Tokens, KVF32), want, 0)
			}
		}
	}
}
