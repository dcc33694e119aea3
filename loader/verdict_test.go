package loader

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"nibble/hf"
	"nibble/quant"
	"nibble/safetensors"
)

// Right checkpoints with a quantized head.
var (
	gptqHead = recipe{format: gptq, spec: spec(32, quant.Symmetric), head: true}
	awqHead  = recipe{format: awq, spec: spec(32, quant.Integer), head: true}
	ctHead   = recipe{format: compressed, spec: spec(32, quant.Symmetric), head: true}
)

const firstQ = "model.layers.0.self_attn.q_proj"

var verdictTests = []struct {
	name   string
	target Target
	recipe recipe
	damage func(c *checkpoint)
	module string
	want   string // part of "rule; fix"
	soft   bool
}{
	{"no sym", VLLMCPU, gptq32, func(c *checkpoint) { c.drop("quantization_config.sym") }, "", "lacks sym; add the key", false},
	{"no desc_act", VLLMGPU, gptq32, func(c *checkpoint) { c.drop("quantization_config.desc_act") }, "", "lacks desc_act", false},
	{"no zero_point", VLLMCPU, awq32, func(c *checkpoint) { c.drop("quantization_config.zero_point") }, "", "lacks zero_point", false},
	{"sym false in name only", VLLMCPU, gptq32, func(c *checkpoint) {
		c.option("sym", false)
		c.option("checkpoint_format", "gptq_v2")
		c.edit(".qzeros", func(p []byte) { copy(p, slices.Repeat([]byte{0x88}, len(p))) })
	}, firstQ, "must be symmetric", false},
	{"activation order in name only", VLLMCPU, gptq32, func(c *checkpoint) { c.option("desc_act", true) }, "", "desc_act:true", false},
	{"activation order in a rule", VLLMCPU, gptq32, func(c *checkpoint) {
		c.option("dynamic", map[string]any{".*down_proj": map[string]any{"desc_act": true}})
	}, "", "desc_act:true", false},
	{"head without lm_head", VLLMCPU, gptqHead, func(c *checkpoint) { c.option("lm_head", false) }, "lm_head", "lacks lm_head:true; lm_head: true", false},
	{"awq head without lm_head", VLLMCPU, awqHead, func(c *checkpoint) { c.drop("quantization_config.lm_head") }, "lm_head", "lacks lm_head:true", false},
	{"head that is not listed", VLLMCPU, gptqHead, func(c *checkpoint) { c.option("modules_in_block_to_quantize", []string{"self_attn", "mlp"}) }, "lm_head", "the config says float", false},
	{"quantized but excluded", VLLMCPU, gptq32, func(c *checkpoint) { c.option("dynamic", map[string]any{"-:.*down_proj": map[string]any{}}) }, downProj, "the config says float", false},
	{"rule for a part of a fused matrix", VLLMCPU, gptq32, func(c *checkpoint) {
		c.option("group_size", 64)
		c.option("dynamic", map[string]any{`.*\.(q|k|v|o|up|gate|down)_proj`: map[string]any{"group_size": 32}})
	}, firstQ, "4-bit g32 symmetric, but 4-bit g64 symmetric for qkv_proj", false},
	{"list of float modules with a gap", VLLMCPU, awq32, func(c *checkpoint) {
		c.option("modules_to_not_convert", []string{"lm_head"})
		dequantize(c)
	}, downProj, "its tensor is float, the config says quantized", false},
	{"gemv", VLLMCPU, awq32, func(c *checkpoint) { c.option("version", "gemv") }, "", "version gemv: vLLM reads it as gemm", false},
	{"float but targeted", VLLMCPU, ct32, dequantize, downProj, "the config says quantized", false},
	{"unknown key", VLLMCPU, ct32, func(c *checkpoint) { c.option("config_groups.group_0.weights.magic", true) }, "", `the key "magic"`, false},
	{"weight beside the packed one", VLLMCPU, ct32, func(c *checkpoint) { c.floats(downProj+".weight", hidden, ffn) }, downProj, "is there beside the quantized tensors", false},
	{"unknown tensor", VLLMCPU, gptq32, func(c *checkpoint) { c.floats("foo.weight", 4) }, "", "foo.weight is no tensor of LlamaForCausalLM", false},
	{"head that no target names", VLLMCPU, ctHead, func(c *checkpoint) { c.option("config_groups.group_0.targets", []string{"Linear"}) }, "lm_head", "add the target re:.*lm_head", false},
	{"head that is ignored", VLLMCPU, ctHead, func(c *checkpoint) { c.option("ignore", []string{"lm_head"}) }, "lm_head", "the config says float", false},
	{"target for everything", VLLMCPU, ct32, func(c *checkpoint) { c.option("config_groups.group_0.targets", []string{"re:.*"}) }, "", "matches the input embedding", false},
	{"actorder group", VLLMCPU, ct32, func(c *checkpoint) { c.option("config_groups.group_0.weights.actorder", "group") }, "", "actorder group", false},
	{"actorder group, transformers", Transformers, ct32, func(c *checkpoint) { c.option("config_groups.group_0.weights.actorder", "group") }, "", "compressed-tensors 0.19", false},
	{"asymmetric activations", VLLMCPU, ct32, func(c *checkpoint) {
		c.option("config_groups.group_0.input_activations", map[string]any{"num_bits": 8, "symmetric": false})
	}, "", "asymmetric int8 activations", false},
	{"zero points under symmetric", VLLMCPU, ctAsym32, func(c *checkpoint) { c.option("config_groups.group_0.weights.symmetric", true) }, firstQ, "weight_zero_point is there under symmetric:true", false},
	{"weight beside qweight", VLLMCPU, gptq32, func(c *checkpoint) { c.floats(firstQ+".weight", 64, hidden) }, firstQ, ".weight is there beside the quantized tensors", false},
	{"unknown module", VLLMCPU, gptq32, func(c *checkpoint) {
		for _, s := range []string{".qweight", ".qzeros", ".scales", ".g_idx"} {
			c.tensors["model.layers.0.extra"+s] = c.tensors[firstQ+s]
		}
	}, "model.layers.0.extra", "LlamaForCausalLM has no such module", false},
	{"options in the old file", VLLMCPU, gptq32, legacy, "", "serve with --quantization gptq", false},
	{"options in the old file, transformers", Transformers, gptq32, legacy, "", "copy the options into config.json", false},
	{"missing module", VLLMCPU, gptq32, func(c *checkpoint) {
		for _, s := range []string{".qweight", ".qzeros", ".scales", ".g_idx"} {
			c.remove(downProj + s)
		}
	}, downProj, "the module is missing", false},
	{"defect", Transformers, gptq32, func(c *checkpoint) { c.remove(downProj + ".scales") }, downProj, "scales are missing", false},
	{"more groups", VLLMCPU, gptq32, func(c *checkpoint) { c.option("group_size", 64) }, downProj, "4 groups of 32 for 128 columns, the config says groups of 64", false},
	{"tied head", VLLMCPU, gptqHead, func(c *checkpoint) { c.set("tie_word_embeddings", true) }, "lm_head", "ties it to the embedding", true},
	{"head only", VLLMCPU, tied, func(c *checkpoint) {
		c.tensors["lm_head.weight"] = c.tensors["model.embed_tokens.weight"]
		c.remove("model.embed_tokens.weight")
	}, "", "the embedding is stored as the head", false},
	{"auto-round", Transformers, gptq32, func(c *checkpoint) { c.option("quant_method", "auto-round") }, "", "needs the auto-round package", true},
	{"auto-round, vLLM", VLLMCPU, gptq32, func(c *checkpoint) { c.option("quant_method", "auto-round") }, "", "was not tried", false},
	{"plain", LlamaCpp, tied, func(*checkpoint) {}, "", "reads GGUF", false},
}

