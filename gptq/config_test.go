package gptq

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nibble/formats/formattest"
	"nibble/quant"
	"nibble/safetensors"
)

var base = quant.Spec{Bits: 4, Group: 128, Method: quant.RTN, Scale: safetensors.BF16}

func TestConfig(t *testing.T) {
	got, err := Format{}.Config(formattest.Modules(base), quant.Options{Version: "1.2"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "quant_method": "gptq",
  "bits": 4,
  "group_size": 128,
  "sym": true,
  "desc_act": false,
  "lm_head": true,
  "checkpoint_format": "gptq",
  "pack_dtype": "int32",
  "meta": {
    "quantizer": [
      "nibble:1.2"
    ]
  }
}`
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Error(d)
	}
}

func TestConfigOfDifferingModules(t *testing.T) {
	modules := formattest.Modules(base)
	wide := base
	wide.Bits, wide.Group = 8, -1
	formattest.Set(modules, "mlp.down_proj", &wide)
	fine := base
	fine.Group = 32
	formattest.Set(modules, "q_proj", &fine)
	formattest.Set(modules, "k_proj", &fine)
	formattest.Set(modules, "v_proj", &fine)
	formattest.Set(modules, "gate_proj", nil)
	formattest.Set(modules, "up_proj", nil)
	formattest.Set(modules, "lm_head", nil)
	// Most modules must be of the base: three are finer, so two more are added.
	for _, name := range []string{"model.layers.10.mlp.down_proj", "model.layers.1.mlp.down_proj", "model.layers.1.self_attn.o_proj"} {
		modules = append(modules, quant.Module{Name: name, Class: "Linear", Spec: &base})
	}
	got, err := Format{}.Config(modules, quant.Options{CheckpointFormat: V2})
	if err != nil {
		t.Fatal(err)
	}
	want := `"dynamic": {
    "model\\.layers\\.0\\.self_attn\\.(q_proj|k_proj|v_proj|qkv_proj)$": {
      "bits": 4,
      "group_size": 32,
      "sym": true,
      "desc_act": false
    },
    "-:model\\.layers\\.0\\.mlp\\.(gate_proj|up_proj|gate_up_proj)$": {},
    "model\\.layers\\.0\\.mlp\\.down_proj$": {
      "bits": 8,
      "group_size": -1,
      "sym": true,
      "desc_act": false
    }
  }`
	if _, rest, ok := strings.Cut(string(got), `"pack_dtype": "int32",`+"\n  "); !ok || !strings.HasPrefix(rest, want) {
		t.Errorf("%s", got)
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
		if (s == nil) != (m.Spec == nil) || s != nil && (s.Bits != m.Spec.Bits || s.Group != m.Spec.Group) {
			t.Errorf("%s: expected %v, want %v", m.Name, s, m.Spec)
		}
	}
	if s := r.Expect("model.layers.0.self_attn.qkv_proj"); s == nil || s.Group != 32 {
		t.Errorf("fused qkv_proj: %v", s)
	}
}

func TestConfigRefuses(t *testing.T) {
	none := formattest.Modules(base)
	formattest.Set(none, "", nil)
	asym := base
	asym.Zero = quant.Integer
	for want, c := range map[string]struct {
		modules []quant.Module
		format  string
	}{
		"no module is quantized":                  {none, ""},
		"integer zero":                            {formattest.Modules(asym), ""},
		`"marlin": it can be "gptq" or "gptq_v2"`: {formattest.Modules(base), "marlin"},
	} {
		if _, err := (Format{}).Config(c.modules, quant.Options{CheckpointFormat: c.format}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for config, want := range map[string]string{
		`{`:                            "unexpected end",
		`{"bits":4}`:                   "bits and group_size are required",
		`{"bits":9,"group_size":32}`:   "bits 9",
		`{"bits":4,"group_size":0}`:    "group_size 0",
		`{"bits":"4","group_size":32}`: "cannot unmarshal string",
		`{"bits":4,"group_size":32,"checkpoint_format":"marlin"}`:                                                  `"marlin" is not supported`,
		`{"bits":4,"group_size":32,"dynamic":{"a":{"bits":99}}}`:                                                   `dynamic "a": bits 99`,
		`{"bits":4,"group_size":32,"dynamic":[]}`:                                                                  "not an object",
		`{"bits":4,"group_size":32,"modules_in_block_to_quantize":[1]}`:                                            "not a list of names",
		`{"quant_method":"auto-round","bits":4,"group_size":32,"packing_format":"auto_round:auto_awq"}`:            "auto_round:auto_awq",
		`{"quant_method":"auto-round","bits":4,"group_size":32,"extra_config":{"lm_head":{"group_size":-5}}}`:      "lm_head",
		`{"quant_method":"auto-round","bits":4,"group_size":32,"block_name_to_quantize":{"model":"model.layers"}}`: "block_name_to_quantize",
	} {
		if _, err := Open([]byte(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}

func TestRuleInPythonSyntax(t *testing.T) {
	r, err := Open([]byte(`{"bits":4,"group_size":32,"dynamic":{"-:(?!x)y":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if w := r.(*reader).Warnings(); len(w) != 1 || !strings.Contains(w[0], "(?!") {
		t.Errorf("%q", w)
	}
}

func TestSolverRefuses(t *testing.T) {
	for want, change := range map[string]func(*quant.Spec){
		"3 bits: this program writes 4 and 8": func(s *quant.Spec) { s.Bits = 3 },
		"1 bits: a code has 2 to 8":           func(s *quant.Spec) { s.Bits = 1 },
		"group size 0":                        func(s *quant.Spec) { s.Group = 0 },
		"scales of type I8":                   func(s *quant.Spec) { s.Scale = safetensors.I8 },
		"awq and compressed-tensors hold it":  func(s *quant.Spec) { s.Zero = quant.Integer },
		"int8 activations":                    func(s *quant.Spec) { s.Int8 = true },
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
	for want, shape := range map[string][2]int{
		"130 rows are not a multiple of 8":                 {130, 128},
		"132 columns are not a multiple of 8":              {128, 132},
		"192 columns are not a multiple of the group size": {128, 192},
	} {
		if err := (Format{}).CheckShape(base, shape[0], shape[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", shape, err, want)
		}
	}
}
