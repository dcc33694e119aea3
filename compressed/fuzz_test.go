package compressed

import (
	"testing"

	"nibble/formats/formattest"
)

// FuzzOpen feeds the reader configs and tensors that contradict themselves and one another.
func FuzzOpen(f *testing.F) {
	for _, config := range []string{
		`{"format":"pack-quantized","config_groups":{"a":{"targets":["Linear"],"weights":{"num_bits":4,"strategy":"group","group_size":8,"symmetric":false}}}}`,
		`{"format":"int-quantized","ignore":["re:.*q_proj","lm_head"],"config_groups":{"a":{"targets":["re:.*"],"weights":{"num_bits":8,"strategy":"channel"},"input_activations":{}}}}`,
	} {
		f.Add(config, []byte("\xff\x00\x02\x08\x01\x00\x02\x02\x08\x01\x00\x00\x02\x01\x01\x00\x04\x01\x02\x10\x08\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00"))
		f.Add(config, []byte("\x05\x02\x08\x08\x00\xff\x02\x02\x08\x01\x00\xff\xff\xff"))
	}
	f.Fuzz(func(t *testing.T, config string, tensors []byte) {
		r, err := Open([]byte(config))
		if err != nil {
			return
		}
		r.Expect("lm_head")
		formattest.TryOpen(t, r, formattest.Hostile(tensors, ".weight", ".weight_packed", ".weight_scale", ".weight_zero_point", ".weight_shape", ".weight_g_idx", ".input_scale"))
	})
}
