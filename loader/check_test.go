package loader

import (
	"slices"
	"strings"
	"testing"

	"nibble/hf"
	"nibble/quant"
)

// sizes are those of a model of one layer.
type sizes struct{ hidden, ffn, heads, kv, dim, vocab int }

var right = sizes{256, 512, 4, 2, 64, 512}

// input returns a model of one layer in which all linears are quantized, and the head if asked for.
func input(format string, s quant.Spec, z sizes, head bool) Input {
	in := Input{Format: format, CheckpointFormat: "gptq",
		Arch: &hf.Architecture{Name: "LlamaForCausalLM", Heads: z.heads, KVHeads: z.kv, HeadDim: z.dim}}
	add := func(name, fused string, role hf.Role, n, k int) {
		m := Module{Role: role, Expert: -1}
		m.Name, m.N, m.K, m.Class, m.Spec = "model.layers.0."+name, n, k, "Linear", &s
		if fused != "" {
			m.Fused = "model.layers.0." + fused
		}
		in.Modules = append(in.Modules, m)
	}
	q, kv := z.heads*z.dim, z.kv*z.dim
	add("self_attn.q_proj", "self_attn.qkv_proj", hf.Q, q, z.hidden)
	add("self_attn.k_proj", "self_attn.qkv_proj", hf.K, kv, z.hidden)
	add("self_attn.v_proj", "self_attn.qkv_proj", hf.V, kv, z.hidden)
	add("self_attn.o_proj", "", hf.O, z.hidden, q)
	add("mlp.gate_proj", "mlp.gate_up_proj", hf.Gate, z.ffn, z.hidden)
	add("mlp.up_proj", "mlp.gate_up_proj", hf.Up, z.ffn, z.hidden)
	add("mlp.down_proj", "", hf.Down, z.hidden, z.ffn)
	m := Module{Role: hf.Head, Layer: -1, Expert: -1}
	m.Name, m.N, m.K, m.Class, m.Head = "lm_head", z.vocab, z.hidden, "Linear", true
	if head {
		m.Spec = &s
	}
	in.Modules = append(in.Modules, m)
	e := Module{Role: hf.Embedding, Layer: -1, Expert: -1}
	e.Name, e.N, e.K, e.Class, e.Embed = "model.embed_tokens", z.vocab, z.hidden, "Embedding", true
	in.Modules = append(in.Modules, e)
	return in
}

// experts returns a mixture of two experts.
func experts(format string, s quant.Spec) Input {
	in := Input{Format: format, CheckpointFormat: "gptq", Arch: &hf.Architecture{HeadDim: 64}}
	for e := range 2 {
		for i, role := range []hf.Role{hf.Gate, hf.Up, hf.Down} {
			m := Module{Role: role, Expert: e}
			m.Name = "model.layers.0.mlp.experts." + string(rune('0'+e)) + "." + []string{"gate_proj", "up_proj", "down_proj"}[i]
			m.Fused, m.N, m.K, m.Class, m.Spec = "model.layers.0.mlp.experts", 256, 256, "Linear", &s
			in.Modules = append(in.Modules, m)
		}
	}
	return in
}

// with returns the input after a change of the module with the suffix; "" changes the input alone.
func with(in Input, suffix string, f func(in *Input, m *Module)) Input {
	i := slices.IndexFunc(in.Modules, func(m Module) bool { return strings.HasSuffix(m.Name, suffix) })
	f(&in, &in.Modules[i])
	return in
}

func ranks(n int) func(*Input, *Module) { return func(in *Input, _ *Module) { in.TensorParallel = n } }

// fuse stores q, k and v as one, as Phi-3 does, for two ranks.
func fuse(in *Input, m *Module) {
	q := *m
	q.Name, q.Fused, q.Role = "model.layers.0.self_attn.qkv_proj", "", hf.QKV
	q.N += in.Modules[1].N + in.Modules[2].N
	in.Modules = append([]Module{q}, in.Modules[3:]...)
	in.TensorParallel = 2
}

func float(_ *Input, m *Module) { m.Spec = nil }

func bits(s quant.Spec, n int) quant.Spec { s.Bits = n; return s }

func grouped(n int) func(*Input, *Module) {
	return func(_ *Input, m *Module) {
		s := *m.Spec
		s.Group = n
		m.Spec = &s
	}
}

