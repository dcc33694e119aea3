package names

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"nibble/gguf"
	"nibble/hf"
)

// File is the part of a GGUF model that its config and its tokenizer are made from.
type File interface {
	Value(key string) (any, bool)
	Lookup(name string) (gguf.Tensor, bool)
	ReadAt(name string, p []byte, off int64) error
	BigEndian() bool
}

// model is what a checkpoint calls an architecture of GGUF.
type model struct {
	class, kind string         // architectures and model_type
	fixed       map[string]any // what the file does not say
}

// models are the architectures by their name in GGUF. Where two checkpoints have one name, [Config] chooses.
var models = map[string]model{
	"llama":    {"LlamaForCausalLM", "llama", nil},
	"qwen2":    {"Qwen2ForCausalLM", "qwen2", nil},
	"qwen3":    {"Qwen3ForCausalLM", "qwen3", nil},
	"qwen3moe": {"Qwen3MoeForCausalLM", "qwen3_moe", map[string]any{"norm_topk_prob": true, "decoder_sparse_step": 1}},
	"gemma2":   {"Gemma2ForCausalLM", "gemma2", map[string]any{"hidden_activation": "gelu_pytorch_tanh"}},
	"gemma3":   {"Gemma3ForCausalLM", "gemma3_text", map[string]any{"hidden_activation": "gelu_pytorch_tanh"}},
	"phi3":     {"Phi3ForCausalLM", "phi3", nil},
	"smollm3":  {"SmolLM3ForCausalLM", "smollm3", map[string]any{"no_rope_layer_interval": 4}},
	"granite":  {"GraniteForCausalLM", "granite", nil},
	"olmo2":    {"Olmo2ForCausalLM", "olmo2", nil},
	"gpt2":     {"GPT2LMHeadModel", "gpt2", map[string]any{"activation_function": "gelu_new"}},
	"spark2_5": {"Spark2_5ForCausalLM", "spark2_5", map[string]any{"hidden_act": "gelu"}},
}

// config collects the keys of config.json. The first thing that is missing or makes no sense stays in err.
type config struct {
	file   File
	prefix string
	keys   map[string]any
	err    error
}

