package runtime

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"nibble/internal/half"
	"nibble/safetensors"
)

// edit changes keys of a fixture's config; nil deletes one.
func edit(t *testing.T, g *golden, keys map[string]any) fstest.MapFS {
	t.Helper()
	files := g.files(t)
	var config map[string]any
	if err := json.Unmarshal(files["config.json"].Data, &config); err != nil {
		t.Fatal(err)
	}
	for k, v := range keys {
		if v == nil {
			delete(config, k)
		} else {
			config[k] = v
		}
	}
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	files["config.json"] = &fstest.MapFile{Data: raw}
	return files
}

// A config that lies about the weights, or asks for what cannot be, is refused in one line when the model is opened or
// loaded; nothing panics.
func TestLies(t *testing.T) {
	tests := []struct {
		variant string
		keys    map[string]any
		want    string
	}{
		{"llama-plain", map[string]any{"hidden_size": 60}, "model.embed_tokens.weight"},
		{"llama-plain", map[string]any{"vocab_size": 300}, "embed_tokens"},
		{"llama-plain", map[string]any{"num_attention_heads": 2, "head_dim": 16}, "q_proj"},
		{"llama-plain", map[string]any{"num_key_value_heads": 3}, "heads"},
		{"llama-plain", map[string]any{"num_hidden_layers": 9}, "layers.2"},
		{"llama-plain", map[string]any{"intermediate_size": 81}, "mlp"},
		{"llama-plain", map[string]any{"hidden_act": "relu6"}, "relu6"},
		{"llama-plain", map[string]any{"max_position_embeddings": 0}, "the model is made for 0 positions"},
		{"llama-plain", map[string]any{"rope_parameters": map[string]any{"rope_type": "spiral"}}, "spiral"},
		{"llama-plain", map[string]any{"rope_parameters": map[string]any{"rope_type": "default", "rope_theta": -1}}, "theta"},
		{"llama-plain", map[string]any{"rope_parameters": map[string]any{"rope_type": "longrope", "short_factor": []int{1}, "long_factor": []int{1}}}, "longrope"},
		{"gpt2", map[string]any{"n_head": 3}, "q, k and v is [192,64], the model needs [189,64]"},
		{"gpt2", map[string]any{"n_positions": 65}, "wpe"},
		{"qwen3", map[string]any{"head_dim": 8}, "q_proj"},
		{"qwen3moe", map[string]any{"num_experts": 7, "num_local_experts": 7}, "mlp.gate.weight"},
		{"qwen3moe", map[string]any{"num_experts": 5, "num_local_experts": 5}, "mlp.gate.weight"},
		{"qwen3moe", map[string]any{"num_experts_per_tok": 7}, "7 experts per token of 6"},
		{"qwen3moe", map[string]any{"num_experts_per_tok": 0}, "0 experts per token"},
		{"qwen3moe", map[string]any{"moe_intermediate_size": 8}, "experts"},
		{"olmo2", map[string]any{"num_key_value_heads": 1}, "k_proj"},
		{"spark2_5", map[string]any{"gate_attn_act_mode": "tanh"}, "tanh"},
	}
	for _, tt := range tests {
		t.Run(tt.variant+" "+tt.want, func(t *testing.T) {
			g := readGolden(t, tt.variant)
			b, err := tryOpen(t, edit(t, g, tt.keys))
			if err == nil {
				var m *Model
				if m, err = Load(b, Config{Threads: 1}); err == nil {
					defer m.Close()
					_, err = m.NewSession(0, KVF32)
				}
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// verify finds what a table let through.
func TestVerify(t *testing.T) {
	tests := []struct {
		variant string
		damage  func(m *Model)
		want    string
	}{
		{"llama-plain", func(m *Model) { m.embed = nil }, "the embedding is missing"},
		{"llama-plain", func(m *Model) { m.head.n-- }, "the head is [255,64], the model needs [256,64]"},
		{"llama-plain", func(m *Model) { m.layers[1].o = nil }, "layer 1: o is missing"},
		{"llama-plain", func(m *Model) { m.layers[0].up.n++ }, "layer 0: up"},
		{"llama-plain", func(m *Model) { m.layers[0].down = nil }, "layer 0: down"},
		{"phi3-window", func(m *Model) { m.layers[0].gate.n-- }, "layer 0: gate"},
		{"spark2_5", func(m *Model) { m.layers[0].headGate.n-- }, "layer 0: the head gate"},
		{"mixtral", func(m *Model) { m.layers[1].experts = m.layers[1].experts[:3] }, "layer 1: 3 experts, the config has"},
		{"mixtral", func(m *Model) { m.layers[1].experts[2].up = nil }, "layer 1: expert 2: up is missing"},
		{"gpt2", func(m *Model) { m.positions.k-- }, "the table of positions"},
	}
	for _, tt := range tests {
		m := readGolden(t, tt.variant).load(t, F32, 1)
		tt.damage(m)
		if err := m.verify(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
}

// poison returns a fixture's files with one element of a bf16 tensor replaced.
func poison(t *testing.T, g *golden, tensor string, value float32) fstest.MapFS {
	t.Helper()
	files := g.files(t)
	const name = "model.safetensors"
	set, err := safetensors.OpenSet(files, name)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	x, ok := set.Lookup(tensor)
	if !ok {
		t.Fatalf("no tensor %s", tensor)
	}
	want := make([]byte, x.Bytes())
	if err := set.ReadAt(tensor, want, 0); err != nil {
		t.Fatal(err)
	}
	raw := slices.Clone(files[name].Data)
	at := strings.Index(string(raw), string(want))
	if at < 0 {
		t.Fatal("the tensor's bytes are not in the file")
	}
	half.EncodeBF16(raw[at:at+2], []float32{value})
	files[name] = &fstest.MapFile{Data: raw}
	return files
}

// Weights that are NaN or infinite are an error in every mode and cache: no panic, no hang, no plausible numbers. A mixture
// whose router gives NaN chooses different experts all the same.
func TestNonFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	tests := []struct {
		variant, tensor string
		value           float32
	}{
		{"llama-plain", "model.layers.0.self_attn.k_proj.weight", nan},
		{"llama-plain", "model.layers.0.self_attn.v_proj.weight", inf},
		{"llama-plain", "model.layers.0.mlp.up_proj.weight", inf},
		{"llama-plain", "model.norm.weight", nan},
		{"qwen3moe", "model.layers.0.mlp.gate.weight", nan},
		{"qwen3moe", "model.layers.0.self_attn.o_proj.weight", nan},
		{"gemma2", "model.layers.0.self_attn.q_proj.weight", inf},
	}
	for i, tt := range tests {
		m := load(t, open(t, poison(t, readGolden(t, tt.variant), tt.tensor, tt.value)), Mode(i%2), 2)
		tokens := make([]int32, 2*chunk) // more than one expert's share
		for j := range tokens {
			tokens[j] = int32(j % 8)
		}
		s := newSession(t, m, 0, KV(i%4))
		err := m.Forward([]Input{{Session: s, Tokens: tokens[:s.Context()], All: true}}, func(_, _ int, logits []float32) {
			if v := logits[0]; v != v {
				t.Fatalf("%s of %s: logit %v", tt.tensor, tt.variant, v)
			}
		})
		if tt.value != inf && (!errors.Is(err, ErrNonFinite) || !strings.Contains(err.Error(), "is NaN")) {
			t.Fatalf("%s of %s: %v", tt.tensor, tt.variant, err)
		}
		s.Reset()
		if err := m.Forward([]Input{{Session: s, Tokens: tokens[:1]}}, nil); err != nil {
			t.Errorf("after that: %v", err) // nothing is wanted, so nothing is looked at
		}
	}
}

// Float types that no model has are refused by name.
func TestWrongTypes(t *testing.T) {
	b := expandTo(t, readGolden(t, "llama-plain"), safetensors.F64)
	if _, err := Load(b, Config{Threads: 1}); err == nil || !strings.Contains(err.Error(), "is F64") {
		t.Errorf("error %v", err)
	}
}