func embedded(s quant.Spec) func(*Input, *Module) {
	return func(_ *Input, m *Module) { m.Spec = &s }
}

var (
	sym64     = spec(64, quant.Symmetric)
	asym64    = spec(64, quant.Integer)
	floatZero = spec(64, quant.Float)
	int8row   = quant.Spec{Bits: 8, Group: -1, Int8: true}
)

// size returns right with a change.
func size(f func(z *sizes)) sizes { z := right; f(&z); return z }

var (
	odd576   = size(func(z *sizes) { z.hidden, z.ffn, z.heads, z.kv = 576, 1536, 9, 3 }) // SmolLM2-135M
	ffn336   = size(func(z *sizes) { z.ffn = 336 })                                      // 2·336 = 21·32
	ffn344   = size(func(z *sizes) { z.ffn = 344 })
	vocab480 = size(func(z *sizes) { z.vocab = 480 })
	vocab500 = size(func(z *sizes) { z.vocab = 500 })
	dim16    = size(func(z *sizes) { z.dim, z.heads = 16, 16 })
	kv3      = size(func(z *sizes) { z.heads, z.kv = 6, 3 })
)

var checkTests = []struct {
	name   string
	target Target
	in     Input
	module string // suffix
	want   string // part of "rule; fix"
	soft   bool
}{
	{"gptq bits", VLLMCPU, input(gptq, bits(sym64, 8), right, false), "q_proj", "8-bit codes: the CPU kernel has 4; --bits 4", false},
	{"gptq zeros", VLLMCPU, input(gptq, asym64, right, false), "q_proj", "must be symmetric; --sym, or --format awq", false},
	{"gptq groups", VLLMCPU, input(gptq, spec(16, quant.Symmetric), right, false), "q_proj", "groups of 16: gptq has -1, 32, 64, 128; --group 128, or --unfit keep", false},
	{"columns and groups", VLLMCPU, input(gptq, spec(128, quant.Symmetric), odd576, false), "q_proj", "576 columns are not a multiple of the group size 128; --group 64, or --unfit keep", false},
	{"no group fits", VLLMCPU, input(gptq, spec(128, quant.Symmetric), ffn344, false), "down_proj", "344 columns are not a multiple of the group size 128; --pad-mlp auto, or --unfit keep", false},
	{"columns of 32", VLLMCPU, input(awq, spec(8, quant.Integer), ffn344, false), "down_proj", "344 columns are not a multiple of 32", false},
	{"fused rows of 32", VLLMCPU, input(awq, spec(8, quant.Integer), ffn344, false), "gate_proj", "688 rows of gate_up_proj are not a multiple of 32, as the CPU kernel wants them; --pad-mlp auto, or --unfit keep", false},
	{"odd groups", VLLMCPU, with(input(compressed, sym64, right, false), "o_proj", grouped(1)), "o_proj", "groups of 1: the CPU kernel has even ones", false},
	{"compressed bits", VLLMCPU, input(compressed, bits(sym64, 8), right, false), "down_proj", "8-bit codes", false},
	{"int8, asymmetric", VLLMCPU, input(compressed, quant.Spec{Bits: 8, Group: -1, Zero: quant.Integer, Int8: true}, right, false), "q_proj", "asymmetric int8 weights", false},
	{"int8, groups", VLLMCPU, input(compressed, quant.Spec{Bits: 8, Group: 64, Int8: true}, right, false), "q_proj", "int8 weights in groups of 64", false},
	{"fused, part float", VLLMCPU, with(input(gptq, sym64, right, false), "q_proj", float), "k_proj", "qkv_proj is one matrix, so its parts must agree: q_proj is float and k_proj is 4-bit g64 symmetric", false},
	{"fused, groups differ", VLLMGPU, with(input(compressed, sym64, right, false), "up_proj", grouped(32)), "gate_proj", "gate_proj is 4-bit g64 symmetric and up_proj is 4-bit g32 symmetric; one setting for all of them, or --unfit keep", false},
	{"head of gptq", VLLMCPU, input(gptq, sym64, vocab480, true), "lm_head", "480 rows of the head are not a multiple of 64; --format compressed-tensors, or --lm-head keep", false},
	{"asymmetric head of compressed-tensors", VLLMCPU, input(compressed, asym64, vocab500, true), "lm_head", "500 rows are not a multiple of 8", false},
	{"embedding", VLLMCPU, with(input(compressed, sym64, right, false), "embed_tokens", embedded(sym64)), "embed_tokens", "a quantized input embedding: compressed-tensors has none that is read; --embedding keep", false},
	{"embedding on GPU", VLLMGPU, with(input(gptq, sym64, right, false), "embed_tokens", embedded(sym64)), "embed_tokens", "only symmetric ones of compressed-tensors", false},
	{"fork", VLLMCPU, input(cpuInt4, floatZero, right, false), "", "the vLLM-Omni fork", true},
	{"fork, rows", VLLMCPU, input(cpuInt4, floatZero, size(func(z *sizes) { z.hidden, z.ffn = 328, 640 }), false), "o_proj", "328 rows of o_proj are not a multiple of 16", false},
	{"fork, groups", VLLMCPU, input(cpuInt4, spec(-1, quant.Float), right, false), "q_proj", "groups of -1: cpu_int4 has 32, 64, 128, 256", false},
	{"fork, columns", VLLMCPU, input(cpuInt4, spec(128, quant.Float), odd576, false), "q_proj", "--group 64", false},
	{"head size", VLLMCPU, input(gptq, sym64, dim16, false), "", "attention heads of 16: the CPU attention has 32, 64,", false},
	{"head size, plain", VLLMCPU, input("", sym64, dim16, false), "", "attention heads of 16", false},
	{"awq settings", VLLMCPU, with(input(awq, asym64, right, false), "down_proj", grouped(32)), "down_proj", "awq has one setting for all modules; --format gptq or compressed-tensors", false},
	{"experts", VLLMCPU, experts(gptq, sym64), "", "a processor with AMX", true},
	{"experts, asymmetric", VLLMCPU, experts(compressed, asym64), "1.down_proj", "zero points of asymmetric experts are read 1 too high; --sym", false},
	{"experts, v2", VLLMCPU, with(experts(gptq, sym64), "0.up_proj", func(in *Input, _ *Module) { in.CheckpointFormat = "gptq_v2" }), "0.up_proj", "gptq_v2", false},
	{"experts, differing", VLLMCPU, with(experts(gptq, sym64), "1.up_proj", grouped(32)), "0.down_proj", "its parts must agree", false},
	{"AMX, rows as groups", VLLMCPU, input(gptq, spec(-1, quant.Symmetric), odd576, false), "q_proj", "4-bit per row symmetric of 576 columns: not a multiple of 128", true},
	{"tied head", VLLMCPU, with(input(gptq, sym64, right, true), "lm_head", func(in *Input, _ *Module) { in.Tied = true }), "lm_head", "0.24 fails or ignores it", true},

	{"ranks, heads", VLLMCPU, with(input(gptq, sym64, odd576, false), "", ranks(4)), "", "9 attention heads cannot be spread over 4 ranks", false},
	{"ranks, key/value heads", VLLMCPU, with(input(gptq, sym64, kv3, false), "", ranks(2)), "k_proj", "3 key/value heads cannot be spread over 2 ranks; fewer ranks", false},
	{"ranks, MLP", VLLMCPU, with(input(gptq, spec(32, quant.Symmetric), size(func(z *sizes) { z.ffn = 480 }), false), "", ranks(4)), "down_proj", "120 columns on each of 4 ranks are not a multiple of the group size 32; --pad-mlp auto, or --unfit keep", false},
	{"ranks, MLP rows", VLLMCPU, with(input(awq, spec(8, quant.Integer), size(func(z *sizes) { z.ffn = 480 }), false), "", ranks(4)), "up_proj", "240 rows of gate_up_proj on each of 4 ranks are not a multiple of 32", false},
	{"ranks, MLP not divisible", VLLMGPU, with(input(awq, asym64, size(func(z *sizes) { z.ffn = 511 }), false), "", ranks(2)), "gate_proj", "511 rows cannot be spread over 2 ranks; --pad-mlp auto, or fewer ranks", false},
	{"ranks, attention output", VLLMCPU, with(input(gptq, spec(128, quant.Symmetric), right, false), "", ranks(4)), "o_proj", "64 columns on each of 4 ranks are not a multiple of the group size 128; --group 64, or --unfit keep", false},
	{"ranks, fused heads", VLLMCPU, with(input(gptq, sym64, kv3, false), "q_proj", fuse), "qkv_proj", "3 key/value heads cannot be spread over 2 ranks", false},
	{"fork, embedding", VLLMCPU, with(input(cpuInt4, floatZero, right, false), "embed_tokens", embedded(spec(96, quant.Float))), "embed_tokens", "groups of 96: cpu_int4 has 32, 64, 128, 256; --group 128, or --embedding keep", false},
	{"ranks, head", VLLMCPU, with(input(gptq, sym64, vocab500, true), "", ranks(8)), "lm_head", "500 rows cannot be spread over 8 ranks; fewer ranks, or --lm-head keep", false},

	{"GPU bits", VLLMGPU, input(gptq, bits(sym64, 3), right, false), "q_proj", "3-bit codes: the kernels have 4 and 8", false},
	{"GPU groups", VLLMGPU, input(awq, spec(16, quant.Integer), right, false), "q_proj", "groups of 16: awq has -1, 32, 64, 128", false},
	{"GPU, Marlin", VLLMGPU, input(gptq, sym64, odd576, false), "q_proj", "a matrix [960,576]: Marlin takes multiples of 64 and 128", true},
	{"GPU, cpu_int4", VLLMGPU, input(cpuInt4, floatZero, right, false), "", "vLLM does not know cpu_int4", false},

	{"transformers, groups", Transformers, input(gptq, spec(8, quant.Symmetric), right, false), "q_proj", "groups of 8: gptq has -1, 16, 32, 64, 128, 256, 512, 1024", false},
	{"transformers, bits", Transformers, input(awq, bits(asym64, 8), right, false), "q_proj", "8-bit codes: GPTQModel has 4", false},
	{"transformers, head", Transformers, input(gptq, sym64, right, true), "lm_head", "a random one in its place, with no error; --lm-head keep", false},
	{"transformers, dynamic", Transformers, with(input(gptq, sym64, right, false), "down_proj", grouped(32)), "down_proj", "transformers ignores quantization_config.dynamic", false},
	{"transformers, float among quantized", Transformers, with(input(gptq, sym64, right, false), "down_proj", float), "down_proj", "a float linear among quantized ones", false},
	{"transformers, packed zeros", Transformers, input(compressed, asym64, right, false), "q_proj", "transformers 5.17 loads them, 5.24 does not", true},
	{"transformers, columns", Transformers, input(compressed, spec(128, quant.Symmetric), odd576, false), "q_proj", "576 columns are not a multiple of the group size 128", false},
	{"transformers, Conv1D", Transformers, with(input(compressed, sym64, right, false), "q_proj", func(_ *Input, m *Module) { m.Class = "Conv1D" }), "q_proj", "its class is Conv1D", false},
	{"transformers, cpu_int4", Transformers, input(cpuInt4, floatZero, right, false), "", "does not know cpu_int4", false},
	{"transformers, embedding", Transformers, with(input(gptq, sym64, right, false), "embed_tokens", embedded(sym64)), "embed_tokens", "a quantized input embedding", false},
	{"llama.cpp", LlamaCpp, input(gptq, sym64, right, false), "", "llama.cpp reads GGUF", false},
}

