package awq

import (
	"testing"

	"nibble/formats/formattest"
)

// FuzzOpen feeds the reader configs and tensors that contradict themselves and one another.
func FuzzOpen(f *testing.F) {
	for _, config := range []string{
		`{"bits":4,"group_size":8,"zero_point":true,"modules_to_not_convert":null}`,
		`{"w_bit":4,"q_group_size":-1,"zero_point":false,"version":"GEMM","lm_head":true}`,
		`{"bits":4,"group_size":64,"version":"gemv","modules_to_not_convert":["lm_head"]}`,
	} {
		f.Add(config, []byte("\x00\x02\x10\x01\x00\x01\x02\x02\x08\x00\x00\x02\x02\x01\x00"))
		f.Add(config, []byte("\x00\x02\x08\x08\x00\x01\x02\x08\x10\x00\x00\x02\x08\x02\x00"))
	}
	f.Fuzz(func(t *testing.T, config string, tensors []byte) {
		r, err := Open([]byte(config))
		if err != nil {
			return
		}
		r.Expect("lm_head")
		formattest.TryOpen(t, r, formattest.Hostile(tensors, ".qweight", ".scales", ".qzeros"))
	})
}
