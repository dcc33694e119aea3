package formattest

import (
	"strings"

	"nibble/quant"
)

// Modules are those of a llama of one layer, all linears but the embedding quantized by spec.
func Modules(spec quant.Spec) []quant.Module {
	const layer = "model.layers.0."
	linear := func(name, fused string) quant.Module {
		m := quant.Module{Name: layer + name, N: 128, K: 128, Class: "Linear", Spec: &spec}
		if fused != "" {
			m.Fused = layer + fused
		}
		return m
	}
	return []quant.Module{
		{Name: "model.embed_tokens", N: 256, K: 128, Class: "Embedding", Embed: true},
		linear("self_attn.q_proj", "self_attn.qkv_proj"),
		linear("self_attn.k_proj", "self_attn.qkv_proj"),
		linear("self_attn.v_proj", "self_attn.qkv_proj"),
		linear("self_attn.o_proj", ""),
		linear("mlp.gate_proj", "mlp.gate_up_proj"),
		linear("mlp.up_proj", "mlp.gate_up_proj"),
		linear("mlp.down_proj", ""),
		{Name: "lm_head", N: 256, K: 128, Class: "Linear", Head: true, Spec: &spec},
	}
}

// Set gives the modules whose names contain part another spec, nil for float.
func Set(modules []quant.Module, part string, spec *quant.Spec) {
	for i := range modules {
		if strings.Contains(modules[i].Name, part) {
			modules[i].Spec = spec
		}
	}
}