func TestCheck(t *testing.T) {
	for _, test := range checkTests {
		t.Run(test.name, func(t *testing.T) {
			problems := Check(test.target, test.in)
			i := slices.IndexFunc(problems, func(p Problem) bool {
				named := p.Module == test.module || test.module != "" && strings.HasSuffix(p.Module, "."+test.module)
				return named && p.Soft == test.soft && strings.Contains(p.Rule+"; "+p.Fix, test.want)
			})
			if i < 0 {
				t.Fatalf("no such problem: %s", show(problems))
			}
			if p := problems[i]; strings.Contains(p.Rule+p.Fix, "\n") || p.Shape && !strings.Contains(p.Fix, "keep") {
				t.Errorf("bad text: %s", show(p))
			}
		})
	}
}

// What loads has no problem but soft ones.
func TestCheckRight(t *testing.T) {
	for name, test := range map[string]struct {
		target Target
		in     Input
	}{
		"gptq":                     {VLLMCPU, input(gptq, sym64, right, true)},
		"gptq, one group a row":    {VLLMCPU, input(gptq, spec(-1, quant.Symmetric), odd576, false)},
		"gptq, mixed groups":       {VLLMCPU, with(input(gptq, sym64, odd576, false), "down_proj", grouped(128))},
		"gptq, layer in float":     {VLLMCPU, with(input(gptq, sym64, right, false), "down_proj", float)},
		"gptq, float head":         {VLLMCPU, input(gptq, sym64, vocab500, false)},
		"gptq, gate and up of 336": {VLLMCPU, with(with(input(gptq, spec(32, quant.Symmetric), ffn336, false), "down_proj", float), "lm_head", float)},
		"gptq, ranks":              {VLLMCPU, with(input(gptq, sym64, right, true), "", ranks(2))},
		"gptq, ranks, fused heads": {VLLMCPU, with(input(gptq, sym64, right, false), "q_proj", fuse)},
		"gptq, more ranks than kv": {VLLMCPU, with(input(gptq, sym64, right, true), "", ranks(4))},
		"gptq, rows across ranks":  {VLLMCPU, with(input(gptq, spec(-1, quant.Symmetric), right, false), "", ranks(4))},
		"awq":                      {VLLMCPU, input(awq, asym64, right, true)},
		"awq, groups of 20":        {VLLMCPU, input(awq, spec(20, quant.Integer), size(func(z *sizes) { z.hidden, z.ffn, z.heads, z.kv = 320, 640, 5, 5 }), false)},
		"compressed, any head":     {VLLMCPU, input(compressed, sym64, vocab500, true)},
		"compressed, asymmetric":   {VLLMCPU, input(compressed, spec(32, quant.Integer), odd576, true)},
		"compressed, int8":         {VLLMCPU, input(compressed, int8row, ffn344, true)},
		"cpu_int4":                 {VLLMCPU, with(input(cpuInt4, floatZero, right, false), "embed_tokens", embedded(floatZero))},
		"experts":                  {VLLMCPU, experts(compressed, sym64)},
		"gpu, 8 bits":              {VLLMGPU, input(gptq, bits(sym64, 8), right, true)},
		"gpu, embedding":           {VLLMGPU, with(input(compressed, sym64, right, true), "embed_tokens", embedded(sym64))},
		"transformers, asymmetric": {Transformers, input(gptq, asym64, odd576, false)},
		"transformers, head":       {Transformers, input(compressed, sym64, right, true)},
		"transformers, ranks":      {Transformers, with(input(compressed, sym64, right, true), "", ranks(3))},
		"transformers, listed":     {Transformers, with(input(gptq, sym64, right, false), "down_proj", func(in *Input, m *Module) { in.Listed, m.Spec = true, nil })},
		"none, whatever":           {None, input(gptq, spec(8, quant.Float), ffn344, true)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, p := range Check(test.target, test.in) {
				if !p.Soft {
					t.Error(show(p))
				}
			}
		})
	}
}

