package convert

import (
	"io/fs"
	"maps"
	"testing"
	"testing/fstest"

	"nibble/build"
	"nibble/demo"
	"nibble/formats"
	"nibble/hf"
	"nibble/loader"
	"nibble/quant"
	"nibble/safetensors"
)

// FuzzReport lets a build have any quantization_report.json, from which dequantize takes what the weights do not tell.
func FuzzReport(f *testing.F) {
	folder, err := hf.NewFolder("", demo.FS(), "")
	if err != nil {
		f.Fatal(err)
	}
	b, err := build.Open(folder, hf.Options{})
	if err != nil {
		f.Fatal(err)
	}
	format, err := formats.ByName("awq")
	if err != nil {
		f.Fatal(err)
	}
	p, err := NewPlan(b, Settings{Format: format, Target: loader.None, Threads: 2,
		Spec: quant.Spec{Bits: 4, Group: 128, Zero: quant.Integer, Method: quant.RTN, Scale: safetensors.BF16}})
	if err != nil {
		f.Fatal(err)
	}
	out := f.TempDir() + "/out"
	if _, err := (&Run{Plan: p, Out: out}).Quantize(f.Context(), nil); err != nil {
		f.Fatal(err)
	}
	stored, err := hf.Find(out)
	if err != nil {
		f.Fatal(err)
	}
	files := fstest.MapFS{}
	for _, name := range stored.Files {
		raw, err := fs.ReadFile(stored.FS, name)
		if err != nil {
			f.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: raw}
	}
	f.Add([]byte(`{"source":{"tied_head":true,"stacked_experts":true},"tensors":[{"name":"model.layers.0.mlp.down_proj","shape":[256,512],"bits":4,"sqnr_db":"-inf"}]}`))
	f.Add(files[ReportName].Data)
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := fstest.MapFS{}
		maps.Copy(m, files)
		m[ReportName] = &fstest.MapFile{Data: raw}
		folder, err := hf.NewFolder("", m, "")
		if err != nil {
			t.Fatal(err)
		}
		b, err := build.Open(folder, hf.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Set.Close()
		x, err := NewExpansion(b, safetensors.BF16, 1<<40)
		if err == nil {
			x.Layers()
			x.Costs()
		}
	})
}
