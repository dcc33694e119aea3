package formats

import "testing"

// FuzzOpen feeds arbitrary configs to the choice of a reader.
func FuzzOpen(f *testing.F) {
	for _, c := range []string{
		`{"quant_method":"gptq","bits":4,"group_size":128}`,
		`{"quant_method":"AWQ","bits":4,"group_size":128,"zero_point":true}`,
		`{"quant_method":"compressed-tensors","config_groups":{}}`,
		`{"quant_method":"cpu_int4"}`,
		`{"quant_method":"bitsandbytes"}`,
	} {
		f.Add([]byte(c))
	}
	f.Fuzz(func(t *testing.T, config []byte) {
		if r, err := Open(config); err == nil {
			r.Expect("model.layers.0.mlp.down_proj")
			r.Format()
		}
	})
}
