package mix

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"nibble/gguf/block"
)

// models are those of testdata/README.md.
var models = map[string]Model{
	"untied":   {Arch: "llama", Layers: 17, Heads: 8, KVHeads: 2},
	"mixtral8": {Arch: "llama", Layers: 9, Heads: 8, KVHeads: 2, Experts: 8},
	"mixtral4": {Arch: "llama", Layers: 9, Heads: 8, KVHeads: 2, Experts: 4},
	"phi3":     {Arch: "phi3", Layers: 18, Heads: 8, KVHeads: 2},
	"l80":      {Arch: "llama", Layers: 80, Heads: 8, KVHeads: 2},
	"q80":      {Arch: "qwen2", Layers: 80, Heads: 8, KVHeads: 8},
	"odd":      {Arch: "llama", Layers: 10, Heads: 8, KVHeads: 4},
	"smol":     {Arch: "llama", Layers: 30, Heads: 9, KVHeads: 3, Tied: true},
}

// TestTypes holds the types of all mixtures against llama-quantize's.
func TestTypes(t *testing.T) {
	raw, err := os.ReadFile("testdata/types.txt")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		x, m := models[f[0]], parse(t, f[1])
		var shape []int
		for d := range strings.SplitSeq(f[3], "x") {
			shape = append(shape, atoi(t, d))
		}
		layer := 0
		for _, run := range f[4:] {
			want, times, _ := strings.Cut(run, "*")
			n := 1
			if times != "" {
				n = atoi(t, times)
			}
			for range n {
				name, at := f[2], -1
				if name != "token_embd.weight" && name != "output.weight" {
					name, at = "blk."+strconv.Itoa(layer)+"."+name, layer
				}
				if got := m.Type(x, Options{}, name, shape, at); got.String() != want {
					t.Errorf("%s %s: %s %v is %s, want %s", f[0], f[1], name, shape, got, want)
				}
				layer++
				count++
			}
		}
	}
	if count < 15000 {
		t.Errorf("%d tensors", count)
	}
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func parse(t *testing.T, name string) *Mix {
	t.Helper()
	m, err := Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestOptions checks what overrides a mixture. The cases with weights are those of llama-quantize with an imatrix.
func TestOptions(t *testing.T) {
	tied := Model{Arch: "llama", Layers: 16, Heads: 4, KVHeads: 1, Tied: true}
	weighted := tied
	weighted.Weighted = true
	own := Model{Arch: "llama", Layers: 16, Heads: 4, KVHeads: 1}
	q2, q8 := block.Q2_K, block.Q8_0
	rules := []Rule{{regexp.MustCompile(`ffn_down`), block.Q6_K}, {regexp.MustCompile(`ffn_`), block.Q3_K}}
	for _, test := range []struct {
		mix   string
		x     Model
		o     Options
		name  string
		shape []int
		layer int
		want  block.Type
	}{
		{"q4_k_m", tied, Options{}, "token_embd.weight", []int{64, 256}, -1, block.Q6_K},
		{"q4_k_m", own, Options{}, "token_embd.weight", []int{64, 256}, -1, block.Q4_K},
		{"q4_k_m", tied, Options{Pure: true}, "token_embd.weight", []int{64, 256}, -1, block.Q4_K},
		{"q4_k_m", tied, Options{Embedding: &q2}, "token_embd.weight", []int{64, 256}, -1, block.Q2_K},
		{"q4_k_m", tied, Options{Output: &q8}, "token_embd.weight", []int{64, 256}, -1, block.Q8_0},
		{"q4_k_m", own, Options{Output: &q8}, "output.weight", []int{64, 256}, -1, block.Q8_0},
		{"f16", own, Options{Output: &q8}, "output.weight", []int{64, 256}, -1, block.Q8_0},
		{"q4_k_m", own, Options{Rules: rules}, "blk.3.ffn_down.weight", []int{64, 256}, 3, block.Q6_K},
		{"q4_k_m", own, Options{Rules: rules}, "blk.3.ffn_up.weight", []int{64, 256}, 3, block.Q3_K},
		{"q4_k_m", own, Options{Rules: rules}, "blk.3.ffn_up.weight", []int{64, 96}, 3, block.Q4_0},
		{"f16", own, Options{Rules: rules}, "blk.3.ffn_up.weight", []int{64, 256}, 3, block.F16},
		{"q4_0", own, Options{}, "blk.3.ffn_up.weight", []int{64, 40}, 3, block.F16},
		{"q4_0", weighted, Options{}, "blk.1.ffn_down.weight", []int{64, 256}, 1, block.Q4_1},
		{"q4_0", weighted, Options{}, "blk.2.ffn_down.weight", []int{64, 256}, 2, block.Q4_0},
		{"q5_0", weighted, Options{}, "blk.1.ffn_down.weight", []int{64, 256}, 1, block.Q5_1},
		{"iq4_xs", weighted, Options{}, "blk.1.ffn_down.weight", []int{64, 256}, 1, block.IQ4_XS},
		{"q8_0", own, Options{}, "blk.1.ffn_gate_inp.weight", []int{8, 256}, 1, block.F32},
		{"q8_0", own, Options{}, "position_embd.weight", []int{8, 256}, -1, block.F32},
		{"q8_0", own, Options{}, "blk.1.attn_q.bias", []int{256}, 1, block.F32},
		{"q8_0", own, Options{}, "blk.1.attn_q.weight", []int{1, 256}, 1, block.F32},
	} {
		if got := parse(t, test.mix).Type(test.x, test.o, test.name, test.shape, test.layer); got != test.want {
			t.Errorf("%s: %s %v is %s, want %s", test.mix, test.name, test.shape, got, test.want)
		}
	}
	if _, err := Parse("q9"); err == nil || !strings.Contains(err.Error(), "q4_k_m, q4_k_s") {
		t.Errorf("q9: %v", err)
	}
	if m := parse(t, "Q4_K_M"); m.FileType != 15 {
		t.Errorf("general.file_type %d, want 15", m.FileType)
	}
}

// TestChoices checks that what a plan of single types can use is written, comes by its size, and has whole blocks; and the numbers of files, which
// are those of llama.cpp's list of file types.
func TestChoices(t *testing.T) {
	for columns, want := range map[int]int{256: 7, 576: 6, 40: 0} {
		list := Choices(columns)
		if len(list) != want {
			t.Errorf("%d columns: %v", columns, list)
		}
		for i, x := range list {
			if !x.CanEncode() || columns%x.Size() != 0 || i > 0 && x.Bytes()*list[i-1].Size() < list[i-1].Bytes()*x.Size() {
				t.Errorf("%d columns: %s, behind %v", columns, x, list[:i])
			}
		}
	}
	for x, want := range map[block.Type]uint32{block.Q2_K: 10, block.Q3_K: 12, block.IQ4_XS: 30, block.Q4_K: 15, block.Q5_K: 17, block.Q6_K: 18,
		block.Q8_0: 7, block.Q4_0: 2, block.IQ4_NL: 25, block.Q4_1: 3, block.Q5_0: 8, block.Q5_1: 9, block.F16: 1, block.BF16: 32} {
		if got := FileType(x); got != want {
			t.Errorf("%s: %d, want %d", x, got, want)
		}
	}
}
