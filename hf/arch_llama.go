package hf

// The architectures that are the Llama skeleton with switches: pre-norm blocks, separate projections, a gated MLP.

func llama(t *table) {
	t.common(32000, false)
	bias := t.bool(false, "attention_bias")
	t.skeleton(attention{bias: bias, oBias: bias}, t.bool(false, "mlp_bias"))
}

func mistral(t *table) {
	t.common(32000, false)
	t.skeleton(attention{}, false)
}

func granite(t *table) { llama(t) }

func smollm3(t *table) {
	t.common(128256, true)
	bias := t.bool(false, "attention_bias")
	t.skeleton(attention{bias: bias, oBias: bias}, t.bool(false, "mlp_bias"))
}

func qwen2(t *table) {
	t.common(151936, false)
	t.skeleton(attention{bias: true}, false)
}

func qwen3(t *table) {
	t.common(151936, false)
	t.HeadDim = t.int(128, "head_dim")
	t.checkSizes()
	t.skeleton(t.qwen3Attention(), false)
}

// qwen3Attention has a norm of head_dim on every head of q and k.
func (t *table) qwen3Attention() attention {
	bias := t.bool(false, "attention_bias")
	return attention{bias: bias, oBias: bias, qNorm: t.HeadDim, kNorm: t.HeadDim}
}

// skeleton adds embedding, layers, final norm and head.
func (t *table) skeleton(a attention, mlpBias bool) {
	t.embedding("embed_tokens")
	for i := range t.Layers {
		if t.err != nil {
			return
		}
		t.block(i, a)
		t.norm("post_attention_layernorm", t.Hidden)
		t.mlp("post_attention_layernorm", mlpBias)
	}
	t.output()
}

// block adds the attention half of layer i.
func (t *table) block(i int, a attention) {
	t.enter(i, "layers.")
	t.norm("input_layernorm", t.Hidden)
	a.input = "input_layernorm"
	t.attention(a)
	t.buffer("self_attn.rotary_emb.inv_freq", t.HeadDim/2)
}

func mixtral(t *table) {
	t.common(32000, false)
	t.Experts = t.int(8, "num_local_experts")
	t.embedding("embed_tokens")
	for i := range t.Layers {
		if t.err != nil {
			return
		}
		t.block(i, attention{})
		t.norm("post_attention_layernorm", t.Hidden)
		t.mixture(mixture{block: "block_sparse_moe", gate: "w1", up: "w3", down: "w2",
			experts: t.Experts, width: t.Intermediate, input: "post_attention_layernorm"})
	}
	t.output()
}

func qwen3moe(t *table) {
	t.common(151936, false)
	t.Experts = t.int(128, "num_experts", "num_local_experts")
	width := t.int(768, "moe_intermediate_size")
	step := max(t.int(1, "decoder_sparse_step"), 1)
	dense := map[int]bool{}
	for _, i := range t.ints("mlp_only_layers") {
		dense[i] = true
	}
	t.embedding("embed_tokens")
	for i := range t.Layers {
		if t.err != nil {
			return
		}
		t.block(i, t.qwen3Attention())
		t.norm("post_attention_layernorm", t.Hidden)
		if dense[i] || t.Experts == 0 || (i+1)%step != 0 {
			t.mlp("post_attention_layernorm", false)
			continue
		}
		t.mixture(mixture{block: "mlp", gate: "gate_proj", up: "up_proj", down: "down_proj",
			experts: t.Experts, width: width, input: "post_attention_layernorm"})
	}
	t.output()
}
