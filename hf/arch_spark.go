package hf

// spark is the table of Spark 2.5: one matrix for q, k and v, which only loaders of row-major layouts split by
// themselves, and a gate per head that reads the same normed input and is never quantized.
func spark(t *table) {
	t.common(131072, true)
	t.HeadDim = t.int(256, "head_dim")
	t.checkSizes()
	t.defaults()
	t.activation("hidden_act", "gelu")
	switch act := t.c.get("gate_attn_act_mode").String(); act {
	case "", "sigmoid":
	case "silu":
		t.GateSiLU = true
	default:
		t.refuse("gate_attn_act_mode %q is unknown", clip(act))
	}
	window, types := t.window(512), t.layerTypes()
	full, local := t.twoRopes(5e6, 1e4)
	t.blocks(func(i int) Block {
		if types != nil && i < len(types) && types[i] == sliding || types == nil && i%4 != 3 {
			return Block{Window: window, Rope: local}
		}
		return Block{Rope: full}
	})
	t.embedding("embedding")
	q, kv := t.Heads*t.HeadDim, t.KVHeads*t.HeadDim
	for i := range t.Layers {
		if t.err != nil {
			return
		}
		t.enter(i, "layers.")
		t.norm(AttnNorm, "input_layernorm", t.Hidden)
		x := t.linear(linear{name: "self_attn.q_k_v_proj", role: QKV, out: q + 2*kv, in: t.Hidden,
			input: "input_layernorm", fused: "self_attn.qkv_proj"})
		x.Parts = []Part{
			{t.prefix + "self_attn.q_proj", Q, q},
			{t.prefix + "self_attn.k_proj", K, kv},
			{t.prefix + "self_attn.v_proj", V, kv},
		}
		t.linear(linear{name: "self_attn.g_proj", role: HeadGate, out: t.Heads, in: t.Hidden, input: "input_layernorm"})
		t.linear(linear{name: "self_attn.out_proj", role: O, out: t.Hidden, in: q, input: "self_attn.q_k_v_proj"})
		t.norm(MLPNorm, "post_attention_layernorm", t.Hidden)
		t.mlp("post_attention_layernorm", false)
	}
	t.output()
}
