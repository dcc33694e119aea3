package asym

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nibble/formats/formattest"
	"nibble/internal/kernel"
	"nibble/quant"
	"nibble/safetensors"
)

var base = quant.Spec{Bits: 4, Group: 64, Zero: quant.Float, Method: quant.Shrink, Scale: safetensors.BF16}

func TestConfig(t *testing.T) {
	modules := formattest.Modules(base)
	formattest.Set(modules, "embed", &base)
	formattest.Set(modules, "o_proj", nil)
	got, err := Format{}.Config(modules, quant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "quant_method": "cpu_int4",
  "bits": 4,
  "group_size": 64,
  "quantize_embedding": true,
  "prefill_dequant": true,
  "dequant_threshold": 2,
  "ignore": [
    "model.layers.0.self_attn.o_proj"
  ]
}`
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Error(d)
	}
	r, err := Open(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		if s := r.Expect(m.Name); (s == nil) != (m.Spec == nil) {
			t.Errorf("%s: expected %v", m.Name, s)
		}
	}
}

func TestExpect(t *testing.T) {
	r, err := Open([]byte(`{"quantize_embedding":false,"ignore":["lm_head","layers.0.mlp"]}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"lm_head": false, "x.lm_head": false, "xlm_head": true,
		"model.layers.0.mlp": false, "model.layers.0.mlp.up": true,
		"model.embedding": false, "model.embed_tokens": false, "embed.q_proj": true,
	} {
		if got := r.Expect(name) != nil; got != want {
			t.Errorf("%s: quantized %t, want %t", name, got, want)
		}
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
		"q_proj has groups of 64 and model.layers.0.mlp.down_proj of 32": mixed,
		"no module is quantized": none,
	} {
		if _, err := (Format{}).Config(modules, quant.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for config, want := range map[string]string{
		`[]`:               "cannot unmarshal",
		`{"bits":8}`:       "bits 8",
		`{"group_size":0}`: "group_size 0",
	} {
		if _, err := Open([]byte(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}

func TestSolverRefuses(t *testing.T) {
	for want, change := range map[string]func(*quant.Spec){
		"8 bits: the format has 4 only":         func(s *quant.Spec) { s.Bits = 8 },
		"one group for a whole row":             func(s *quant.Spec) { s.Group = -1 },
		"group size 0":                          func(s *quant.Spec) { s.Group = 0 },
		"the format has float zeros":            func(s *quant.Spec) { s.Zero = quant.Integer },
		"scales of type F16":                    func(s *quant.Spec) { s.Scale = safetensors.F16 },
		"int8 activations":                      func(s *quant.Spec) { s.Int8 = true },
		`it can be "rtn", "shrink" or "search"`: func(s *quant.Spec) { s.Method = "gptq" },
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
		"129 columns are odd":                              {128, 129},
		"144 columns are not a multiple of the group size": {128, 144},
	} {
		if err := (Format{}).CheckShape(base, shape[0], shape[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", shape, err, want)
		}
	}
}

// The exporter's eight ranges, worked out by hand for a group whose best one is the first, and for an outlier, which the
// search gives up for a finer step.
func TestShrink(t *testing.T) {
	even := make([]float32, 16)
	for i := range even {
		even[i] = float32(i) / 16
	}
	codes := make([]uint8, 16)
	if s, b := shrinkGroup(new(kernel.Trials), codes, even, safetensors.BF16); s != 0.0625 || b != 0.5 || codes[0] != 0 || codes[15] != 15 {
		t.Errorf("an exact grid: scale %v, zero %v, codes %v", s, b, codes)
	}
	outlier := make([]float32, 64)
	for i := range outlier {
		outlier[i] = float32(i%8) / 8
	}
	outlier[0], outlier[1] = -1.1, 1.1
	codes = make([]uint8, 64)
	s, _ := shrinkGroup(new(kernel.Trials), codes, outlier, safetensors.BF16)
	if full := quant.RoundScale(2.2/15, safetensors.BF16); s >= full {
		t.Errorf("scale %v with an outlier, want less than %v", s, full)
	}
}
