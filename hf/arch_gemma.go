package hf

import (
	"math"

	"github.com/tidwall/gjson"
)

// Gemma 2 and 3: norms that multiply by 1 + weight, also behind attention and MLP.

func gemma2(t *table) {
	t.common(256000, true)
	t.HeadDim = t.int(256, "head_dim")
	t.checkSizes()
	t.gemma()
	t.AttnSoftcap = t.softcap(50, "attn_logit_softcapping")
	t.FinalSoftcap = t.softcap(30, "final_logit_softcapping")
	window, rope, types := t.window(4096), t.rope("", nil, 10000), t.layerTypes()
	t.blocks(func(i int) Block {
		if types != nil && i < len(types) && types[i] == sliding || types == nil && i%2 == 0 {
			return Block{Window: window, Rope: rope}
		}
		return Block{Rope: rope}
	})
	bias := t.bool(false, "attention_bias")
	t.sandwich(attention{bias: bias, oBias: bias})
}

// softcap reads a cap: null is none, absent is def.
func (t *table) softcap(def float32, key string) float32 {
	if r := t.c.get(key); r.Exists() && r.Type == gjson.Null {
		return 0
	}
	return t.float(def, key)
}

// gemma is what both have in common. The embedding is multiplied by sqrt(hidden) in float32; a bf16 run of transformers
// rounds that factor to bf16.
func (t *table) gemma() {
	t.defaults()
	t.NormPlusOne = true
	t.EmbedScale = float32(math.Sqrt(float64(t.Hidden)))
	t.AttnScale = float32(math.Pow(float64(t.float(256, "query_pre_attn_scalar")), -0.5))
	t.activation("hidden_activation", "gelu_pytorch_tanh")
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
	t.gemma()
	t.FinalSoftcap = t.softcap(0, "final_logit_softcapping")
	if t.bool(false, "use_bidirectional_attention") {
		t.refuse("use_bidirectional_attention: an embedding model, not a decoder")
	}
	window, types, pattern := t.window(4096), t.layerTypes(), max(t.int(6, "sliding_window_pattern"), 1)
	full, local := t.twoRopes(1e6, float64(t.float(1e4, "rope_local_base_freq")))
	t.blocks(func(i int) Block {
		if types != nil && i < len(types) && types[i] == sliding || types == nil && (i+1)%pattern != 0 {
			return Block{Window: window, Rope: local}
		}
		return Block{Rope: full}
	})
	t.sandwich(attention{bias: bias, oBias: bias, qNorm: t.HeadDim, kNorm: t.HeadDim})
}

func (t *table) sandwich(a attention) {
	t.embedding("embed_tokens")
	for i := range t.Layers {
		if t.err != nil {
			return
		}
		t.block(i, a)
		t.norm(AttnOutNorm, "post_attention_layernorm", t.Hidden)
		t.norm(MLPNorm, "pre_feedforward_layernorm", t.Hidden)
		t.mlp("pre_feedforward_layernorm", false)
		t.norm(MLPOutNorm, "post_feedforward_layernorm", t.Hidden)
	}
	t.output()
}
