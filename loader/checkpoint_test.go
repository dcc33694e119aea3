package loader

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/sjson"

	"nibble/build"
	"nibble/formats"
	"nibble/hf"
	"nibble/quant"
	"nibble/safetensors"
)

// checkpoint is a tiny llama in memory, to be broken before it is opened.
type checkpoint struct {
	t       *testing.T
	config  string
	tensors map[string]*tensor
	legacy  string // quantize_config.json
}

type tensor struct {
	dtype safetensors.DType
	shape []int
	data  []byte
}

const (
	hidden = 64
	ffn    = 128
	vocab  = 128
)

// recipe says how a test checkpoint is quantized.
type recipe struct {
	format string
	spec   quant.Spec
	solver string // format whose solver finds the codes; "": the format's own
	head   bool
	v2     bool
	tied   bool
	ffn    int // 0: the constant
}

// shapes are the linears of a layer, with the matrices they are fused into.
var shapes = []struct {
	name, fused string
	n, k        int // 0: the width of the MLP
}{
	{"self_attn.q_proj", "self_attn.qkv_proj", 64, hidden},
	{"self_attn.k_proj", "self_attn.qkv_proj", 32, hidden},
	{"self_attn.v_proj", "self_attn.qkv_proj", 32, hidden},
	{"self_attn.o_proj", "", hidden, 64},
	{"mlp.gate_proj", "mlp.gate_up_proj", 0, hidden},
	{"mlp.up_proj", "mlp.gate_up_proj", 0, hidden},
	{"mlp.down_proj", "", hidden, 0},
}