// number returns the value of a key as a float64.
func (c *config) number(key string) (float64, bool) {
	v, _ := c.file.Value(key)
	switch v := v.(type) {
	case uint32:
		return float64(v), true
	case int32:
		return float64(v), true
	case uint64:
		return float64(v), true
	case int64:
		return float64(v), true
	case uint16:
		return float64(v), true
	case float32:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// size returns a number of the architecture, or def if it is not there; -1 for def demands it.
func (c *config) size(key string, def int) int {
	x, ok := c.number(c.prefix + key)
	switch {
	case !ok && def < 0 && c.err == nil:
		c.err = fmt.Errorf("%s%s is missing, or no number", c.prefix, key)
		return 1
	case !ok:
		return def
	case x < 0 || x > math.MaxInt32 || x != math.Trunc(x):
		if c.err == nil {
			c.err = fmt.Errorf("%s%s is %g", c.prefix, key, x)
		}
		return 1
	}
	return int(x)
}

// put copies a number of the file, if it is there.
func (c *config) put(key, from string) {
	if x, ok := c.number(c.prefix + from); ok {
		c.keys[key] = x
	}
}

// has reports whether the first layer has a tensor.
func (c *config) has(name string) bool {
	_, ok := c.file.Lookup("blk.0." + name)
	return ok
}

// Config returns the config.json of the model that a file holds: what [Settings] and the tensors say, in the words of
// the checkpoints. Its dtype is that of the tensors.
func Config(f File, dtype string) ([]byte, error) {
	name, _ := f.Value("general.architecture")
	arch, _ := name.(string)
	m, ok := models[arch]
	if !ok {
		return nil, fmt.Errorf("gguf: general.architecture %.50q is not known", arch)
	}
	c := &config{file: f, prefix: arch + ".", keys: map[string]any{"torch_dtype": dtype}}
	maps.Copy(c.keys, m.fixed)
	c.fill(arch, &m)
	c.keys["architectures"], c.keys["model_type"] = []string{m.class}, m.kind
	if c.err != nil {
		return nil, fmt.Errorf("gguf: %w", c.err)
	}
	raw, err := json.MarshalIndent(c.keys, "", "  ")
	if err != nil { // a number that JSON does not have
		return nil, fmt.Errorf("gguf: %w", err)
	}
	return append(raw, '\n'), nil
}

// fill sets all keys.
func (c *config) fill(arch string, m *model) {
	hidden, layers, heads := c.size("embedding_length", -1), c.size("block_count", -1), max(c.size("attention.head_count", -1), 1)
	width := c.size("feed_forward_length", 0)
	if c.checkLayers(layers); c.err != nil {
		return
	}
	embed, ok := c.file.Lookup("token_embd.weight")
	if !ok || len(embed.Shape) != 2 {
		c.err = fmt.Errorf("token_embd.weight is missing, or no matrix")
		return
	}
	_, head := c.file.Lookup("output.weight")
	c.keys["tie_word_embeddings"] = !head
	c.keys["vocab_size"] = embed.Shape[0]
	for _, s := range []string{"bos", "eos"} {
		if x, ok := c.number("tokenizer.ggml." + s + "_token_id"); ok {
			c.keys[s+"_token_id"] = int64(x)
		}
	}
	if arch == "gpt2" {
		c.keys["n_embd"], c.keys["n_layer"], c.keys["n_head"], c.keys["n_inner"] = hidden, layers, heads, width
		c.keys["n_positions"] = c.size("context_length", -1)
		c.put("layer_norm_epsilon", "attention.layer_norm_epsilon")
		return
	}
	dim := c.size("attention.key_length", hidden/heads)
	c.keys["hidden_size"], c.keys["num_hidden_layers"], c.keys["num_attention_heads"] = hidden, layers, heads
	c.keys["num_key_value_heads"] = c.size("attention.head_count_kv", heads)
	c.keys["head_dim"], c.keys["intermediate_size"] = dim, width
	c.keys["max_position_embeddings"] = c.size("context_length", -1)
	c.put("rms_norm_eps", "attention.layer_norm_rms_epsilon")
	c.keys["attention_bias"] = c.has("attn_q.bias") && arch != "qwen2" // whose bias on q, k and v is no choice
	c.keys["mlp_bias"] = c.has("ffn_up.bias")
	c.put("attn_logit_softcapping", "attn_logit_softcapping")
	c.put("final_logit_softcapping", "final_logit_softcapping")
	c.mixture(arch, m)
	switch arch {
	case "gemma2", "gemma3":
		c.keys["query_pre_attn_scalar"] = dim
		if arch == "gemma2" && layers == 46 || arch == "gemma3" && layers == 62 { // the 27B models
			c.keys["query_pre_attn_scalar"] = hidden / heads
		}
	case "granite":
		c.put("attention_multiplier", "attention.scale")
		c.put("embedding_multiplier", "embedding_scale")
		c.put("residual_multiplier", "residual_scale")
		c.put("logits_scaling", "logit_scale")
	}
	c.windows(arch, m, layers)
	c.rotation(arch, dim)
}

// checkLayers refuses numbers of layers and of experts for which there are no tensors, before a table is made of them.
func (c *config) checkLayers(layers int) {
	last := fmt.Sprintf("blk.%d.ffn_down", layers-1)
	_, dense := c.file.Lookup(last + ".weight")
	stack, mixed := c.file.Lookup(last + "_exps.weight")
	experts := c.size("expert_count", 0)
	switch {
	case c.err != nil:
	case !dense && !mixed:
		c.err = fmt.Errorf("%sblock_count is %d, and there is neither %s.weight nor %s_exps.weight", c.prefix, layers, last, last)
	case experts > 0 && mixed && (len(stack.Shape) != 3 || stack.Shape[0] != experts), experts > 0 && !mixed:
		c.err = fmt.Errorf("%sexpert_count is %d, and %s_exps.weight is %v", c.prefix, experts, last, stack.Shape)
	}
}

// mixture sets what a mixture of experts has.
func (c *config) mixture(arch string, m *model) {
	experts := c.size("expert_count", 0)
	if experts == 0 {
		return
	}
	switch arch {
	case "llama":
		m.class, m.kind = "MixtralForCausalLM", "mixtral"
		c.keys["num_local_experts"] = experts
	default:
		c.keys["num_experts"] = experts
		c.keys["moe_intermediate_size"] = c.size("expert_feed_forward_length", -1)
	}
	c.keys["num_experts_per_tok"] = c.size("expert_used_count", -1)
}

// windows sets which layers have a window.
func (c *config) windows(arch string, m *model, layers int) {
	a := archs[m.class]
	size := c.size("attention.sliding_window", 0)
	c.keys["sliding_window"] = nil
	if size == 0 || a.window == unsaid || layers > maxLayers {
		return
	}
	c.keys["sliding_window"] = size
	if a.window == stated {
		return
	}
	if arch == "olmo2" {
		m.class, m.kind = "Olmo3ForCausalLM", "olmo3"
	}
	pattern, _ := c.file.Value(c.prefix + "attention.sliding_window_pattern")
	slides, _ := pattern.([]bool)
	period := a.period
	if n, ok := c.number(c.prefix + "attention.sliding_window_pattern"); ok && n >= 1 && n <= maxLayers {
		period = int(n) // every period-th layer has none
	}
	types := make([]string, layers)
	for i := range types {
		types[i] = "full_attention"
		if i < len(slides) && slides[i] || slides == nil && period > 0 && i%period < period-1 {
			types[i] = "sliding_attention"
		}
	}
	c.keys["layer_types"] = types
}

// maxLayers bounds what is said of layers one by one. No model has a hundredth of it.
const maxLayers = 1 << 16

// rotation sets the rotations.
func (c *config) rotation(arch string, dim int) {
	theta, ok := c.number(c.prefix + "rope.freq_base")
	if !ok {
		theta = 10000
	}
	c.keys["rope_theta"] = theta
	rotated := c.size("rope.dimension_count", dim)
	if rotated != dim && dim > 0 {
		c.keys["partial_rotary_factor"] = float64(rotated) / float64(dim)
	}
	local, ok := c.number(c.prefix + "rope.freq_base_swa")
	if !ok {
		local = theta
		if arch == "gemma3" {
			local = 10000 // what llama.cpp takes
		}
	}
	scaling := map[string]any{}
	kind, _ := c.file.Value(c.prefix + "rope.scaling.type")
	factor, _ := c.number(c.prefix + "rope.scaling.factor")
	orig := c.size("rope.scaling.original_context_length", 0)
	switch {
	case kind == "linear" && factor > 0:
		scaling["rope_type"], scaling["factor"] = "linear", factor
	case kind == "yarn" && factor > 0:
		scaling["rope_type"], scaling["factor"], scaling["original_max_position_embeddings"] = "yarn", factor, orig
	}
	c.divided(scaling, theta, rotated, orig)
	if _, spoken := c.keys["layer_types"]; spoken && (arch == "gemma3" || arch == "olmo2" || arch == "spark2_5") {
		full := map[string]any{"rope_type": "default", "rope_theta": theta}
		maps.Copy(full, scaling)
		window := map[string]any{"rope_type": "default", "rope_theta": local}
		if swa := c.size("rope.dimension_count_swa", rotated); arch == "spark2_5" && dim > 0 {
			full["partial_rotary_factor"], window["partial_rotary_factor"] = float64(rotated)/float64(dim), float64(swa)/float64(dim)
		}
		c.keys["rope_parameters"] = map[string]any{"full_attention": full, "sliding_attention": window}
		return
	}
	if len(scaling) > 0 {
		c.keys["rope_scaling"] = scaling
	}
}

// divided sets a scaling that the file states as what the frequencies are divided by.
func (c *config) divided(scaling map[string]any, theta float64, rotated, orig int) {
	long, short := c.factors("rope_factors_long.weight"), c.factors("rope_factors_short.weight")
	freqs := c.factors("rope_freqs.weight")
	switch {
	case long != nil && short != nil:
		scaling["rope_type"], scaling["long_factor"], scaling["short_factor"] = "longrope", long, short
		c.keys["original_max_position_embeddings"] = orig
		if x, ok := c.number(c.prefix + "rope.scaling.attn_factor"); ok {
			scaling["attention_factor"] = x
		}
	case freqs != nil:
		for _, length := range []int{8192, c.size("context_length", -1)} {
			if known := llama3(freqs, theta, rotated, length); known != nil {
				maps.Copy(scaling, known)
				return
			}
		}
		scaling["rope_type"], scaling["long_factor"], scaling["short_factor"] = "longrope", freqs, freqs
		scaling["attention_factor"] = 1
		c.keys["original_max_position_embeddings"] = c.size("context_length", -1)
	}
}

// llama3 returns the scaling of that name which divides the frequencies by just these numbers, nil if there is none with
// the ends that every such model has.
func llama3(divisors []float32, theta float64, rotated, length int) map[string]any {
	scaling := map[string]any{"rope_type": "llama3", "factor": float64(slices.Max(divisors)), "low_freq_factor": 1.0,
		"high_freq_factor": 4.0, "original_max_position_embeddings": length}
	raw, err := json.Marshal(map[string]any{"architectures": []string{"LlamaForCausalLM"}, "hidden_size": rotated, "intermediate_size": 1,
		"num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 1, "rope_theta": theta, "rope_scaling": scaling})
	if err != nil {
		return nil
	}
	config, err := hf.ParseConfig(raw)
	if err != nil {
		return nil
	}
	a, err := hf.Describe(config)
	if err != nil || a.Refused != nil || a.Blocks[0].Rope == nil {
		return nil
	}
	want := a.Blocks[0].Rope.Divisors(0)
	if len(want) != len(divisors) {
		return nil
	}
	for i, d := range divisors {
		if math.Abs(float64(d)-want[i]) > 1e-6*want[i] {
			return nil
		}
	}
	return scaling
}

// factors reads a vector of float32, nil if there is none.
func (c *config) factors(name string) []float32 {
	t, ok := c.file.Lookup(name)
	const most = 1 << 16
	if !ok || len(t.Shape) != 1 || t.Shape[0] < 1 || t.Shape[0] > most {
		return nil
	}
	raw, values := make([]byte, t.Bytes), make([]float32, t.Shape[0])
	err := c.file.ReadAt(name, raw, 0)
	if err == nil && c.file.BigEndian() {
		err = t.Type.Swap(raw)
	}
	if err == nil {
		err = t.Type.Decode(values, raw)
	}
	for _, x := range values {
		if err == nil && !(x > 0 && x < math.MaxFloat32) {
			err = fmt.Errorf("%s: %v is no divisor", name, x)
		}
	}
	if err != nil && c.err == nil {
		c.err = err
	}
	return values
}
