package synthetic_test

import (
	"bytes"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"

	"nibble/build"
	"nibble/formats"
	"nibble/hf"
	"nibble/internal/synthetic"
	"nibble/internal/testmodel"
	"nibble/quant"
	"nibble/runtime"
	"nibble/safetensors"
)

// The numbers are those that the hub and the makers of the models state; llama-11b is nobody's.
func TestParameters(t *testing.T) {
	want := map[string]int64{
		"tinyllama-1.1b": 1_100_048_384,
		"smollm-135m":    134_515_008,
		"spark-1.7b":     1_707_657_216,
		"spark-4b":       4_112_079_360,
		"llama-8b":       8_030_261_248,
		"llama-11b":      11_338_142_720,
	}
	for _, name := range synthetic.Shapes() {
		config, err := synthetic.Shape(name)
		if err != nil {
			t.Fatal(err)
		}
		c, err := synthetic.New(config, synthetic.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		if c.Parameters != want[name] || c.Weights.TotalSize != 2*want[name] {
			t.Errorf("%s: %d parameters in %d bytes, want %d", name, c.Parameters, c.Weights.TotalSize, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("no shape for %v", want)
	}
	if _, err := synthetic.Shape("llama-9b"); err == nil || !strings.Contains(err.Error(), `shape "llama-9b" is unknown: it can be llama-11b, llama-8b,`) {
		t.Errorf("error %v", err)
	}
}

// open opens a checkpoint as if it were on a disk.
func open(t *testing.T, config []byte, s synthetic.Settings) *build.Build {
	t.Helper()
	c, err := synthetic.New(config, s)
	if err != nil {
		t.Fatal(err)
	}
	f, err := hf.NewFolder("", c.FS(), "")
	if err != nil {
		t.Fatal(err)
	}
	b, err := build.Open(f, hf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Set.Close() })
	if len(b.Defects)+len(b.Missing)+len(b.Notes) > 0 {
		t.Fatalf("defects %v, missing %v, notes %v", b.Defects, b.Missing, b.Notes)
	}
	return b
}

func settings(t *testing.T, format string, spec quant.Spec) synthetic.Settings {
	t.Helper()
	f, err := formats.ByName(format)
	if err != nil {
		t.Fatal(err)
	}
	spec.Zero, spec.Scale = f.DefaultZero(), safetensors.BF16
	return synthetic.Settings{Format: f, Spec: spec}
}

// runs fails unless the model computes numbers.
func runs(t *testing.T, b *build.Build) {
	t.Helper()
	m, err := runtime.Load(b, runtime.Config{Mode: runtime.A8, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession(8, runtime.KVF32)
	if err != nil {
		t.Fatal(err)
	}
	most := float32(0)
	err = m.Forward([]runtime.Input{{Session: s, Tokens: []int32{3, 1, 4, 1}}}, func(_, _ int, logits []float32) {
		for _, v := range logits {
			most = max(most, max(v, -v))
		}
	})
	if err != nil || most == 0 || most > 1e4 {
		t.Errorf("logits up to %v, %v", most, err)
	}
}

// tiny has fused projections, a tied head, a gate per head, and sizes that differ from one another.
const tiny = `{"architectures": ["Spark2_5ForCausalLM"], "head_dim": 32, "hidden_act": "gelu", "hidden_size": 128,
"intermediate_size": 192, "max_position_embeddings": 64, "num_attention_heads": 6, "num_hidden_layers": 4,
"num_key_value_heads": 2, "sliding_window": 4, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "vocab_size": 264}`

func TestFormats(t *testing.T) {
	for _, tt := range []struct {
		name, format string
		spec         quant.Spec
		linears      int
		head, embed  bool // quantized
	}{
		{"gptq", "gptq", quant.Spec{Bits: 4, Group: 64}, 4*7 + 1, true, false}, // q, k and v apart
		{"gptq 8 bits", "gptq", quant.Spec{Bits: 8, Group: -1}, 4*7 + 1, true, false},
		{"awq", "awq", quant.Spec{Bits: 4, Group: 32}, 4*7 + 1, true, false},
		{"cpu_int4", "cpu_int4", quant.Spec{Bits: 4, Group: 64}, 4*5 + 1, false, true}, // the embedding is the head
		{"W4A16", "compressed-tensors", quant.Spec{Bits: 4, Group: 64}, 4*7 + 1, true, false},
		{"W8A8", "compressed-tensors", quant.Spec{Bits: 8, Group: -1, Int8: true}, 4*7 + 1, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := settings(t, tt.format, tt.spec)
			b := open(t, []byte(tiny), s)
			head, embed := b.Linears["lm_head"], b.Linears["model.embedding"]
			if len(b.Linears) != tt.linears || head != nil != tt.head || embed != nil != tt.embed || b.Arch.Tied == tt.head {
				t.Errorf("%d quantized matrices, tied %v", len(b.Linears), b.Arch.Tied)
			}
			for name, l := range b.Linears {
				n, k := l.Shape()
				if have := l.Spec(); have.Bits != tt.spec.Bits || have.GroupSize(k) != tt.spec.GroupSize(k) || have.Zero != s.Spec.Zero || have.Int8 != tt.spec.Int8 {
					t.Errorf("%s is %s", name, have)
				}
				checkMatrix(t, name, l, n, k)
			}
			runs(t, b)

			s.KeepHead = true
			b = open(t, []byte(tiny), s)
			if len(b.Linears) != tt.linears-1 || b.Linears["lm_head"] != nil || b.Linears["model.embedding"] != nil || !b.Arch.Tied {
				t.Errorf("head kept: %d quantized matrices, tied %v", len(b.Linears), b.Arch.Tied)
			}
			runs(t, b)
		})
	}
}

// checkMatrix verifies that rows are about of unit length, that there are many, and that they come again after 32.
func checkMatrix(t *testing.T, name string, l quant.Linear, n, k int) {
	t.Helper()
	first, err := l.Rows(0, min(n, 32))
	if err != nil {
		t.Fatal(err)
	}
	w := first.Dequantize()
	var squares float64
	for _, v := range w {
		squares += float64(v) * float64(v)
	}
	if length := math.Sqrt(squares / float64(first.N)); length < 0.8 || length > 1.8 {
		t.Errorf("%s: rows are %.2f long", name, length)
	}
	if slices.Equal(w[:k], w[k:2*k]) {
		t.Errorf("%s: two rows are the same", name)
	}
	if n <= 32 {
		return
	}
	next, err := l.Rows(32, min(n-32, 32))
	if err != nil {
		t.Fatal(err)
	}
	if again := next.Dequantize(); !slices.Equal(again, w[:len(again)]) {
		t.Errorf("%s: rows from 32 on are not those from 0 on", name)
	}
}

// Every architecture can be made, whatever its norms, biases and experts, and runs.
func TestArchitectures(t *testing.T) {
	done := map[string]bool{}
	for _, variant := range testmodel.Variants(t) {
		config := testmodel.Golden(t, variant).Config
		b := open(t, []byte(config), synthetic.Settings{})
		done[b.Arch.Name] = true
		runs(t, b)
	}
	for _, name := range hf.Architectures() {
		if !done[name] {
			t.Errorf("%s was not made", name)
		}
	}
}

func TestUnfit(t *testing.T) {
	config, err := synthetic.Shape("smollm-135m")
	if err != nil {
		t.Fatal(err)
	}
	const want = "model.layers.0.self_attn.q_proj: gptq: 576 columns are not a multiple of the group size 128"
	if _, err := synthetic.New(config, settings(t, "gptq", quant.Spec{Bits: 4, Group: 128})); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if _, err := synthetic.New([]byte("{"), synthetic.Settings{}); err == nil {
		t.Error("a config that is not JSON")
	}
	// What a config says of quantization is not what is made.
	quantized := strings.Replace(tiny, "{", `{"quantization_config": {"quant_method": "awq"}, `, 1)
	if b := open(t, []byte(quantized), synthetic.Settings{}); b.Reader != nil || len(b.Linears) != 0 {
		t.Errorf("%d quantized matrices", len(b.Linears))
	}
}

// The file is the same however it is read.
func TestRead(t *testing.T) {
	c, err := synthetic.New([]byte(tiny), settings(t, "gptq", quant.Spec{Bits: 4, Group: 64}))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := fs.ReadFile(c.FS(), "model.safetensors")
	if err != nil || int64(len(whole)) != c.Weights.Files[0].Size {
		t.Fatalf("%d bytes, %v", len(whole), err)
	}
	f, err := c.FS().Open("model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 7, 4097, 1 << 20} {
		for off := 0; off < len(whole); off += max(size*5/2, len(whole)/50) {
			p := make([]byte, size)
			n, err := f.(io.ReaderAt).ReadAt(p, int64(off))
			want := whole[off:min(off+size, len(whole))]
			if !bytes.Equal(p[:n], want) || (n < size) != (err == io.EOF) {
				t.Fatalf("%d bytes at %d: %d, %v", size, off, n, err)
			}
		}
	}
	if n, err := f.(io.ReaderAt).ReadAt(make([]byte, 1), int64(len(whole))+5); n != 0 || err != io.EOF {
		t.Errorf("behind the end: %d, %v", n, err)
	}
	if _, err := c.FS().Open("pytorch_model.bin"); !strings.Contains(err.Error(), "file does not exist") {
		t.Errorf("error %v", err)
	}
}
