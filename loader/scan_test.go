package loader

import (
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nibble/hf"
	"nibble/quant"
	"nibble/safetensors"
)

const (
	downProj = "model.layers.1.mlp.down_proj"
	qProj    = "model.layers.1.self_attn.q_proj"
)

// The checkpoints that the tests break.
var (
	gptq32   = recipe{format: gptq, spec: spec(32, quant.Symmetric)}
	gptq8    = recipe{format: gptq, spec: bits(spec(32, quant.Symmetric), 8)}
	awq32    = recipe{format: awq, spec: spec(32, quant.Integer)}
	awqSym32 = recipe{format: awq, spec: spec(32, quant.Symmetric)}
	ct32     = recipe{format: compressed, spec: spec(32, quant.Symmetric)}
	ctAsym32 = recipe{format: compressed, spec: spec(32, quant.Integer)}
	int4     = recipe{format: cpuInt4, spec: spec(32, quant.Float)}
	w8a8     = recipe{format: compressed, spec: quant.Spec{Bits: 8, Group: -1, Method: quant.RTN, Scale: safetensors.BF16, Int8: true}}
	wide64   = recipe{format: gptq, spec: spec(-1, quant.Symmetric), ffn: 96}
	tied     = recipe{tied: true}
)

var scanTests = []struct {
	name   string
	recipe recipe
	damage func(c *checkpoint)
	kind   Kind
	module string
	wrong  bool
}{
	{"row-parallel, finer groups, gptq", gptq32, func(c *checkpoint) { c.option("group_size", 64) }, MoreGroups, downProj, true},
	{"row-parallel, finer groups, awq", awq32, func(c *checkpoint) { c.option("group_size", 64) }, MoreGroups, downProj, true},
	{"row-parallel, finer groups, compressed", ct32, func(c *checkpoint) { c.option("config_groups.group_0.weights.group_size", 64) }, MoreGroups, downProj, true},
	{"column-parallel, finer groups", gptq32, func(c *checkpoint) { c.option("group_size", 64) }, MoreGroups, qProj, false},
	{"coarser groups", gptq32, func(c *checkpoint) { c.option("group_size", 16) }, FewerGroups, downProj, false},
	{"ragged groups", wide64, func(c *checkpoint) { c.option("group_size", 64) }, RaggedGroup, downProj, true},
	{"no scales, gptq", gptq32, func(c *checkpoint) { c.remove(downProj + ".scales") }, NoScales, downProj, true},
	{"no scales, compressed", ct32, func(c *checkpoint) { c.remove(downProj + ".weight_scale") }, NoScales, downProj, true},
	{"no codes, gptq", gptq32, func(c *checkpoint) { c.remove(downProj + ".qweight") }, NoCodes, downProj, true},
	{"no codes, cpu_int4", int4, func(c *checkpoint) { c.remove(downProj + ".weight_packed") }, NoCodes, downProj, true},
	{"no module", gptq32, func(c *checkpoint) {
		for _, s := range []string{".qweight", ".qzeros", ".scales", ".g_idx"} {
			c.remove(downProj + s)
		}
	}, NoModule, downProj, true},
	{"no part of a fused module", gptq32, func(c *checkpoint) {
		for _, s := range []string{".qweight", ".qzeros", ".scales", ".g_idx"} {
			c.remove(qProj + s)
		}
	}, NoModule, qProj, false},
	{"8 bits in the config only", gptq32, func(c *checkpoint) { c.option("bits", 8) }, OtherBits, downProj, false},
	{"4 bits in the config only, row-parallel", gptq8, func(c *checkpoint) { c.option("bits", 4) }, OtherBits, downProj, true},
	{"4 bits in the config only, compressed", ct32, func(c *checkpoint) { c.option("config_groups.group_0.weights.num_bits", 8) }, OtherBits, firstQ, false},
	{"no scales, int8", w8a8, func(c *checkpoint) { c.remove(downProj + ".weight_scale") }, NoModule, downProj, true},
	{"no zeros, awq", awq32, func(c *checkpoint) { c.remove(downProj + ".qzeros") }, NoZeros, downProj, true},
	{"no zeros, compressed", ctAsym32, func(c *checkpoint) { c.remove(downProj + ".weight_zero_point") }, NoZeroPoints, downProj, true},
	{"signed zeros", ctAsym32, func(c *checkpoint) { c.edit(downProj+".weight_zero_point", flipTops) }, SignedZeros, downProj, true},
	{"asymmetric under sym", gptq32, func(c *checkpoint) { c.edit(downProj+".qzeros", func(p []byte) { p[5] = 0x78 }) }, AsymmetricGPTQ, downProj, true},
	{"asymmetric under sym, no qzeros", gptq32, func(c *checkpoint) {
		r := gptq32
		r.solver = awq
		r.add(c, quant.Module{Name: downProj, N: hidden, K: ffn})
		c.remove(".qzeros")
	}, AsymmetricGPTQ, downProj, true},
	{"asymmetric under zero_point false", awq32, func(c *checkpoint) { c.option("zero_point", false) }, AsymmetricAWQ, downProj, true},
	{"asymmetric under zero_point false, no qzeros", awq32, func(c *checkpoint) {
		c.option("zero_point", false)
		c.remove(".qzeros")
	}, AsymmetricAWQ, downProj, true},
	{"activation order, gptq", gptq32, func(c *checkpoint) { c.edit(downProj+".g_idx", reverse) }, ActOrder, downProj, true},
	{"activation order, compressed", ct32, func(c *checkpoint) {
		x := c.add(downProj+".weight_g_idx", safetensors.I32, ffn)
		for k := range ffn {
			x.data[4*k] = byte(k % 4)
		}
	}, ActOrder, downProj, true},
	{"extra bias", gptq32, func(c *checkpoint) { c.floats(downProj+".bias", hidden) }, ExtraBias, downProj, true},
	{"wide scale, float16", gptq32, func(c *checkpoint) {
		c.set("dtype", "float16")
		c.edit(downProj+".scales", func(p []byte) { p[1] = 0x48 })
	}, ScaleRange, downProj, true},
	{"wide scale, bfloat16", gptq32, func(c *checkpoint) { c.edit(downProj+".scales", func(p []byte) { p[1] = 0x48 }) }, ScaleRange, downProj, true},
	{"infinite scale", ct32, func(c *checkpoint) { c.edit(downProj+".weight_scale", func(p []byte) { p[2], p[3] = 0x80, 0x7f }) }, NonFinite, downProj, true},
	{"NaN zero", int4, func(c *checkpoint) { c.edit(downProj+".weight_zero", func(p []byte) { p[2], p[3] = 0xc0, 0x7f }) }, NonFinite, downProj, true},
	{"head only", tied, func(c *checkpoint) {
		c.tensors["lm_head.weight"] = c.tensors["model.embed_tokens.weight"]
		c.remove("model.embed_tokens.weight")
	}, HeadOnly, "", true},
	{"int8 activations", ct32, func(c *checkpoint) {
		c.option("config_groups.group_0.input_activations", map[string]any{"num_bits": 8, "type": "int", "symmetric": true, "strategy": "token", "dynamic": true})
	}, Int8Ignored, "", false},
	{"auto-round's zeros", gptq32, func(c *checkpoint) {
		c.option("sym", false)
		c.option("autoround_version", "0.16.1")
		c.edit(downProj+".qzeros", func(p []byte) { p[0] = 0x70 })
	}, LostZero, downProj, false},
	{"v2 words in a v1 file", gptq32, func(c *checkpoint) {
		c.edit(downProj+".qzeros", func(p []byte) { copy(p, slices.Repeat([]byte{0x88}, len(p))) })
	}, OtherZeros, downProj, true},
	{"wrong shape, row-parallel", gptq32, func(c *checkpoint) { c.add(downProj+".scales", safetensors.BF16, 3, hidden) }, Broken, downProj, true},
	{"wrong shape, column-parallel", gptq32, func(c *checkpoint) { c.add(qProj+".scales", safetensors.BF16, 3, 64) }, Broken, qProj, false},
}

