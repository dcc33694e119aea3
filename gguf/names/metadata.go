package names

import (
	"fmt"
	"math"

	"nibble/gguf"
	"nibble/hf"
)

// window says how a file states which layers have a window.
type window uint8

const (
	unsaid  window = iota // not at all: llama.cpp lets every token see all before it
	stated                // the size, 0 for none, which llama.cpp reads and ignores all the same
	pattern               // size and, unless the layers are those of a period that the reader knows, a bool for each layer
)

// arch is what GGUF has of an architecture that its hf table does not say.
type arch struct {
	name       string
	neighbours bool // the rotation turns neighbouring dimensions: rows of q and k are reordered
	narrow     bool // heads are as wide as the model divided by their number
	ownHead    bool // the head is never left out, even if it is the embedding
	window     window
	period     int  // of pattern: the reader takes every period-th layer for one without a window; 0: it needs the pattern
	sparse     bool // every layer is a mixture
	scales     bool // the factors on attention, embedding, residuals and logits are stored
	rootEmbed  bool // the reader multiplies the embedding by the root of its width
}

var archs = map[string]*arch{
	"LlamaForCausalLM":               {name: "llama", neighbours: true},
	"MistralForCausalLM":             {name: "llama", neighbours: true},
	"MixtralForCausalLM":             {name: "llama", neighbours: true},
	"Qwen2ForCausalLM":               {name: "qwen2", narrow: true},
	"Qwen3ForCausalLM":               {name: "qwen3"},
	"Qwen3MoeForCausalLM":            {name: "qwen3moe", sparse: true},
	"Gemma2ForCausalLM":              {name: "gemma2", window: pattern, period: 2, rootEmbed: true},
	"Gemma3ForCausalLM":              {name: "gemma3", window: pattern, period: 6, rootEmbed: true},
	"Gemma3ForConditionalGeneration": {name: "gemma3", window: pattern, period: 6, rootEmbed: true},
	"Phi3ForCausalLM":                {name: "phi3", narrow: true, window: stated},
	"SmolLM3ForCausalLM":             {name: "smollm3", neighbours: true},
	"GraniteForCausalLM":             {name: "granite", neighbours: true, scales: true},
	"Olmo2ForCausalLM":               {name: "olmo2", narrow: true, ownHead: true},
	"Olmo3ForCausalLM":               {name: "olmo2", narrow: true, ownHead: true, window: pattern},
	"GPT2LMHeadModel":                {name: "gpt2", narrow: true},
	"Spark2_5ForCausalLM":            {name: "spark2_5", window: pattern},
}

func lookup(m *hf.Architecture) (*arch, error) {
	a, ok := archs[m.Name]
	if !ok {
		return nil, fmt.Errorf("gguf: %s has no name in GGUF", m.Name)
	}
	return a, nil
}

// ropes returns the rotation of the layers without a window, and that of those with one if it is another. Either may be
// nil.
func ropes(m *hf.Architecture) (full, local *hf.Rope) {
	for _, b := range m.Blocks {
		switch {
		case b.Rope == nil:
		case b.Window == 0 && full == nil:
			full = b.Rope
		case b.Window > 0 && local == nil:
			local = b.Rope
		}
	}
	if full == nil {
		full = local
	}
	if full == local {
		local = nil
	}
	return full, local
}

// settings collects entries.
type settings struct {
	prefix  string
	entries []gguf.Entry
}

func (s *settings) add(key string, value any) {
	s.entries = append(s.entries, gguf.Entry{Key: s.prefix + key, Value: value})
}

// size adds a number that is not negative.
func (s *settings) size(key string, n int) { s.add(key, uint32(n)) }

// Settings returns the entries that describe a model but for its tokenizer, and notes on what llama.cpp does otherwise
// than the model asks for beyond some length. What it would do otherwise at any length is an error.
func Settings(m *hf.Architecture) (entries []gguf.Entry, notes []string, err error) {
	a, err := lookup(m)
	if err != nil {
		return nil, nil, err
	}
	if err := a.check(m); err != nil {
		return nil, nil, fmt.Errorf("gguf: %s: %w", a.name, err)
	}
	s := &settings{entries: []gguf.Entry{{Key: "general.architecture", Value: a.name}}, prefix: a.name + "."}
	s.size("block_count", m.Layers)
	s.size("context_length", m.MaxPositions)
	s.size("embedding_length", m.Hidden)
	s.size("feed_forward_length", m.Intermediate)
	s.size("vocab_size", m.Vocab)
	s.size("attention.head_count", m.Heads)
	if m.LayerNorm {
		s.add("attention.layer_norm_epsilon", m.Eps)
	} else {
		s.size("attention.head_count_kv", m.KVHeads)
		s.size("attention.key_length", m.HeadDim)
		s.size("attention.value_length", m.HeadDim)
		s.add("attention.layer_norm_rms_epsilon", m.Eps)
	}
	if m.Experts > 0 {
		s.size("expert_count", m.Experts)
		s.size("expert_used_count", m.TopK)
		for i := range m.Tensors {
			if t := &m.Tensors[i]; t.Role == hf.Down && t.Expert == 0 {
				s.size("expert_feed_forward_length", t.In())
				break
			}
		}
	}
	if a.scales {
		s.add("attention.scale", m.AttnScale)
		s.add("embedding_scale", m.EmbedScale)
		s.add("residual_scale", m.ResidualScale)
		s.add("logit_scale", float32(1/float64(m.LogitScale))) // the reader divides by it
	}
	if m.AttnSoftcap > 0 {
		s.add("attn_logit_softcapping", m.AttnSoftcap)
	}
	if m.FinalSoftcap > 0 {
		s.add("final_logit_softcapping", m.FinalSoftcap)
	}
	notes = append(a.windows(s, m), a.rotation(s, m)...)
	return s.entries, notes, nil
}

