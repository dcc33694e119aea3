package compressed

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nibble/formats/formattest"
	"nibble/quant"
	"nibble/safetensors"
)

var base = quant.Spec{Bits: 4, Group: 128, Method: quant.RTN, Scale: safetensors.BF16}

func TestConfig(t *testing.T) {
	modules := formattest.Modules(base)
	formattest.Set(modules, "lm_head", nil)
	got, err := Format{}.Config(modules, quant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "quant_method": "compressed-tensors",
  "version": "0.18.0",
  "format": "pack-quantized",
  "quantization_status": "compressed",
  "global_compression_ratio": null,
  "kv_cache_scheme": null,
  "ignore": [
    "lm_head"
  ],
  "config_groups": {
    "group_0": {
      "targets": [
        "Linear"
      ],
      "format": "pack-quantized",
      "input_activations": null,
      "output_activations": null,
      "weights": {
        "num_bits": 4,
        "type": "int",
        "symmetric": true,
        "strategy": "group",
        "group_size": 128,
        "dynamic": false,
        "actorder": null,
        "block_structure": null,
        "observer": "memoryless_minmax",
        "observer_kwargs": {},
        "scale_dtype": null,
        "zp_dtype": null
      }
    }
  },
  "sparsity_config": {},
  "transform_config": {}
}`
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Error(d)
	}
}

func TestConfigOfDifferingModules(t *testing.T) {
	int8 := quant.Spec{Bits: 8, Group: -1, Int8: true, Method: quant.RTN, Scale: safetensors.BF16}
	asym := quant.Spec{Bits: 4, Group: 32, Zero: quant.Integer, Method: quant.RTN, Scale: safetensors.BF16}
	modules := formattest.Modules(base)
	for _, name := range []string{"q_proj", "k_proj", "v_proj"} {
		formattest.Set(modules, name, &int8)
	}
	formattest.Set(modules, "o_proj", &asym)
	got, err := Format{}.Config(modules, quant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var c config
	if err := json.Unmarshal(got, &c); err != nil {
		t.Fatal(err)
	}
	targets := map[string][]string{}
	for name, g := range c.Groups {
		targets[name+" "+g.Format] = g.Targets
	}
	const layer = "model.layers.0."
	want := map[string][]string{
		"group_0 pack-quantized": {"Linear", "re:.*lm_head"},
		"group_1 int-quantized":  {layer + "self_attn.q_proj", layer + "self_attn.qkv_proj", layer + "self_attn.k_proj", layer + "self_attn.v_proj"},
		"group_2 pack-quantized": {layer + "self_attn.o_proj"},
	}
	if d := cmp.Diff(want, targets); d != "" || c.Format != "mixed-precision" {
		t.Errorf("format %q, targets %s", c.Format, d)
	}
	r, err := Open(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		s := r.Expect(m.Name)
		if m.Embed {
			continue
		}
		if (s == nil) != (m.Spec == nil) || s != nil && gridOf(s) != gridOf(m.Spec) {
			t.Errorf("%s: expected %+v, want %+v", m.Name, s, m.Spec)
		}
	}
}

func TestConfigRefuses(t *testing.T) {
	none := formattest.Modules(base)
	formattest.Set(none, "", nil)
	wide := base
	wide.Bits, wide.Zero = 8, quant.Integer
	for want, modules := range map[string][]quant.Module{
		"no module is quantized":         none,
		"q_proj: 8 bits with an integer": formattest.Modules(wide),
	} {
		if _, err := (Format{}).Config(modules, quant.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	group := func(weights string) string {
		return `{"format":"pack-quantized","config_groups":{"g":{"targets":["Linear"],"weights":` + weights + `}}}`
	}
	for config, want := range map[string]string{
		`[]`: "cannot unmarshal",
		`{"format":"float-quantized","config_groups":{"g":{"weights":{}}}}`: `"float-quantized" is not supported`,
		group(`{"num_bits":4,"type":"float"}`):                              `"float" are not supported`,
		group(`{"num_bits":1}`):                                             "num_bits 1",
		group(`{"num_bits":4,"strategy":"block"}`):                          `strategy "block"`,
		group(`{"num_bits":4,"strategy":"group","group_size":0}`):           "group_size 0",
	} {
		if _, err := Open([]byte(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}

func TestExpect(t *testing.T) {
	r, err := Open([]byte(`{"format":"pack-quantized","ignore":["re:.*o_proj","lm_head","re:(?!x)"],"config_groups":{
		"a":{"targets":["Linear"],"weights":{"num_bits":4}},
		"b":{"targets":["re:model.*down_proj$"],"weights":{"num_bits":5}},
		"c":{"targets":["model.down_proj","o_proj"],"weights":{"num_bits":8}},
		"d":{"targets":["x"],"input_activations":{"num_bits":8}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"lm_head": 0, "o_proj": 0, "model.down_proj": 8, "model.1.down_proj": 5, "down_proj": 4, "x": 4,
	} {
		got := 0
		if s := r.Expect(name); s != nil {
			got = s.Bits
		}
		if got != want {
			t.Errorf("%s: %d bits, want %d", name, got, want)
		}
	}
	if w := r.(*reader).Warnings(); len(w) != 1 {
		t.Errorf("%q", w)
	}
}

func TestSolverRefuses(t *testing.T) {
	for want, change := range map[string]func(*quant.Spec){
		"3 bits: this program writes 4 and 8": func(s *quant.Spec) { s.Bits = 3 },
		"group size 0":                        func(s *quant.Spec) { s.Group = 0 },
		"cpu_int4 holds float ones":           func(s *quant.Spec) { s.Zero = quant.Float },
		"8 bits with an integer zero":         func(s *quant.Spec) { s.Bits, s.Zero = 8, quant.Integer },
		"they need 8-bit weights":             func(s *quant.Spec) { s.Int8 = true },
		`it can be "rtn" or "search"`:         func(s *quant.Spec) { s.Method = quant.Shrink },
	} {
		s := base
		change(&s)
		if _, err := (Format{}).Solver(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestCheckShape(t *testing.T) {
	asym := base
	asym.Zero = quant.Integer
	if err := (Format{}).CheckShape(asym, 130, 128); err == nil || !strings.Contains(err.Error(), "130 rows are not a multiple of 8") {
		t.Error(err)
	}
	if err := (Format{}).CheckShape(base, 130, 192); err == nil || !strings.Contains(err.Error(), "192 columns are not a multiple of the group size") {
		t.Error(err)
	}
	if err := (Format{}).CheckShape(base, 130, 128); err != nil {
		t.Error(err)
	}
}
