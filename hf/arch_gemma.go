package hf

// Gemma 2 and 3: norms that multiply by 1 + weight, also behind attention and MLP.

func gemma2(t *table) {
	t.common(256000, true)
	t.HeadDim = t.int(256, "head_dim")
	t.checkSizes()
	bias := t.bool(false, "attention_bias")
	t.sandwich(attention{bias: bias, oBias: bias})
}

func gemma3(t *table) {
	// Sparse hub configs leave out whatever equals the class default.
	t.Hidden, t.Intermediate = t.int(2304, "hidden_size"), t.int(9216, "intermediate_size")
	t.Layers = t.int(26, "num_hidden_layers")
	t.Heads, t.KVHeads = t.int(8, "num_attention_heads"), t.int(4, "num_key_value_heads")
	t.HeadDim = t.int(256, "head_dim")
	t.Vocab = t.int(262208, "vocab_size")
	t.Tied = t.bool(true, "tie_word_embeddings")
	bias := t.bool(false, "attention_bias")
	t.checkSizes()
	t.sandwich(attention{bias: bias, oBias: bias, qNorm: t.HeadDim, kNorm: t.HeadDim})
}

func (t *table) sandwich(a attention) {
	t.NormPlusOne = true
	t.embedding("embed_tokens")
	for i := range t.Layers {
		if t.err != nil {
			return
		}
		t.block(i, a)
		t.norm("post_attention_layernorm", t.Hidden)
		t.norm("pre_feedforward_layernorm", t.Hidden)
		t.mlp("pre_feedforward_layernorm", false)
		t.norm("post_feedforward_layernorm", t.Hidden)
	}
	t.output()
}
