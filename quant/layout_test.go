package quant_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"nibble/quant"
	"nibble/safetensors"
)

// tensorOf is a source of one tensor, of which nothing behind its end is read.
type tensorOf struct {
	bytes []byte
	reads int
}

func (s *tensorOf) Lookup(string) (safetensors.Tensor, bool) { return safetensors.Tensor{}, true }

func (s *tensorOf) ReadAt(_ string, p []byte, off int64) error {
	if s.reads++; off < 0 || off+int64(len(p)) > int64(len(s.bytes)) {
		return fmt.Errorf("%d bytes at %d of %d", len(p), off, len(s.bytes))
	}
	copy(p, s.bytes[off:])
	return nil
}

// Columns come out as they stand there, byte by byte, however wide they and the rows are: alone, with what is between them, in several
// pieces, and where the last row ends with the tensor.
func TestReadColumns(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	for _, x := range []struct{ stride, rows, size, off, reads int }{
		{8, 5, 8, 0, 1},          // whole rows
		{8, 5, 1, 7, 1},          // an eighth, and what is between
		{1000, 200, 250, 750, 4}, // 65 rows at a time
		{1000, 130, 999, 0, 2},
		{4196, 3, 100, 4096, 1},
		{4197, 3, 100, 4097, 3}, // a byte more between them
		{40000, 3, 39999, 1, 3}, // two rows do not fit
	} {
		src := &tensorOf{bytes: make([]byte, x.stride*x.rows)}
		for i := range src.bytes {
			src.bytes[i] = byte(random.Uint32())
		}
		var want []byte
		for r := range x.rows {
			want = append(want, src.bytes[r*x.stride+x.off:][:x.size]...)
		}
		got := make([]byte, len(want))
		if err := quant.ReadColumns(src, "t", int64(x.off), int64(x.stride), x.rows, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%+v: equal %v, error %v", x, bytes.Equal(got, want), err)
		}
		if src.reads != x.reads {
			t.Errorf("%+v: %d reads", x, src.reads)
		}
	}
}