// dequantize replaces a quantized module by a float one.
func dequantize(c *checkpoint) {
	for name := range c.tensors {
		if strings.HasPrefix(name, downProj+".") {
			delete(c.tensors, name)
		}
	}
	c.floats(downProj+".weight", hidden, ffn)
}

// legacy moves the options into quantize_config.json.
func legacy(c *checkpoint) {
	c.legacy = gjson.Get(c.config, "quantization_config").Raw
	c.legacy, _ = sjson.Delete(c.legacy, "quant_method")
	c.drop("quantization_config")
}

func TestVerdicts(t *testing.T) {
	for _, test := range verdictTests {
		t.Run(test.name, func(t *testing.T) {
			c := test.recipe.make(t)
			test.damage(c)
			list := Verdicts(c.open())
			v := list[slices.IndexFunc(list, func(v Verdict) bool { return v.Target == test.target })]
			i := slices.IndexFunc(v.Problems, func(p Problem) bool {
				return p.Module == test.module && p.Soft == test.soft && strings.Contains(p.Rule+"; "+p.Fix, test.want)
			})
			switch {
			case i < 0:
				t.Fatalf("no such problem: %s", show(v))
			case !test.soft && v.Loads:
				t.Error("Loads is true")
			}
		})
	}
}

// Right checkpoints load in vLLM, and in transformers as far as it goes.
func TestVerdictsRight(t *testing.T) {
	for name, test := range map[string]struct {
		recipe recipe
		loads  []Target
	}{
		"plain":              {recipe{}, []Target{VLLMCPU, VLLMGPU, Transformers}},
		"tied":               {tied, []Target{VLLMCPU, VLLMGPU, Transformers}},
		"gptq":               {gptq32, []Target{VLLMCPU, VLLMGPU, Transformers}},
		"gptq, head":         {gptqHead, []Target{VLLMCPU, VLLMGPU}},
		"awq":                {awq32, []Target{VLLMCPU, VLLMGPU, Transformers}},
		"awq, head":          {awqHead, []Target{VLLMCPU, VLLMGPU}},
		"compressed, head":   {ctHead, []Target{VLLMCPU, VLLMGPU, Transformers}},
		"compressed, zeros":  {ctAsym32, []Target{VLLMCPU, VLLMGPU, Transformers}},
		"compressed, int8":   {w8a8, []Target{VLLMCPU, VLLMGPU, Transformers}},
		"cpu_int4":           {int4, []Target{VLLMCPU}},
		"gptq, row by row":   {recipe{format: gptq, spec: spec(-1, quant.Symmetric)}, []Target{VLLMCPU, VLLMGPU, Transformers}},
		"compressed, by row": {recipe{format: compressed, spec: spec(-1, quant.Symmetric)}, []Target{VLLMCPU, VLLMGPU, Transformers}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range Verdicts(test.recipe.make(t).open()) {
				if v.Loads != slices.Contains(test.loads, v.Target) {
					t.Error(show(v))
				}
			}
		})
	}
}

