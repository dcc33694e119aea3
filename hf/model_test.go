package hf_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"nibble/hf"
	"nibble/internal/testmodel"
	"nibble/safetensors"
)

func open(t testing.TB, dir string, o hf.Options) (*hf.Model, error) {
	t.Helper()
	f, err := hf.NewFolder(dir, os.DirFS(dir), "")
	if err != nil {
		t.Fatal(err)
	}
	set, err := safetensors.OpenSet(f.FS, f.Weights)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	return hf.Open(f, set, o)
}

// Every tensor that transformers wrote has a row, every row a tensor.
func TestEveryArchitecture(t *testing.T) {
	others := map[string]int{ // tensors outside the text model
		"gemma3-multimodal": 23, // not under language_model.
	}
	for _, v := range testmodel.Variants(t) {
		t.Run(v, func(t *testing.T) {
			m, err := open(t, testmodel.Golden(t, v).Write(t), hf.Options{})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			var first string
			for i := range m.Tensors {
				x := &m.Tensors[i]
				if x.Role == hf.Other {
					n++
					first = x.Name
				}
				if x.Source == "" {
					t.Errorf("%s has no place", x.Name)
				}
			}
			if n != others[v] {
				t.Errorf("%d tensors have no row, the last is %s; want %d", n, first, others[v])
			}
		})
	}
}

// Rows whose position in the file is easy to get wrong. Shapes and offsets follow from the configs by hand.
func TestPlaces(t *testing.T) {
	tests := []struct {
		variant, name, source string
		offset                int64
		role                  hf.Role
		input, fused          string
	}{
		{"llama-plain", "model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.q_proj.weight", 0, hf.Q,
			"model.layers.0.input_layernorm", "model.layers.0.self_attn.qkv_proj"},
		// [4, 96, 64]: expert 2's up rows follow its 48 gate rows.
		{"mixtral-fused", "model.layers.1.block_sparse_moe.experts.2.w3.weight", "model.layers.1.mlp.experts.gate_up_proj",
			2*96*64 + 48*64, hf.Up, "model.layers.1.post_attention_layernorm", "model.layers.1.block_sparse_moe.experts"},
		{"mixtral-fused", "model.layers.1.block_sparse_moe.experts.3.w2.weight", "model.layers.1.mlp.experts.down_proj",
			3 * 64 * 48, hf.Down, "model.layers.1.block_sparse_moe.experts.3.w3", "model.layers.1.block_sparse_moe.experts"},
		{"mixtral-fused", "model.layers.0.block_sparse_moe.gate.weight", "model.layers.0.mlp.gate.weight", 0, hf.Router,
			"model.layers.0.post_attention_layernorm", ""},
		{"qwen3moe", "model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight", 0, hf.Up,
			"model.layers.1.post_attention_layernorm", "model.layers.1.mlp.gate_up_proj"}, // mlp_only_layers: [1]
		{"gemma3-multimodal", "language_model.model.layers.2.mlp.gate_proj.weight", "language_model.model.layers.2.mlp.gate_proj.weight",
			0, hf.Gate, "language_model.model.layers.2.pre_feedforward_layernorm", "language_model.model.layers.2.mlp.gate_up_proj"},
		{"olmo2", "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight", 0, hf.Up, "", "model.layers.0.mlp.gate_up_proj"},
		{"gpt2-hub", "h.1.attn.c_attn.weight", "h.1.attn.c_attn.weight", 0, hf.QKV, "h.1.ln_1", ""},
		{"spark2_5", "model.layers.3.self_attn.out_proj.weight", "model.layers.3.self_attn.out_proj.weight", 0, hf.O,
			"model.layers.3.self_attn.q_k_v_proj", ""},
	}
	for _, tt := range tests {
		m, err := open(t, testmodel.Golden(t, tt.variant).Write(t), hf.Options{})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, x := range m.Tensors {
			if x.Name != tt.name {
				continue
			}
			found = true
			if x.Source != tt.source || x.Offset != tt.offset || x.Role != tt.role || x.Input != tt.input || x.Fused != tt.fused {
				t.Errorf("%s %s: source %s+%d, role %v, input %q, fused %q; want %s+%d, %v, %q, %q", tt.variant, tt.name,
					x.Source, x.Offset, x.Role, x.Input, x.Fused, tt.source, tt.offset, tt.role, tt.input, tt.fused)
			}
		}
		if !found {
			t.Errorf("%s: no %s", tt.variant, tt.name)
		}
	}
}

