package names

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nibble/gguf"
	"nibble/hf"
	"nibble/internal/testmodel"
	"nibble/safetensors"
)

func open(t *testing.T, variant string) *hf.Model {
	t.Helper()
	dir := testmodel.Golden(t, variant).Write(t)
	f, err := hf.NewFolder(dir, os.DirFS(dir), "")
	if err != nil {
		t.Fatal(err)
	}
	set, err := safetensors.OpenSet(f.FS, f.Weights)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	m, err := hf.Open(f, set, hf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestNames holds the names of all architectures against those that another program has for them.
func TestNames(t *testing.T) {
	raw, err := os.ReadFile("testdata/names.txt")
	if err != nil {
		t.Fatal(err)
	}
	want, met := map[string]string{}, map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		want[f[0]+" "+f[1]] = f[2]
	}
	for _, variant := range testmodel.Variants(t) {
		m := open(t, variant)
		tensors, _, err := Tensors(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range tensors {
			for _, s := range x.Sources {
				key := m.Arch.Name + " " + s.Name
				if got, ok := want[key]; ok && got != x.Name {
					t.Errorf("%s: %s, want %s", key, x.Name, got)
				} else if !ok && s.Layer <= 0 && s.Expert <= 1 && m.Arch.Name != "Spark2_5ForCausalLM" && variant != "qwen3moe-step2" {
					t.Errorf("%s: %s is not in names.txt", key, x.Name)
				}
				met[key] = true
			}
		}
	}
	for key := range want {
		if !met[key] {
			t.Errorf("%s was not met", key)
		}
	}
}

// TestSpark names what the other program does not know.
func TestSpark(t *testing.T) {
	tensors, left, err := Tensors(open(t, "spark2_5"))
	if err != nil || len(left) > 0 {
		t.Fatal(left, err)
	}
	var got []string
	for _, x := range tensors[:9] {
		got = append(got, fmt.Sprint(x.Name, x.Shape, x.F32, x.Heads))
	}
	want := []string{"token_embd.weight[256 64] false 0", "blk.0.attn_norm.weight[64] true 0", "blk.0.attn_qkv.weight[256 64] false 0",
		"blk.0.attn_gate.weight[4 64] false 0", "blk.0.attn_output.weight[64 128] false 0", "blk.0.ffn_norm.weight[64] true 0",
		"blk.0.ffn_gate.weight[104 64] false 0", "blk.0.ffn_up.weight[104 64] false 0", "blk.0.ffn_down.weight[64 104] false 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func find(t *testing.T, m *hf.Model, name string) Tensor {
	t.Helper()
	tensors, _, err := Tensors(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tensors {
		if x.Name == name {
			return x
		}
	}
	t.Fatalf("no tensor %s", name)
	return Tensor{}
}

func TestStoredOtherwise(t *testing.T) {
	for _, test := range []struct {
		variant, name string
		shape         []int
		f32, plusOne  bool
		heads, parts  int
	}{
		{"llama-linear-bias", "blk.0.attn_q.weight", []int{48, 64}, false, false, 4, 1},
		{"llama-linear-bias", "blk.0.attn_k.bias", []int{12}, true, false, 1, 1},
		{"llama-linear-bias", "blk.0.attn_v.weight", []int{12, 64}, false, false, 0, 1},
		{"qwen2", "blk.1.attn_q.bias", []int{64}, true, false, 0, 1},
		{"gpt2", "blk.2.attn_qkv.weight", []int{192, 64}, false, false, 0, 1},
		{"gpt2", "blk.0.attn_norm.bias", []int{64}, true, false, 0, 1},
		{"mixtral", "blk.1.ffn_down_exps.weight", []int{4, 64, 48}, false, false, 0, 4},
		{"qwen3moe-fused", "blk.0.ffn_gate_exps.weight", []int{6, 32, 64}, false, false, 0, 6},
		{"qwen3moe", "blk.0.ffn_gate_inp.weight", []int{6, 64}, true, false, 0, 1},
		{"gemma3", "blk.0.attn_q_norm.weight", []int{16}, true, true, 0, 1},
		{"gemma2", "output_norm.weight", []int{96}, true, true, 0, 1},
		{"olmo2", "blk.0.post_ffw_norm.weight", []int{64}, true, false, 0, 1},
		{"phi3-longrope-cross", "blk.0.ffn_up.weight", []int{192, 64}, false, false, 0, 1},
	} {
		x := find(t, open(t, test.variant), test.name)
		if !cmp.Equal(x.Shape, test.shape) || x.F32 != test.f32 || x.PlusOne != test.plusOne || x.Heads != test.heads || len(x.Sources) != test.parts {
			t.Errorf("%s, %s: %v, F32 %v, 1 added %v, %d heads, %d parts", test.variant, test.name, x.Shape, x.F32, x.PlusOne, x.Heads, len(x.Sources))
		}
		for i, s := range x.Sources {
			if test.parts > 1 && s.Expert != i {
				t.Errorf("%s: expert %d is part %d", test.name, s.Expert, i)
			}
		}
	}
}

// TestRow reorders two heads of six rows: reshaped to [head, 2, 3], the last two axes are exchanged.
func TestRow(t *testing.T) {
	x := Tensor{Heads: 2}
	var got []int
	for r := range 12 {
		got = append(got, x.Row(r, 12))
	}
	if want := []int{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}; !cmp.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if x.Heads = 0; x.Row(7, 12) != 7 {
		t.Error("rows are reordered without heads")
	}
}

// TestDivisors checks the scaling of llama3 at its ends, and that of longrope against its config.
func TestDivisors(t *testing.T) {
	x := find(t, open(t, "llama-llama3"), "rope_freqs.weight")
	if v := x.Values; !x.F32 || !cmp.Equal(x.Shape, []int{12}) || len(v) != 12 || v[0] != 1 || v[1] != 1 || v[2] <= 1 || v[3] >= 8 || v[4] != 8 || v[11] != 8 {
		t.Errorf("%+v", x)
	}
	m := open(t, "phi3-longrope-cross")
	if x := find(t, m, "rope_factors_long.weight"); x.Values[5] != 23.8 {
		t.Errorf("%v", x.Values)
	}
	if x := find(t, m, "rope_factors_short.weight"); x.Values[5] != 2.75 {
		t.Errorf("%v", x.Values)
	}
}

// TestLeft names what has no place: the vision tower of a multimodal model. Buffers are not worth a word.
func TestLeft(t *testing.T) {
	_, left, err := Tensors(open(t, "gemma3-multimodal"))
	if err != nil || len(left) != 23 {
		t.Errorf("%d: %v, %v", len(left), left, err)
	}
	for _, name := range left {
		if !strings.HasPrefix(name, "vision_tower.") && !strings.HasPrefix(name, "multi_modal_projector.") {
			t.Errorf("%s is left", name)
		}
	}
}

// TestOwnHead stores a tied head where the reader insists on one.
func TestOwnHead(t *testing.T) {
	m := open(t, "llama-plain")
	m.Arch.Name = "Olmo2ForCausalLM"
	m.Tensors = m.Tensors[:2] // without a head
	if x := find(t, m, "output.weight"); x.Sources[0].Role != hf.Embedding || !cmp.Equal(x.Shape, x.Sources[0].Shape) {
		t.Errorf("%+v", x)
	}
}

func TestUnknown(t *testing.T) {
	m := &hf.Model{Arch: &hf.Architecture{Name: "BertModel"}}
	_, _, err := Tensors(m)
	if err == nil || !strings.Contains(err.Error(), "BertModel has no name in GGUF") {
		t.Errorf("error %v", err)
	}
	if _, _, err := Settings(m.Arch); err == nil {
		t.Error("no error")
	}
}

// settingsOf returns the settings of a variant by key, without what all have.
func settingsOf(t *testing.T, variant string) (values map[string]any, notes []string) {
	t.Helper()
	entries, notes, err := Settings(open(t, variant).Arch)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gguf.NewPlan("m", entries, nil, 0); err != nil {
		t.Errorf("%s: %v", variant, err)
	}
	values = map[string]any{}
	for _, e := range entries {
		_, key, _ := strings.Cut(e.Key, ".")
		values[key] = e.Value
	}
	return values, notes
}
