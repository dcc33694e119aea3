package asym

import (
	"testing"

	"nibble/formats/formattest"
)

// FuzzOpen feeds the reader configs and tensors that contradict themselves and one another.
func FuzzOpen(f *testing.F) {
	f.Add(`{}`, []byte("\x06\x02\x10\x20\x00\x02\x02\x10\x01\x00\x02\x02\x10\x01\x00"))
	f.Add(`{"bits":4,"group_size":16,"quantize_embedding":false,"ignore":["lm_head"]}`, []byte("\x06\x02\x10\x08\x00\x02\x02\x10\x01\x00\x02\x02\x10\x01\x00"))
	f.Fuzz(func(t *testing.T, config string, tensors []byte) {
		r, err := Open([]byte(config))
		if err != nil {
			return
		}
		r.Expect("lm_head")
		formattest.TryOpen(t, r, formattest.Hostile(tensors, ".weight_packed", ".weight_scale", ".weight_zero"))
	})
}
