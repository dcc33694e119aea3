package hf

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

// describeJSON fills the table of a config.
func describeJSON(t *testing.T, config string) *Architecture {
	t.Helper()
	c, err := ParseConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	a, err := describe(c, naming{"model.", "lm_head"})
	if err != nil {
		t.Fatalf("%s: %v", config, err)
	}
	return a
}

// config is a small model of an architecture with more keys: eight layers, heads of 32.
func config(arch, keys string) string {
	return fmt.Sprintf(`{"architectures": [%q], "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 8, "num_attention_heads": 2,
		"num_key_value_heads": 1, "head_dim": 32, "vocab_size": 128, "max_position_embeddings": 4096%s}`, arch, keys)
}

// close32 compares with the reference's float32 arithmetic, which is off by up to 5e-7.
func close32(a, b float32) bool { return math.Abs(float64(a-b)) <= 1e-6*math.Abs(float64(b)) }

// Every type at the sizes of real models has transformers' frequencies.
func TestRopeFrequencies(t *testing.T) {
	raw, err := os.ReadFile("testdata/rope_inv_freq.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Case       string
			HeadDim    int             `json:"head_dim"`
			Max        int             `json:"max_position_embeddings"`
			Length     int             `json:"seq_len"`
			Parameters json.RawMessage `json:"rope_parameters"`
			Factor     float32         `json:"attention_factor"`
			InvFreq    []string        `json:"inv_freq"`
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 12 {
		t.Fatalf("%d cases", len(file.Cases))
	}
	for _, c := range file.Cases {
		arch := "LlamaForCausalLM"
		if strings.HasPrefix(c.Case, "longrope") {
			arch = "Phi3ForCausalLM"
		}
		a := describeJSON(t, fmt.Sprintf(`{"architectures": [%q], "hidden_size": %d, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 1,
			"num_key_value_heads": 1, "head_dim": %d, "vocab_size": 128, "max_position_embeddings": %d, "rope_parameters": %s}`,
			arch, c.HeadDim, c.HeadDim, c.Max, c.Parameters))
		if a.Refused != nil {
			t.Errorf("%s: %v", c.Case, a.Refused)
			continue
		}
		freq, factor := a.Blocks[0].Rope.InvFreq(c.Length)
		if !close32(factor, c.Factor) || len(freq) != len(c.InvFreq) {
			t.Errorf("%s: %d frequencies, factor %v, want %d and %v", c.Case, len(freq), factor, len(c.InvFreq), c.Factor)
			continue
		}
		for j, f := range freq {
			bits, err := strconv.ParseUint(c.InvFreq[j], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			if want := math.Float32frombits(uint32(bits)); !close32(f, want) {
				t.Errorf("%s: frequency %d is %v, want %v", c.Case, j, f, want)
			}
		}
	}
}

// Configs of transformers 4, of the hub and of transformers 5 that say the same are read alike, layer by layer.
func TestRopeSpellings(t *testing.T) {
	const long = `"short_factor": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1], "long_factor": [2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2]`
	tests := []struct {
		name, arch string
		keys       []string // each says the same
	}{
		{"default", "LlamaForCausalLM", []string{
			`, "rope_theta": 5e5`,
			`, "rope_theta": 500000, "rope_scaling": null`,
			`, "rope_theta": 500000, "rope_scaling": {}`,
			`, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}`,
			`, "rope_parameters": {"rope_theta": 500000.0}, "rope_theta": 1`,
			`, "rope_parameters": {"rope_type": "default"}, "rope_theta": 500000`,
			`, "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}, "rope_theta": 500000`, // of no effect
		}},
		{"nothing at all", "LlamaForCausalLM", []string{``, `, "rope_theta": 10000`, `, "rope_parameters": null`}},
		{"class default", "MixtralForCausalLM", []string{``, `, "rope_theta": 1000000.0`}},
		{"linear", "LlamaForCausalLM", []string{
			`, "rope_scaling": {"type": "linear", "factor": 4}`,
			`, "rope_scaling": {"rope_type": "linear", "factor": 4.0}, "rope_theta": 10000`,
			`, "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}`,
			// The old key wins when both are there.
			`, "rope_scaling": {"type": "linear", "factor": 4}, "rope_parameters": {"rope_type": "default", "rope_theta": 7}`,
		}},
		{"llama3", "LlamaForCausalLM", []string{
			`, "rope_theta": 500000, "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 1024}`,
			`, "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 1024}`,
			`, "original_max_position_embeddings": 1024, "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000, "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 9}`,
		}},
		{"yarn", "Qwen2ForCausalLM", []string{
			`, "rope_theta": 1e6, "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 1024}`,
			`, "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4, "original_max_position_embeddings": 1024, "beta_fast": 32, "beta_slow": 1}`,
			`, "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4, "original_max_position_embeddings": 1024, "beta_fast": null, "beta_slow": 0, "truncate": true}`,
		}},
		{"longrope", "Phi3ForCausalLM", []string{
			`, "original_max_position_embeddings": 1024, "rope_scaling": {"type": "longrope", ` + long + `}`,
			`, "original_max_position_embeddings": 1024, "rope_scaling": {"type": "su", ` + long + `}`,
			`, "original_max_position_embeddings": 1024, "rope_scaling": {"type": "yarn", ` + long + `}`,
			`, "rope_parameters": {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 1024, ` + long + `}`,
			`, "rope_parameters": {"rope_type": "longrope", "factor": 4, "rope_theta": 10000.0, "original_max_position_embeddings": 1024, ` + long + `}`,
		}},
		{"partial", "Phi3ForCausalLM", []string{
			`, "partial_rotary_factor": 0.75`,
			`, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.75}`,
		}},
		{"two", "Gemma3ForCausalLM", []string{
			`, "rope_theta": 1000000, "rope_local_base_freq": 10000, "rope_scaling": {"rope_type": "linear", "factor": 8}`,
			`, "rope_scaling": {"type": "linear", "factor": 8}`,
			`, "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}`,
		}},
		{"olmo3", "Olmo3ForCausalLM", []string{
			`, "rope_theta": 500000, "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 1024}`,
			`, "rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 500000, "factor": 4, "original_max_position_embeddings": 1024}, "sliding_attention": {"rope_type": "default", "rope_theta": 500000}}`,
			// truncate is not heeded in a nested entry.
			`, "rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 500000, "factor": 4, "original_max_position_embeddings": 1024, "truncate": false}, "sliding_attention": {"rope_type": "default", "rope_theta": 500000}}`,
		}},
		{"spark", "Spark2_5ForCausalLM", []string{
			`, "rope_parameters": {"full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 5000000}, "sliding_attention": {"partial_rotary_factor": 1.0, "rope_theta": 10000}}`,
			`, "rope_parameters": {"full_attention": {"rope_type": "default", "partial_rotary_factor": 0.25}, "sliding_attention": {}}`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var want *Architecture
			for _, keys := range tt.keys {
				a := describeJSON(t, config(tt.arch, keys))
				if a.Refused != nil {
					t.Errorf("%s: %v", keys, a.Refused)
					continue
				}
				if want == nil {
					want = a
				}
				for i, b := range a.Blocks {
					w := want.Blocks[i]
					if b.Window != w.Window || (b.Rope == nil) != (w.Rope == nil) {
						t.Fatalf("%s: layer %d is %+v, want %+v", keys, i, b, w)
					}
					equalRopes(t, keys, b.Rope, w.Rope)
				}
			}
		})
	}
}

func equalRopes(t *testing.T, keys string, a, b *Rope) {
	t.Helper()
	if a == nil {
		return
	}
	for _, length := range []int{1, 1024, 1025, 9000} {
		x, f := a.InvFreq(length)
		y, g := b.InvFreq(length)
		if f != g || fmt.Sprint(x) != fmt.Sprint(y) {
			t.Errorf("%s: at length %d: %v times %v, want %v times %v", keys, length, x, f, y, g)
		}
	}
}

// What the first spelling means, in numbers worked out by hand.
func TestRopeMeanings(t *testing.T) {
	tests := []struct {
		name, arch, keys string
		layer            int
		dim              int
		second           float64 // frequency of pair 1
		factor           float64
	}{
		{"llama", "LlamaForCausalLM", `, "rope_theta": 65536`, 0, 32, 0.5, 1},
		{"linear", "LlamaForCausalLM", `, "rope_theta": 65536, "rope_scaling": {"type": "linear", "factor": 4}`, 0, 32, 0.125, 1},
		{"dynamic at its length", "LlamaForCausalLM", `, "rope_theta": 65536, "rope_scaling": {"type": "dynamic", "factor": 4}`, 0, 32, 0.5, 1},
		{"phi3", "Phi3ForCausalLM", `, "rope_theta": 256, "partial_rotary_factor": 0.5`, 0, 16, 0.5, 1},
		{"gemma3 sliding", "Gemma3ForCausalLM", `, "rope_theta": 1, "rope_local_base_freq": 65536`, 0, 32, 0.5, 1},
		{"gemma3 full", "Gemma3ForCausalLM", `, "rope_theta": 65536, "rope_scaling": {"type": "linear", "factor": 2}`, 5, 32, 0.25, 1},
		{"olmo3 sliding keeps its default", "Olmo3ForCausalLM", `, "rope_theta": 65536`, 0, 32, math.Pow(5e5, -1.0/16), 1},
		{"olmo3 full", "Olmo3ForCausalLM", `, "rope_theta": 65536`, 3, 32, 0.5, 1},
		{"spark full", "Spark2_5ForCausalLM", `, "rope_parameters": {"full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 16}, "sliding_attention": {"rope_theta": 65536}}`, 3, 8, 0.5, 1},
		{"spark sliding", "Spark2_5ForCausalLM", `, "rope_parameters": {"full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 16}, "sliding_attention": {"rope_theta": 65536}}`, 2, 32, 0.5, 1},
		{"yarn's factor", "LlamaForCausalLM", `, "rope_theta": 65536, "rope_scaling": {"type": "yarn", "factor": 2.718281828459045, "original_max_position_embeddings": 4096}`, 0, 32, 0.5, 1.1},
		{"yarn's given factor", "LlamaForCausalLM", `, "rope_theta": 65536, "rope_scaling": {"type": "yarn", "factor": 8, "attention_factor": 1.5, "original_max_position_embeddings": 4096}`, 0, 32, 0.5, 1.5},
		{"yarn's quotient", "LlamaForCausalLM", `, "rope_theta": 65536, "rope_scaling": {"type": "yarn", "factor": 2.718281828459045, "mscale": 10, "mscale_all_dim": 5, "original_max_position_embeddings": 4096}`, 0, 32, 0.5, 2 / 1.5},
	}
	for _, tt := range tests {
		a := describeJSON(t, config(tt.arch, tt.keys))
		r := a.Blocks[tt.layer].Rope
		freq, factor := r.InvFreq(100)
		if r.Dim != tt.dim || !close32(freq[1], float32(tt.second)) || !close32(factor, float32(tt.factor)) {
			t.Errorf("%s: %d dimensions, %v, factor %v; want %d, %v, %v", tt.name, r.Dim, freq[1], factor, tt.dim, tt.second, tt.factor)
		}
	}
	if b := describeJSON(t, config("SmolLM3ForCausalLM", "")).Blocks; b[2].Rope == nil || b[3].Rope != nil || b[7].Rope != nil {
		t.Error("smollm3: every fourth layer, and no other, is without rotation")
	}
	if b := describeJSON(t, config("SmolLM3ForCausalLM", `, "no_rope_layers": [0,1,1,1,1,1,1,1]`)).Blocks; b[0].Rope != nil || b[3].Rope == nil {
		t.Error("smollm3: no_rope_layers is not heeded")
	}
	if r := describeJSON(t, config("Gemma3ForCausalLM", `, "rope_parameters": {"full_attention": null, "sliding_attention": {"rope_theta": 7}}`)).Blocks; r[5].Rope != nil || r[0].Rope.Theta != 7 {
		t.Error("gemma3: null is no rotation")
	}
}

// Same says for which lengths the frequencies are the same.
func TestRopeSame(t *testing.T) {
	const long = `, "original_max_position_embeddings": 1024, "rope_scaling": {"type": "longrope",
		"short_factor": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1], "long_factor": [2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2]}`
	for _, r := range []*Rope{
		describeJSON(t, config("LlamaForCausalLM", "")).Blocks[0].Rope,
		describeJSON(t, config("LlamaForCausalLM", `, "rope_scaling": {"type": "dynamic", "factor": 2}`)).Blocks[0].Rope,
		describeJSON(t, config("Phi3ForCausalLM", long)).Blocks[0].Rope,
	} {
		lengths := []int{1, 1024, 1025, 4096, 4097, 5000}
		differ := false
		for _, a := range lengths {
			for _, b := range lengths {
				x, _ := r.InvFreq(a)
				y, _ := r.InvFreq(b)
				if got := fmt.Sprint(x) == fmt.Sprint(y); r.Same(a, b) != got {
					t.Errorf("%s: lengths %d and %d: %v, the frequencies say %v", r.Type, a, b, r.Same(a, b), got)
				} else if !got {
					differ = true
				}
			}
		}
		if want := r.Type == "dynamic" || r.Type == "longrope"; differ != want {
			t.Errorf("%s: the frequencies depend on the length: %v", r.Type, differ)
		}
	}
}

// What cannot be is refused when the model is run, in one line, and computed by nobody.
func TestRopeRefusals(t *testing.T) {
	for keys, want := range map[string]string{
		`, "rope_theta": 0`:                                 "theta 0",
		`, "rope_theta": -5`:                                "theta -5",
		`, "rope_parameters": {"rope_type": "mrope"}`:       `"mrope" is unknown`,
		`, "rope_scaling": {"type": "linear", "factor": 0}`: "factor 0",
		`, "rope_scaling": {"type": "linear", "factor": 2, "partial_rotary_factor": 0.01}`:                                                      "0 dimensions",
		`, "rope_scaling": {"type": "linear", "factor": 2, "partial_rotary_factor": 2}`:                                                         "64 dimensions",
		`, "rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": []}`:                                                        "1 short and 0 long factors for 16 pairs",
		`, "rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 0}`: "original length 0",
		`, "rope_scaling": {"type": "llama3", "factor": 8}`:                                                                                     "low_freq_factor is missing or no number",
		`, "rope_scaling": {"type": "linear", "factor": "4.0"}`:                                                                                 "factor is missing or no number",
		`, "rope_scaling": "linear"`: `rope_scaling is "linear", want an object`,
		`, "rms_norm_eps": -1`:       "the epsilon of the norms is -1",
		`, "rope_scaling": {"type": "yarn", "factor": -8, "original_max_position_embeddings": 4}, "rope_theta": 1e99`: "factor -8",
	} {
		a := describeJSON(t, config("LlamaForCausalLM", keys))
		if a.Refused == nil || !strings.Contains(a.Refused.Error(), want) || strings.Contains(a.Refused.Error(), "\n") {
			t.Errorf("%s: %v, want %q", keys, a.Refused, want)
		}
	}
}
