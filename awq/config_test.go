package awq

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nibble/formats/formattest"
	"nibble/quant"
	"nibble/safetensors"
)

var base = quant.Spec{Bits: 4, Group: 64, Zero: quant.Integer, Method: quant.Search, Scale: safetensors.F16}

func TestConfig(t *testing.T) {
	modules := formattest.Modules(base)
	formattest.Set(modules, "o_proj", nil)
	formattest.Set(modules, "lm_head", nil)
	got, err := Format{}.Config(modules, quant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "quant_method": "awq",
  "zero_point": true,
  "group_size": 64,
  "bits": 4,
  "version": "gemm",
  "lm_head": false,
  "modules_to_not_convert": [
    "model.layers.0.self_attn.o_proj",
    "lm_head"
  ]
}`
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Error(d)
	}
}

// A float module whose name is a part of a quantized one's cannot be listed: substrings match.
func TestConfigOfAmbiguousNames(t *testing.T) {
	modules := append(formattest.Modules(base), quant.Module{Name: "layers.0.mlp.down_proj", Class: "Linear"})
	got, err := Format{}.Config(modules, quant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(got), `"modules_to_not_convert": null`) {
		t.Errorf("%s", got)
	}
}

func TestConfigRefuses(t *testing.T) {
	mixed := formattest.Modules(base)
	other := base
	other.Group = 32
	formattest.Set(mixed, "down_proj", &other)
	none := formattest.Modules(base)
	formattest.Set(none, "", nil)
	for want, modules := range map[string][]quant.Module{
		"model.layers.0.self_attn.q_proj is 4-bit g64 integer zero and model.layers.0.mlp.down_proj is 4-bit g32 integer zero": mixed,
		"no module is quantized": none,
	} {
		if _, err := (Format{}).Config(modules, quant.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for config, want := range map[string]string{
		`[]`:                         "cannot unmarshal",
		`{"bits":4}`:                 "bits and group_size are required",
		`{"bits":8,"group_size":64}`: "bits 8",
		`{"bits":4,"group_size":-2}`: "group_size -2",
		`{"bits":4,"group_size":64,"version":"gemv_fast"}`: `"gemv_fast" is not supported`,
	} {
		if _, err := Open([]byte(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}

func TestSolverRefuses(t *testing.T) {
	for want, change := range map[string]func(*quant.Spec){
		"8 bits: the format has 4 only": func(s *quant.Spec) { s.Bits = 8 },
		"group size -7":                 func(s *quant.Spec) { s.Group = -7 },
		"cpu_int4 holds float ones":     func(s *quant.Spec) { s.Zero = quant.Float },
		"int8 activations":              func(s *quant.Spec) { s.Int8 = true },
		`it can be "rtn" or "search"`:   func(s *quant.Spec) { s.Method = quant.Shrink },
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
		"144 columns are not a multiple of the group size": {128, 144},
	} {
		if err := (Format{}).CheckShape(base, shape[0], shape[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", shape, err, want)
		}
	}
}