func TestSparkParts(t *testing.T) {
	m, err := open(t, testmodel.Golden(t, "spark2_5").Write(t), hf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range m.Tensors {
		if x.Role == hf.QKV {
			// 4 heads and 2 key/value heads of 32: 128 + 64 + 64 rows.
			if len(x.Parts) != 3 || x.Parts[0].Rows != 128 || x.Parts[1].Rows != 64 || x.Parts[2].Rows != 64 {
				t.Fatalf("%s: parts %+v", x.Name, x.Parts)
			}
			return
		}
	}
	t.Fatal("no q_k_v_proj")
}

// A checkpoint that contradicts its config is named with the flag that decides, and the flag decides.
func TestContradictions(t *testing.T) {
	const head, embed = "lm_head.weight", "model.embed_tokens.weight"
	without := func(m *testmodel.Model, name string) {
		for i, shard := range m.Shards {
			var kept []safetensors.Spec
			for _, s := range shard {
				if s.Name != name {
					kept = append(kept, s)
				}
			}
			m.Shards[i] = kept
		}
	}
	other := func(m *testmodel.Model) { m.Fill = nil }
	tests := []struct {
		name    string
		variant string
		change  func(*testmodel.Model)
		o       hf.Options
		want    string // part of the error; "" for none
		heads   int    // rows of role Head
		source  string // of the embedding
		tied    bool
	}{
		{"tied, equal head", "llama-tied-head", nil, hf.Options{}, "", 0, embed, true},
		{"tied, other head", "llama-tied-head", other, hf.Options{}, "--tie no keeps it", 0, "", true},
		{"tied, other head, no", "llama-tied-head", other, hf.Options{Tie: "no"}, "", 1, embed, false},
		{"tied, other head, yes", "llama-tied-head", other, hf.Options{Tie: "yes"}, "", 0, embed, true},
		{"untied, no head", "llama-plain", func(m *testmodel.Model) { without(m, head) }, hf.Options{}, "--tie yes takes", 0, "", false},
		{"untied, no head, yes", "llama-plain", func(m *testmodel.Model) { without(m, head) }, hf.Options{Tie: "yes"}, "", 0, embed, true},
		{"only the head, tied", "llama-tied-head", func(m *testmodel.Model) { without(m, embed) }, hf.Options{}, "", 0, head, true},
		{"only the head, untied", "llama-plain", func(m *testmodel.Model) { without(m, embed) }, hf.Options{}, "missing: model.embed_tokens.weight", 0, "", false},
		{"no norm", "llama-plain", func(m *testmodel.Model) { without(m, "model.norm.weight") }, hf.Options{}, "missing: model.norm.weight", 0, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := testmodel.Golden(t, tt.variant)
			if tt.change != nil {
				tt.change(g)
			}
			m, err := open(t, g.Write(t), tt.o)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, hf.ErrMismatch) {
					t.Fatalf("error %v, want %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			heads := 0
			for _, x := range m.Tensors {
				if x.Role == hf.Head {
					heads++
				}
			}
			if e := m.Row(hf.Embedding); heads != tt.heads || e.Source != tt.source || m.Arch.Tied != tt.tied {
				t.Errorf("%d heads, embedding in %s, tied %v; want %d, %s, %v", heads, e.Source, m.Arch.Tied, tt.heads, tt.source, tt.tied)
			}
		})
	}
}

func TestPaddedVocabulary(t *testing.T) {
	g := testmodel.Golden(t, "llama-llama3") // vocabulary 256, tied
	for i := range g.Shards[0] {
		if s := &g.Shards[0][i]; s.Name == "model.embed_tokens.weight" {
			s.Shape = []int{288, s.Shape[1]}
		}
	}
	dir := g.Write(t)
	if _, err := open(t, dir, hf.Options{}); err == nil || !strings.Contains(err.Error(), "has 288 rows, config.json's vocab_size is 256; --vocab config") {
		t.Errorf("error %v", err)
	}
	for vocab, rows := range map[string]int{"config": 256, "file": 288} {
		m, err := open(t, dir, hf.Options{Vocab: vocab})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Row(hf.Embedding).Shape[0]; got != rows {
			t.Errorf("--vocab %s: %d rows, want %d", vocab, got, rows)
		}
		if got := strings.Contains(string(m.Config.Raw()), `"vocab_size": 288`); got != (vocab == "file") {
			t.Errorf("--vocab %s: config changed: %v", vocab, got)
		}
	}
}

func TestUnknownArchitecture(t *testing.T) {
	g := testmodel.Golden(t, "llama-plain")
	g.Config = strings.Replace(g.Config, "LlamaForCausalLM", "MambaForCausalLM", 1)
	dir := g.Write(t)
	var unknown *hf.UnknownArchitecture
	if _, err := open(t, dir, hf.Options{}); !errors.As(err, &unknown) || unknown.Name != "MambaForCausalLM" {
		t.Fatalf("error %v", err)
	}
	m, err := open(t, dir, hf.Options{Generic: true})
	if err != nil {
		t.Fatal(err)
	}
	roles := map[hf.Role]int{}
	for _, x := range m.Tensors {
		roles[x.Role]++
	}
	// Two layers of seven linears and a head; embedding and five norms are carried over.
	if roles[hf.Up] != 14 || roles[hf.Head] != 1 || roles[hf.Other] != 6 {
		t.Errorf("roles %v", roles)
	}
}
