package runtime_test

import (
	"context"

	"nibble/build"
	"nibble/convert"
	"nibble/internal/stage"
	"nibble/loader"
	"nibble/quant"
	"nibble/runtime"
	"nibble/safetensors"
)

func init() {
	runtime.Converters.Quantize = func(b *build.Build, format quant.Format, group int, out string) error {
		plan, err := convert.NewPlan(b, convert.Settings{Format: format, Target: loader.None, KeepUnfit: true, Threads: 2,
			Spec: quant.Spec{Bits: 4, Group: group, Zero: format.DefaultZero(), Method: quant.RTN, Scale: safetensors.BF16,
				Signed: format.DefaultZero() == quant.Symmetric},
			Options: quant.Options{CheckpointFormat: "gptq", Version: "test"}})
		if err != nil {
			return err
		}
		_, err = (&convert.Run{Plan: plan, Out: out}).Quantize(context.Background(), nil)
		return err
	}
	runtime.Converters.Expand = func(b *build.Build, out string) error {
		x, err := convert.NewExpansion(b, safetensors.F32, 0)
		if err != nil {
			return err
		}
		x.Threads = 2
		_, err = x.Run(context.Background(), out, stage.Fresh, nil)
		return err
	}
}
