package quant_test

import (
	"math"
	"testing"

	"nibble/quant"
	"nibble/safetensors"
)

func TestRoundScale(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		s    float32
		d    safetensors.DType
		want float32
	}{
		{0, safetensors.F16, 0x1p-24},
		{0, safetensors.BF16, 0x1p-126},
		{0, safetensors.F32, 0x1p-126},
		{-1e-30, safetensors.F16, -0x1p-24},
		{-0x1p-140, safetensors.BF16, -0x1p-126},
		{float32(math.NaN()), safetensors.BF16, 0x1p-126},
		{1e6, safetensors.F16, 65504},
		{-inf, safetensors.F16, -65504},
		{math.MaxFloat32, safetensors.BF16, 0x1.fep127},
		{inf, safetensors.F32, math.MaxFloat32},
		{1.0 / 3, safetensors.BF16, 0x1.56p-2},
		{1.0 / 3, safetensors.F16, 0x1.554p-2},
		{-1.0 / 3, safetensors.F32, -1.0 / 3},
	} {
		if got := quant.RoundScale(c.s, c.d); got != c.want {
			t.Errorf("%v in %s: %v, want %v", c.s, c.d, got, c.want)
		}
	}
}
