package hf

// olmo2 is the table of OLMo 2 and 3: norms behind attention and MLP only, so no norm feeds a linear, and q and k are
// normed as whole vectors.
func olmo2(t *table) {
	t.common(50304, false)
	bias := t.bool(false, "attention_bias")
	t.embedding("embed_tokens")
	for i := range t.Layers {
		if t.err != nil {
			return
		}
		t.enter(i, "layers.")
		t.attention(attention{bias: bias, oBias: bias, qNorm: t.Heads * t.HeadDim, kNorm: t.KVHeads * t.HeadDim})
		t.buffer("self_attn.rotary_emb.inv_freq", t.HeadDim/2)
		t.norm("post_attention_layernorm", t.Hidden)
		t.mlp("", false)
		t.norm("post_feedforward_layernorm", t.Hidden)
	}
	t.output()
}
