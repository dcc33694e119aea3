package hf

// gpt2 is the table of GPT-2: learned positions, LayerNorms with biases, matrices stored [in, out].
func gpt2(t *table) {
	t.Hidden = t.int(768, "n_embd")
	t.Layers = t.int(12, "n_layer")
	t.Heads = t.int(12, "n_head")
	t.KVHeads = t.Heads
	t.Intermediate = t.int(4*t.Hidden, "n_inner")
	t.Vocab = t.int(50257, "vocab_size")
	t.Tied = t.bool(true, "tie_word_embeddings")
	positions := t.int(1024, "n_positions", "n_ctx")
	t.HeadDim = t.Hidden / max(t.Heads, 1)
	t.checkSizes()
	t.defaults()
	t.MaxPositions = positions
	t.LayerNorm = true
	t.Eps = t.float(1e-5, "layer_norm_epsilon")
	t.activation("activation_function", "gelu_new")
	if !t.bool(true, "scale_attn_weights") {
		t.AttnScale = 1
	}
	t.ScaleByLayer = t.bool(false, "scale_attn_by_inverse_layer_idx")
	t.uniform(0, nil)
	t.embedding("wte")
	t.add(Tensor{Name: t.body + "wpe.weight", Shape: []int{positions, t.Hidden}, Role: Position, Expert: -1})
	for i := range t.Layers {
		if t.err != nil {
			return
		}
		t.enter(i, "h.")
		t.layerNorm(AttnNorm, "ln_1")
		t.buffer("attn.bias", 1, 1, positions, positions)
		t.buffer("attn.masked_bias")
		t.conv1D("attn.c_attn", QKV, 3*t.Hidden, t.Hidden, "ln_1")
		t.conv1D("attn.c_proj", O, t.Hidden, t.Hidden, "attn.c_attn")
		t.layerNorm(MLPNorm, "ln_2")
		t.conv1D("mlp.c_fc", Up, t.Intermediate, t.Hidden, "ln_2")
		t.conv1D("mlp.c_proj", Down, t.Hidden, t.Intermediate, "")
	}
	t.leave()
	t.layerNorm(FinalNorm, "ln_f")
	t.add(Tensor{Name: t.head + ".weight", Shape: []int{t.Vocab, t.Hidden}, Role: Head, Expert: -1,
		Input: t.body + "ln_f", optional: t.Tied})
}

func (t *table) layerNorm(role Role, name string) {
	t.norm(role, name, t.Hidden)
	t.add(Tensor{Name: t.prefix + name + ".bias", Shape: []int{t.Hidden}, Role: role, Expert: -1})
}

func (t *table) conv1D(name string, role Role, out, in int, input string) {
	x := t.linear(linear{name: name, role: role, out: out, in: in, input: input, bias: true})
	x.Shape, x.Transposed = []int{in, out}, true
}
