package cli

import (
	"io/fs"
	"maps"
	"testing"
	"testing/fstest"

	"nibble/build"
	"nibble/convert"
	"nibble/formats"
	"nibble/hf"
	"nibble/internal/testmodel"
	"nibble/loader"
	"nibble/npu"
	"nibble/quant"
	"nibble/safetensors"
)

// folder reads the files of a tiny checkpoint into memory.
func folder(t testing.TB, variant string) fstest.MapFS {
	t.Helper()
	dir := t.TempDir()
	testmodel.Golden(t, variant).WriteTo(t, dir)
	f, err := hf.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	m := fstest.MapFS{}
	for _, name := range f.Files {
		raw, err := fs.ReadFile(f.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		m[name] = &fstest.MapFile{Data: raw}
	}
	return m
}

// FuzzModelConfig lets a checkpoint have any config.json and generation_config.json: whoever looks at the model ends with an error or
// an answer, and a plan is made before any weight is read.
func FuzzModelConfig(f *testing.F) {
	variants := testmodel.Variants(f)
	weights := make([]fstest.MapFS, len(variants))
	for i, v := range variants {
		weights[i] = folder(f, v)
		f.Add(uint8(i), weights[i]["config.json"].Data, []byte(`{"eos_token_id":[1,2]}`))
	}
	f.Add(uint8(0), []byte(`{"architectures":["LlamaForCausalLM"],"num_hidden_layers":2147483647,"quantization_config":{"quant_method":"gptq"}}`), []byte(`{"eos_token_id":1e99}`))
	format, err := formats.ByName("awq")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, variant uint8, config, generation []byte) {
		m := fstest.MapFS{}
		maps.Copy(m, weights[int(variant)%len(weights)])
		m["config.json"] = &fstest.MapFile{Data: config}
		m["generation_config.json"] = &fstest.MapFile{Data: generation}
		x, err := hf.NewFolder("", m, "")
		if err != nil {
			return
		}
		b, err := build.Open(x, hf.Options{})
		if err != nil {
			return
		}
		defer b.Set.Close()
		loader.Verdicts(b)
		_, _ = endTokens(b, "fuzz")
		_, _ = npu.NewModel(b)
		_, _ = convert.NewPlan(b, convert.Settings{Format: format, Target: loader.None, Threads: 1, KeepUnfit: true,
			Spec: quant.Spec{Bits: 4, Group: 32, Zero: quant.Integer, Method: quant.RTN, Scale: safetensors.BF16}})
	})
}
