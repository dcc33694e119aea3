package names

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nibble/hf"
)

// The values are those of the configs in internal/testmodel/golden.
func TestSettings(t *testing.T) {
	absent := any(nil)
	for variant, want := range map[string]map[string]any{
		"llama-llama3": {"architecture": "llama", "block_count": uint32(3), "context_length": uint32(1024), "embedding_length": uint32(64),
			"feed_forward_length": uint32(112), "vocab_size": uint32(256), "attention.head_count": uint32(4),
			"attention.head_count_kv": uint32(2), "attention.key_length": uint32(24), "attention.layer_norm_rms_epsilon": float32(1e-3),
			"rope.dimension_count": uint32(24), "rope.freq_base": float32(1e4), "rope.scaling.type": absent, "attention.scale": absent},
		"gpt2": {"architecture": "gpt2", "attention.layer_norm_epsilon": float32(1e-3), "attention.head_count_kv": absent,
			"attention.key_length": absent, "rope.freq_base": absent},
		"llama-linear-bias": {"rope.scaling.type": "linear", "rope.scaling.factor": float32(2.5)},
		"llama-yarn": {"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4), "rope.scaling.original_context_length": uint32(32),
			"rope.scaling.attn_factor": absent},
		"phi3-longrope-cross": {"rope.dimension_count": uint32(12), "rope.scaling.original_context_length": uint32(36),
			"rope.scaling.attn_factor": float32(math.Sqrt(1 + math.Log(4)/math.Log(36))), "rope.scaling.type": absent,
			"attention.sliding_window": uint32(0)},
		"granite": {"attention.scale": float32(0.11), "embedding_scale": float32(3), "residual_scale": float32(0.6), "logit_scale": float32(0.55)},
		"mixtral": {"architecture": "llama", "expert_count": uint32(4), "expert_used_count": uint32(2)},
		"spark2_5": {"attention.sliding_window": uint32(8), "attention.sliding_window_pattern": []bool{true, true, true, false},
			"rope.dimension_count": uint32(8), "rope.freq_base": float32(5e6), "rope.dimension_count_swa": uint32(32),
			"rope.freq_base_swa": float32(1e4)},
	} {
		got, _ := settingsOf(t, variant)
		for key, value := range want {
			if !cmp.Equal(got[key], value) {
				t.Errorf("%s: %s is %v, want %v", variant, key, got[key], value)
			}
		}
	}
}

// TestGemma checks what only these models have, with the factor on attention that llama.cpp takes them for.
func TestGemma(t *testing.T) {
	for variant, window := range map[string]uint32{"gemma2": 8, "gemma3": 8} {
		m := open(t, variant)
		m.Arch.AttnScale = float32(1 / math.Sqrt(float64(m.Arch.HeadDim)))
		entries, notes, err := Settings(m.Arch)
		if err != nil || len(notes) > 0 {
			t.Errorf("%s: %v, %v", variant, notes, err)
			continue
		}
		got := map[string]any{}
		for _, e := range entries {
			got[strings.TrimPrefix(e.Key, variant+".")] = e.Value
		}
		var slides []bool // gemma2 has the layers that readers expect, the small gemma3 has not
		if variant == "gemma3" {
			for _, b := range m.Arch.Blocks {
				slides = append(slides, b.Window > 0)
			}
		}
		pattern, _ := got["attention.sliding_window_pattern"].([]bool)
		if got["attention.sliding_window"] != window || !cmp.Equal(pattern, slides) || got["embedding_scale"] != nil {
			t.Errorf("%s: %v", variant, got)
		}
		if caps := got["attn_logit_softcapping"] != nil; caps != (variant == "gemma2") {
			t.Errorf("%s: %v", variant, got)
		}
	}
}

func TestNotes(t *testing.T) {
	for variant, want := range map[string]string{"mistral-window": "ignores the window of 8 tokens", "llama-dynamic": "beyond 16 tokens",
		"phi3-longrope-cross": "more than 36 tokens"} {
		if _, notes := settingsOf(t, variant); len(notes) != 1 || !strings.Contains(notes[0], want) {
			t.Errorf("%s: %q", variant, notes)
		}
	}
}

// TestRefusals changes one thing in models that pass.
func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		variant string
		change  func(*hf.Architecture)
		want    string
	}{
		{"llama-yarn-mscale", nil, "type yarn with factors"},
		{"olmo3", nil, "type yarn with factors"}, // its ramp is from 8 turns to a half
		{"olmo2", nil, "4 heads of 24, and llama.cpp reads only such as have 64 together"},
		{"qwen2-window", nil, "4 heads of 24"},
		{"phi3-window", nil, "4 heads of 24"},
		{"qwen3moe-step2", func(a *hf.Architecture) { a.NormTopK = true }, "layer 0 is no mixture"},
		{"qwen3moe", func(a *hf.Architecture) { a.NormTopK = false }, "norm_topk_prob"},
		{"smollm3-window", nil, "layer 0: whether it has a rotation"},
		{"llama-plain", func(a *hf.Architecture) { a.AttnScale = 1 }, "the factor on attention is 1, and llama.cpp takes it for 0.25"},
		{"llama-plain", func(a *hf.Architecture) { a.EmbedScale = 2 }, "the factor on the embedding"},
		{"llama-plain", func(a *hf.Architecture) { a.ResidualScale = 2 }, "the factor on residuals"},
		{"llama-plain", func(a *hf.Architecture) { a.LogitScale = 2 }, "the factor on logits"},
		{"gpt2", func(a *hf.Architecture) { a.ScaleByLayer = true }, "scale_attn_by_inverse_layer_idx"},
		{"gemma2", func(a *hf.Architecture) { a.AttnScale, a.AttnSoftcap = 0.25, 0 }, "a soft cap is missing"},
		{"qwen2", func(a *hf.Architecture) { a.Blocks[1].Rope, a.Blocks[1].Window = &hf.Rope{Type: "default"}, 8 }, "a rotation of type default of their own"},
	} {
		m := open(t, test.variant)
		if test.change != nil {
			test.change(m.Arch)
		}
		if _, _, err := Settings(m.Arch); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.variant, err, test.want)
		}
	}
}