// windows adds what is stored of windows.
func (a *arch) windows(s *settings, m *hf.Architecture) (notes []string) {
	most, regular := 0, a.period > 0
	slides := make([]bool, len(m.Blocks))
	for i, b := range m.Blocks {
		most = max(most, b.Window)
		slides[i] = b.Window > 0
		regular = regular && slides[i] == (i%a.period < a.period-1)
	}
	if a.window == stated || a.window == pattern && most > 0 {
		s.size("attention.sliding_window", most)
	}
	switch {
	case most == 0:
	case a.window != pattern:
		notes = append(notes, fmt.Sprintf("llama.cpp ignores the window of %d tokens", most))
	case !regular:
		s.add("attention.sliding_window_pattern", slides)
	}
	return notes
}

// rotation adds what is stored of rotations.
func (a *arch) rotation(s *settings, m *hf.Architecture) (notes []string) {
	full, local := ropes(m)
	if full == nil {
		return nil
	}
	s.size("rope.dimension_count", full.Dim)
	s.add("rope.freq_base", float32(full.Theta))
	if local != nil {
		s.size("rope.dimension_count_swa", local.Dim)
		s.add("rope.freq_base_swa", float32(local.Theta))
	}
	switch full.Type {
	case "linear":
		s.add("rope.scaling.type", "linear")
		s.add("rope.scaling.factor", float32(full.Factor))
	case "yarn":
		s.add("rope.scaling.type", "yarn")
		s.add("rope.scaling.factor", float32(full.Factor))
		s.size("rope.scaling.original_context_length", full.Orig)
	case "longrope":
		_, factor := full.InvFreq(full.Orig)
		s.size("rope.scaling.original_context_length", full.Orig)
		s.add("rope.scaling.attn_factor", factor)
		notes = append(notes, fmt.Sprintf("llama.cpp chooses between the long and the short factors of the rotation by the context "+
			"it is started with, not by the length of the text: more than %d tokens means the long ones", full.Orig))
	case "dynamic":
		notes = append(notes, fmt.Sprintf("llama.cpp does not stretch the rotation beyond %d tokens", full.Max))
	}
	return notes
}

// check refuses what a file cannot say and the reader would do otherwise.
func (a *arch) check(m *hf.Architecture) error {
	scale := 1 / math.Sqrt(float64(m.HeadDim))
	if a.name == "gemma2" && m.Layers == 46 || a.name == "gemma3" && m.Layers == 62 { // the 27B models
		scale = 1 / math.Sqrt(float64(m.Hidden/m.Heads))
	}
	embed := 1.0
	if a.rootEmbed {
		embed = math.Sqrt(float64(m.Hidden))
	}
	for _, f := range []struct {
		what       string
		have, want float64
	}{{"attention", float64(m.AttnScale), scale}, {"the embedding", float64(m.EmbedScale), embed},
		{"residuals", float64(m.ResidualScale), 1}, {"logits", float64(m.LogitScale), 1}} {
		if !a.scales && math.Abs(f.have-f.want) > 1e-6*f.want {
			return fmt.Errorf("the factor on %s is %g, and llama.cpp takes it for %g", f.what, f.have, f.want)
		}
	}
	if a.narrow && m.HeadDim*m.Heads != m.Hidden {
		return fmt.Errorf("%d heads of %d, and llama.cpp reads only such as have %d together", m.Heads, m.HeadDim, m.Hidden)
	}
	if a.name == "gemma2" && (m.AttnSoftcap == 0 || m.FinalSoftcap == 0) {
		return fmt.Errorf("a soft cap is missing, and llama.cpp has one all the same")
	}
	if m.ScaleByLayer {
		return fmt.Errorf("scale_attn_by_inverse_layer_idx: llama.cpp knows one factor for all layers")
	}
	if m.Experts > 0 && !m.NormTopK {
		return fmt.Errorf("norm_topk_prob is false, and llama.cpp makes the weights of the experts sum to 1")
	}
	for i := range m.Tensors {
		if t := &m.Tensors[i]; a.sparse && t.Role == hf.Down && t.Expert < 0 {
			return fmt.Errorf("layer %d is no mixture, and llama.cpp takes all layers for one", t.Layer)
		}
	}
	for i, b := range m.Blocks {
		if nope := a.name == "smollm3" && (i+1)%4 == 0; !m.LayerNorm && nope != (b.Rope == nil) {
			return fmt.Errorf("layer %d: whether it has a rotation is not what llama.cpp takes it for", i)
		}
	}
	full, local := ropes(m)
	if full != nil && full.Type == "yarn" && !full.Standard() {
		return fmt.Errorf("a rotation of type yarn with factors or ends of its own, which llama.cpp does not read")
	}
	if local != nil && (a.window != pattern || local.Type != "default") {
		return fmt.Errorf("layers with a window have a rotation of type %s of their own", local.Type)
	}
	return nil
}
