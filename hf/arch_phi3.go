package hf

// phi3 is the table of Phi-3 and Phi-4: fused projections, which servers load as they are.
func phi3(t *table) {
	t.common(32064, false)
	t.Eps = t.float(1e-5, "rms_norm_eps")
	t.uniform(t.window(0), t.rope("", nil, 10000))
	t.embedding("embed_tokens")
	q, kv := t.Heads*t.HeadDim, t.KVHeads*t.HeadDim
	for i := range t.Layers {
		if t.err != nil {
			return
		}
		t.enter(i, "layers.")
		t.norm(AttnNorm, "input_layernorm", t.Hidden)
		t.linear(linear{name: "self_attn.qkv_proj", role: QKV, out: q + 2*kv, in: t.Hidden, input: "input_layernorm"})
		t.linear(linear{name: "self_attn.o_proj", role: O, out: t.Hidden, in: q, input: "self_attn.qkv_proj"})
		t.buffer("self_attn.rotary_emb.inv_freq", t.HeadDim/2)
		t.norm(MLPNorm, "post_attention_layernorm", t.Hidden)
		t.linear(linear{name: "mlp.gate_up_proj", role: GateUp, out: 2 * t.Intermediate, in: t.Hidden,
			input: "post_attention_layernorm"})
		t.linear(linear{name: "mlp.down_proj", role: Down, out: t.Hidden, in: t.Intermediate, input: "mlp.gate_up_proj"})
	}
	t.output()
}
