package hf

// olmo2 is the table of OLMo 2 and 3: norms behind attention and MLP only, so no norm feeds a linear, and q and k are
// normed as whole vectors.
func olmo2(t *table) {
	t.common(50304, false)
	t.Eps = t.float(1e-5, "rms_norm_eps")
	if t.Name == "Olmo3ForCausalLM" {
		window, types := t.window(4096), t.layerTypes()
		full, local := t.twoRopes(5e5, 5e5)
		t.blocks(func(i int) Block {
			if types != nil && i < len(types) && types[i] == sliding || types == nil && (i+1)%4 != 0 {
				return Block{Window: window, Rope: local}
			}
			return Block{Rope: full}
		})
	}
	bias := t.bool(false, "attention_bias")
	t.embedding("embed_tokens")
	for i := range t.Layers {
		if t.err != nil {
			return
		}
		t.enter(i, "layers.")
		t.attention(attention{bias: bias, oBias: bias, qNorm: t.Heads * t.HeadDim, kNorm: t.KVHeads * t.HeadDim})
		t.buffer("self_attn.rotary_emb.inv_freq", t.HeadDim/2)
		t.norm(AttnOutNorm, "post_attention_layernorm", t.Hidden)
		t.mlp("", false)
		t.norm(MLPOutNorm, "post_feedforward_layernorm", t.Hidden)
	}
	t.output()
}
