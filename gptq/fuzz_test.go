package gptq

import (
	"testing"

	"nibble/formats/formattest"
)

// FuzzOpen feeds the reader configs and tensors that contradict themselves and one another.
func FuzzOpen(f *testing.F) {
	for _, config := range []string{
		`{"bits":4,"group_size":8,"sym":true}`,
		`{"bits":3,"group_size":-1,"sym":false,"checkpoint_format":"gptq_v2","modules_in_block_to_quantize":[["mlp.down_proj"]]}`,
		`{"bits":8,"group_size":16,"sym":false,"lm_head":true,"meta":{"quantizer":["gptqmodel:7"]},"dynamic":{"-:x":{},"+:.*down.*":{"bits":2}}}`,
		`{"quant_method":"auto-round","bits":4,"group_size":8,"extra_config":{"a.b":{"bits":16},".*down.*":{"bits":8}},"block_name_to_quantize":"model.layers"}`,
	} {
		f.Add(config, []byte("\x00\x02\x02\x08\x00\x01\x02\x02\x08\x00\x00\x02\x02\x01\x00\x00\x01\x10\x00"))
		f.Add(config, []byte("\x00\x02\x03\x20\x00\x02\x02\x04\x20\x00\x00\x02\x04\x03\x00\x04\x01\x20\x00"))
	}
	f.Fuzz(func(t *testing.T, config string, tensors []byte) {
		r, err := Open([]byte(config))
		if err != nil {
			return
		}
		r.Expect("lm_head")
		formattest.TryOpen(t, r, formattest.Hostile(tensors, ".qweight", ".scales", ".qzeros", ".g_idx"))
	})
}
