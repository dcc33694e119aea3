package convert_test

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"nibble/convert"
	"nibble/hf"
	"nibble/internal/testmodel"
	"nibble/quant"
	"nibble/safetensors"
)

// Under round to nearest −max, at 8 steps of max/7.5, is beyond what float32 holds: no build with an infinite weight is made.
func TestOverflow(t *testing.T) {
	const name = "model.layers.1.mlp.up_proj.weight"
	g := testmodel.Golden(t, "llama-plain")
	g.Fill = func(s safetensors.Spec) []float32 {
		v := testmodel.Values(s)
		if s.Name == name {
			v[70] = -math.Float32frombits(0x7f7f << 16) // the largest bfloat16
		}
		return v
	}
	src, out := open(t, g.Write(t), hf.Options{}), t.TempDir()+"/out"
	s := settings(t, "gptq", 32)
	s.Spec.Signed = false
	plan, err := convert.NewPlan(src, s)
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&convert.Run{Plan: plan, Out: out}).Quantize(t.Context(), nil)
	if !errors.Is(err, quant.ErrNonFinite) || !strings.Contains(err.Error(), strings.TrimSuffix(name, ".weight")) {
		t.Errorf("rtn: %v", err)
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("the output is there: %v", err)
	}
	s.Spec.Method = quant.Search
	quantize(t, src, s, out)
}