// flipTops flips the top bit of every 4-bit code.
func flipTops(p []byte) {
	for i := range p {
		p[i] ^= 0x88
	}
}

// reverse reverses a list of words.
func reverse(p []byte) {
	words := make([]uint32, len(p)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(p[4*i:])
	}
	slices.Reverse(words)
	for i, w := range words {
		binary.LittleEndian.PutUint32(p[4*i:], w)
	}
}

// Every kind of fault is found where one thing is broken, and nothing is found where nothing is.
func TestScan(t *testing.T) {
	for _, test := range scanTests {
		t.Run(test.name, func(t *testing.T) {
			if found := scanOf(t, test.recipe.make(t).open()); len(found) > 0 {
				t.Errorf("the unbroken checkpoint has findings: %s", show(found))
			}
			c := test.recipe.make(t)
			test.damage(c)
			found := scanOf(t, c.open())
			i := slices.IndexFunc(found, func(f Finding) bool { return f.Kind == test.kind && f.Module == test.module })
			switch {
			case i < 0:
				t.Fatalf("not found; findings: %s", show(found))
			case found[i].Wrong != test.wrong:
				t.Errorf("Wrong is %t: %s", found[i].Wrong, show(found[i]))
			case found[i].Effect == "" || strings.Contains(found[i].Detail, "\n"):
				t.Errorf("bad text: %s", show(found[i]))
			}
			if slices.ContainsFunc(found, func(f Finding) bool { return f.Kind != test.kind }) {
				t.Errorf("findings of other kinds: %s", show(found))
			}
		})
	}
}

