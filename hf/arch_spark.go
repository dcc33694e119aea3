package hf

// spark is the table of Spark 2.5: one matrix for q, k and v, which only loaders of row-major layouts split by
// themselves, and a gate per head that reads the same normed input and is never quantized.
func spark(t *table) {
	t.common(131072, true)
	t.HeadDim = t.int(256, "head_dim")
	t.checkSizes()
	t.embedding("embedding")
	q, kv := t.Heads*t.HeadDim, t.KVHeads*t.HeadDim
	for i := range t.Layers {
		if t.err != nil {
			return
		}
		t.enter(i, "layers.")
		t.norm("input_layernorm", t.Hidden)
		x := t.linear(linear{name: "self_attn.q_k_v_proj", role: QKV, out: q + 2*kv, in: t.Hidden,
			input: "input_layernorm", fused: "self_attn.qkv_proj"})
		x.Parts = []Part{
			{t.prefix + "self_attn.q_proj", Q, q},
			{t.prefix + "self_attn.k_proj", K, kv},
			{t.prefix + "self_attn.v_proj", V, kv},
		}
		t.linear(linear{name: "self_attn.g_proj", role: HeadGate, out: t.Heads, in: t.Hidden, input: "input_layernorm"})
		t.linear(linear{name: "self_attn.out_proj", role: O, out: t.Hidden, in: q, input: "self_attn.q_k_v_proj"})
		t.norm("post_attention_layernorm", t.Hidden)
		t.mlp("post_attention_layernorm", false)
	}
	t.output()
}