// make builds a checkpoint; weights are normal, those of norms and embeddings constant.
func (r recipe) make(t *testing.T) *checkpoint {
	t.Helper()
	if r.ffn == 0 {
		r.ffn = ffn
	}
	c := &checkpoint{t: t, tensors: map[string]*tensor{}}
	c.config = fmt.Sprintf(`{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":%d,"intermediate_size":%d,"num_hidden_layers":2,
		"num_attention_heads":2,"num_key_value_heads":1,"head_dim":32,"vocab_size":%d,"tie_word_embeddings":%t,"dtype":"bfloat16"}`, hidden, r.ffn, vocab, r.tied)
	c.floats("model.embed_tokens.weight", vocab, hidden)
	c.floats("model.norm.weight", hidden)
	var modules []quant.Module
	for layer := range 2 {
		prefix := fmt.Sprintf("model.layers.%d.", layer)
		c.floats(prefix+"input_layernorm.weight", hidden)
		c.floats(prefix+"post_attention_layernorm.weight", hidden)
		for _, s := range shapes {
			m := quant.Module{Name: prefix + s.name, N: s.n, K: s.k, Class: "Linear"}
			if s.fused != "" {
				m.Fused = prefix + s.fused
			}
			if m.N == 0 {
				m.N = r.ffn
			}
			if m.K == 0 {
				m.K = r.ffn
			}
			modules = append(modules, r.add(c, m))
		}
	}
	switch {
	case r.head:
		modules = append(modules, r.add(c, quant.Module{Name: "lm_head", N: vocab, K: hidden, Head: true, Class: "Linear"}))
	case !r.tied:
		modules = append(modules, quant.Module{Name: "lm_head", N: vocab, K: hidden, Head: true, Class: "Linear"})
		c.floats("lm_head.weight", vocab, hidden)
	}
	if r.format != "" {
		f, o := r.of(t)
		options, err := f.Config(modules, o)
		if err != nil {
			t.Fatal(err)
		}
		c.config, err = sjson.SetRaw(c.config, "quantization_config", string(options))
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// of returns the format and its options.
func (r recipe) of(t *testing.T) (quant.Format, quant.Options) {
	t.Helper()
	f, err := formats.ByName(r.format)
	if err != nil {
		t.Fatal(err)
	}
	o := quant.Options{CheckpointFormat: "gptq", Version: "test"}
	if r.v2 {
		o.CheckpointFormat = "gptq_v2"
	}
	return f, o
}

// add stores a module, quantized if the recipe has a format.
func (r recipe) add(c *checkpoint, m quant.Module) quant.Module {
	if r.format == "" {
		c.floats(m.Name+".weight", m.N, m.K)
		return m
	}
	f, o := r.of(c.t)
	spec := r.spec
	m.Spec = &spec
	matrix := r.solve(c.t, m.N, m.K)
	tensors := f.Tensors(spec, m.N, m.K)
	for _, s := range tensors {
		c.add(m.Name+s.Suffix, s.DType, s.Shape...)
	}
	err := f.Pack(spec, o, matrix, 0, m.N, func(i int, off int64, p []byte) error {
		copy(c.tensors[m.Name+tensors[i].Suffix].data[off:], p)
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// solve quantizes normal weights.
func (r recipe) solve(t *testing.T, n, k int) *quant.Matrix {
	t.Helper()
	spec := r.spec
	name := r.format
	if r.solver != "" {
		name, spec.Zero = r.solver, quant.Integer
	}
	f, err := formats.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	solver, err := f.Solver(spec)
	if err != nil {
		t.Fatal(err)
	}
	m := quant.NewMatrix(n, k, spec.Bits, spec.GroupSize(k), spec.Zero)
	rng := rand.New(rand.NewPCG(uint64(n), uint64(k)))
	w := make([]float32, n*k)
	for i := range w {
		w[i] = float32(rng.NormFloat64()) / 16
	}
	solver(m, w, nil)
	return m
}

func (c *checkpoint) add(name string, d safetensors.DType, shape ...int) *tensor {
	n := d.Bits() / 8
	for _, dim := range shape {
		n *= dim
	}
	x := &tensor{d, shape, make([]byte, n)}
	c.tensors[name] = x
	return x
}

// floats adds a tensor of ones.
func (c *checkpoint) floats(name string, shape ...int) {
	x := c.add(name, safetensors.BF16, shape...)
	for i := range x.data {
		x.data[i] = []byte{0x80, 0x3f}[i%2]
	}
}

// set changes a key of the config.
func (c *checkpoint) set(key string, value any) {
	c.t.Helper()
	var err error
	if c.config, err = sjson.Set(c.config, key, value); err != nil {
		c.t.Fatal(err)
	}
}

// option changes a key of the quantization_config.
func (c *checkpoint) option(key string, value any) {
	c.t.Helper()
	c.set("quantization_config."+key, value)
}

// drop deletes a key of the config.
func (c *checkpoint) drop(key string) {
	c.t.Helper()
	var err error
	if c.config, err = sjson.Delete(c.config, key); err != nil {
		c.t.Fatal(err)
	}
}

// remove deletes tensors by a suffix of their names.
func (c *checkpoint) remove(suffix string) {
	c.t.Helper()
	n := len(c.tensors)
	maps.DeleteFunc(c.tensors, func(name string, _ *tensor) bool { return strings.HasSuffix(name, suffix) })
	if n == len(c.tensors) {
		c.t.Fatalf("there is no tensor …%s", suffix)
	}
}

// edit changes the data of the tensors with a suffix.
func (c *checkpoint) edit(suffix string, f func(p []byte)) {
	c.t.Helper()
	found := false
	for name, x := range c.tensors {
		if strings.HasSuffix(name, suffix) {
			f(x.data)
			found = true
		}
	}
	if !found {
		c.t.Fatalf("there is no tensor …%s", suffix)
	}
}

// open writes the checkpoint and opens it.
func (c *checkpoint) open() *build.Build {
	c.t.Helper()
	dir := c.t.TempDir()
	var specs []safetensors.Spec
	for _, name := range slices.Sorted(maps.Keys(c.tensors)) {
		specs = append(specs, safetensors.Spec{Name: name, DType: c.tensors[name].dtype, Shape: c.tensors[name].shape})
	}
	check := func(err error) {
		c.t.Helper()
		if err != nil {
			c.t.Fatal(err)
		}
	}
	plan, err := safetensors.NewPlan(specs, map[string]string{"format": "pt"}, 0)
	check(err)
	w, err := safetensors.Create(dir, plan)
	check(err)
	for name, x := range c.tensors {
		check(w.WriteAt(name, x.data, 0))
	}
	check(w.Close())
	check(os.WriteFile(filepath.Join(dir, "config.json"), []byte(c.config), 0o644))
	if c.legacy != "" {
		check(os.WriteFile(filepath.Join(dir, "quantize_config.json"), []byte(c.legacy), 0o644))
	}
	return openFolder(c.t, dir, hf.Options{})
}

func openFolder(t *testing.T, dir string, o hf.Options) *build.Build {
	t.Helper()
	f, err := hf.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := build.Open(f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Set.Close() })
	return b
}

func scanOf(t *testing.T, b *build.Build) []Finding {
	t.Helper()
	found, err := Scan(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// show prints findings and problems.
func show(v any) string {
	p, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(p)
}

// spec is a 4-bit spec with BF16 scales.
func spec(group int, zero quant.Zero) quant.Spec {
	return quant.Spec{Bits: 4, Group: group, Zero: zero, Method: quant.RTN, Scale: safetensors.BF16}
}
