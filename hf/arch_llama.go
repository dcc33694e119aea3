package hf

// The architectures that are the Llama skeleton with switches: pre-norm blocks, separate projections, a gated MLP.

func llama(t *table) {
	t.common(32000, false)
	bias := t.bool(false, "attention_bias")
	t.skeleton(attention{bias: bias, oBias: bias}, t.bool(false, "mlp_bias"))
}

func mistral(t *table) {
	t.common(32000, false)
	t.uniform(t.window(4096), t.rope("", nil, 10000))
	t.skeleton(attention{}, false)
}

func granite(t *table) {
	llama(t)
	t.EmbedScale = t.float(1, "embedding_multiplier")
	t.AttnScale = t.float(1, "attention_multiplier")
	t.ResidualScale = t.float(1, "residual_multiplier")
	t.LogitScale = 1 / t.float(1, "logits_scaling")
}

// smollm3 has layers without rotation; only they have a window, if there is one.
func smollm3(t *table) {
	t.common(128256, true)
	window, rope := 0, t.rope("", nil, 2e6)
	if t.bool(false, "use_sliding_window") {
		window = t.window(0)
	}
	every := t.int(4, "no_rope_layer_interval")
	list, types := t.ints("no_rope_layers"), t.layerTypes()
	t.blocks(func(i int) Block {
		b := Block{Rope: rope}
		if i < len(list) && list[i] == 0 || list == nil && every > 0 && (i+1)%every == 0 {
			b = Block{Window: window}
		}
		if i < len(types) {
			b.Window = 0
			if types[i] == sliding {
				b.Window = window
			}
		}
		return b
	})
	bias := t.bool(false, "attention_bias")
	t.skeleton(attention{bias: bias, oBias: bias}, t.bool(false, "mlp_bias"))
}

func qwen2(t *table) {
	t.common(151936, false)
	t.upperLayersSlide()
	t.skeleton(attention{bias: true}, false)
}

func qwen3(t *table) {
	t.common(151936, false)
	t.HeadDim = t.int(128, "head_dim")
	t.checkSizes()
	t.defaults()
	t.upperLayersSlide()
	t.skeleton(t.qwen3Attention(), false)
}

// upperLayersSlide is Qwen's rule: with use_sliding_window, layers from max_window_layers on have a window.
func (t *table) upperLayersSlide() {
	window, first := 0, t.int(28, "max_window_layers")
	if t.bool(false, "use_sliding_window") {
		window = t.window(4096)
	}
	rope, types := t.rope("", nil, 10000), t.layerTypes()
	t.blocks(func(i int) Block {
		if types != nil && i < len(types) && types[i] == sliding || types == nil && i >= first {
			return Block{Window: window, Rope: rope}
		}
		return Block{Rope: rope}
	})
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
		t.norm(MLPNorm, "post_attention_layernorm", t.Hidden)
		t.mlp("post_attention_layernorm", mlpBias)
	}
	t.output()
}

// block adds the attention half of layer i.
func (t *table) block(i int, a attention) {
	t.enter(i, "layers.")
	t.norm(AttnNorm, "input_layernorm", t.Hidden)
	a.input = "input_layernorm"
	t.attention(a)
	t.buffer("self_attn.rotary_emb.inv_freq", t.HeadDim/2)
}

func mixtral(t *table) {
	t.common(32000, false)
	t.Experts = t.int(8, "num_local_experts")
	t.TopK, t.NormTopK = t.int(2, "num_experts_per_tok"), true
	t.Eps = t.float(1e-5, "rms_norm_eps")
	t.uniform(t.window(0), t.rope("", nil, 1e6))
	t.embedding("embed_tokens")
	for i := range t.Layers {
		if t.err != nil {
			return
		}
		t.block(i, attention{})
		t.norm(MLPNorm, "post_attention_layernorm", t.Hidden)
		t.mixture(mixture{block: "block_sparse_moe", gate: "w1", up: "w3", down: "w2",
			experts: t.Experts, width: t.Intermediate, input: "post_attention_layernorm"})
	}
	t.output()
}

func qwen3moe(t *table) {
	t.common(151936, false)
	t.Experts = t.int(128, "num_experts", "num_local_experts")
	width := t.int(768, "moe_intermediate_size")
	t.TopK, t.NormTopK = t.int(8, "num_experts_per_tok"), t.bool(false, "norm_topk_prob")
	window := 0
	if t.bool(false, "use_sliding_window") {
		window = t.window(4096)
	}
	t.uniform(window, t.rope("", nil, 10000))
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
		t.norm(MLPNorm, "post_attention_layernorm", t.Hidden)
		if dense[i] || t.Experts == 0 || (i+1)%step != 0 {
			t.mlp("post_attention_layernorm", false)
			continue
		}
		t.mixture(mixture{block: "mlp", gate: "gate_proj", up: "up_proj", down: "down_proj",
			experts: t.Experts, width: width, input: "post_attention_layernorm"})
	}
	t.output()
}