// Leaving all modules whose shape does not fit in float gives a build that loads, fused neighbours included.
func TestCheckUnfit(t *testing.T) {
	in := with(input(compressed, asym64, right, false), "k_proj", func(_ *Input, m *Module) { m.N = 132 })
	for _, p := range Check(VLLMCPU, in) {
		if p.Shape {
			i := slices.IndexFunc(in.Modules, func(m Module) bool { return m.Name == p.Module })
			in.Modules[i].Spec = nil
		}
	}
	if in.Modules[0].Spec != nil || in.Modules[3].Spec == nil {
		t.Errorf("q_proj %v, o_proj %v: want the fused neighbours of k_proj in float and no others", in.Modules[0].Spec, in.Modules[3].Spec)
	}
	if problems := Check(VLLMCPU, in); len(problems) > 0 {
		t.Error(show(problems))
	}
}

func TestDefaults(t *testing.T) {
	for _, test := range []struct {
		target Target
		format string
		head   bool
		signed bool
	}{
		{VLLMCPU, gptq, true, true},
		{VLLMGPU, awq, true, false},
		{Transformers, gptq, false, true},
		{Transformers, awq, false, true},
		{Transformers, compressed, true, true},
		{None, gptq, true, true},
	} {
		if got := QuantizesHead(test.target, test.format); got != test.head {
			t.Errorf("QuantizesHead(%s, %s) = %t", test.target, test.format, got)
		}
		if got := DefaultSigned(test.target); got != test.signed {
			t.Errorf("DefaultSigned(%s) = %t", test.target, got)
		}
	}
}