// Right checkpoints of every format have no finding.
func TestScanNothing(t *testing.T) {
	zeroBias := func(c *checkpoint) { c.add(downProj+".bias", safetensors.BF16, hidden) }
	noZeros := func(c *checkpoint) { c.remove(".qzeros") }
	for name, test := range map[string]struct {
		recipe recipe
		change func(c *checkpoint)
	}{
		"plain":                        {recipe{}, nil},
		"tied":                         {tied, nil},
		"gptq, zero bias":              {gptq32, zeroBias},
		"gptq without qzeros":          {gptq32, noZeros},
		"gptq without g_idx":           {gptq32, func(c *checkpoint) { c.remove(".g_idx") }},
		"gptq, one group a row":        {recipe{format: gptq, spec: spec(-1, quant.Symmetric)}, nil},
		"gptq_v2":                      {recipe{format: gptq, spec: spec(32, quant.Symmetric), v2: true}, nil},
		"gptq, head":                   {recipe{format: gptq, spec: spec(32, quant.Symmetric), head: true}, nil},
		"gptq, announced order":        {gptq32, func(c *checkpoint) { c.option("desc_act", true); c.edit(".g_idx", reverse) }},
		"awq, symmetric":               {awqSym32, nil},
		"awq, symmetric, no qzeros":    {awqSym32, noZeros},
		"compressed, asymmetric, head": {recipe{format: compressed, spec: spec(32, quant.Integer), head: true}, nil},
		"compressed, channel":          {recipe{format: compressed, spec: spec(-1, quant.Integer)}, nil},
		"int8":                         {w8a8, nil},
		"cpu_int4":                     {int4, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := test.recipe.make(t)
			if test.change != nil {
				test.change(c)
			}
			if found := scanOf(t, c.open()); len(found) > 0 {
				t.Errorf("findings: %s", show(found))
			}
		})
	}
}

// Files of other quantizers have no finding but the one fault that is known of them.
func TestScanPeers(t *testing.T) {
	configs, err := filepath.Glob("../formats/testdata/peers/*/config.json")
	if err != nil || len(configs) == 0 {
		t.Fatalf("no folders: %v", err)
	}
	for _, path := range configs {
		folder := filepath.Base(filepath.Dir(path))
		t.Run(folder, func(t *testing.T) {
			// The folders hold a few layers and the quantization_config only.
			for _, f := range scanOf(t, openFolder(t, filepath.Dir(path), hf.Options{Generic: true})) {
				if folder != "autoround-autogptq-asym-g32" || f.Kind != LostZero || f.Wrong {
					t.Error(show(f))
				}
			}
		})
	}
}

func TestScanCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Scan(ctx, ctAsym32.make(t).open()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}