// A list of modules names the parts of fused matrices, and a file whose modules are all listed loads.
func TestVerdictsListed(t *testing.T) {
	c := gptq32.make(t)
	c.option("modules_in_block_to_quantize", [][]string{{"self_attn.k_proj", "self_attn.v_proj", "self_attn.q_proj"},
		{"self_attn.o_proj"}, {"mlp.up_proj", "mlp.gate_proj"}, {"mlp.down_proj"}})
	for _, v := range Verdicts(c.open()) {
		if v.Target != LlamaCpp && !v.Loads {
			t.Error(show(v))
		}
	}
}

func TestModules(t *testing.T) {
	modules := Modules(ctHead.make(t).open())
	if len(modules) != 16 {
		t.Fatalf("%d modules, want 2 layers of 7, head and embedding", len(modules))
	}
	embed, q, head := modules[0], modules[1], modules[15]
	want := quant.Spec{Bits: 4, Group: 32, Scale: safetensors.BF16}
	if !embed.Embed || embed.Spec != nil || embed.Class != "Embedding" {
		t.Errorf("embedding: %+v", embed)
	}
	if q.Name != firstQ || q.Role != hf.Q || q.Fused != "model.layers.0.self_attn.qkv_proj" || q.N != 64 || q.K != hidden || *q.Spec != want {
		t.Errorf("q_proj: %s", show(q))
	}
	if !head.Head || head.Spec == nil || head.Layer != -1 || head.Expert != -1 {
		t.Errorf("head: %s", show(head))
	}
}
