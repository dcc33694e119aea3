package runtime

import (
	"nibble/hf"
	"nibble/internal/half"
	"nibble/quant"
	"nibble/safetensors"
)

// lookup reads rows of the embedding from their file, for the tokens of a chunk: a whole table may be larger than all else that
// [Stages] has in memory. The values are those that a model of the same mode has in memory.
type lookup struct {
	table  *matrix // [chunk, hidden]
	read   func(dst []byte, row int) error
	stored safetensors.DType
	row    []byte    // as it is stored
	values []float32 // of a row that the table has in another type; nil: it has them as they are stored
}

// openLookup makes the table of a chunk the model's embedding. A build that has quantized it is read whole: then the lookup is nil.
func (s *Stages) openLookup(t *hf.Tensor) (*lookup, error) {
	if t.Source == "" {
		return nil, s.m.readMatrices(s.l, []hf.Tensor{*t})
	}
	from, err := s.l.open(t, 0, t.Out(), false)
	if err != nil {
		return nil, err
	}
	x := &lookup{table: from.matrix, read: from.read, stored: from.dtype, row: make([]byte, t.In()*from.dtype.Bits()/8)}
	if x.stored != safetensors.BF16 && s.m.multiplied(s.l, t) { // it is the head, too
		x.table.dtype, x.values = safetensors.BF16, make([]float32, t.In())
	}
	x.table.n = chunk
	x.table.raw = make([]byte, chunk*t.In()*x.table.dtype.Bits()/8)
	s.m.embed = x.table
	return x, nil
}

// fetch reads the row of a token as row i of the table.
func (x *lookup) fetch(i int, id int32) error {
	if err := x.read(x.row, int(id)); err != nil {
		return err
	}
	size := len(x.table.raw) / chunk
	to := x.table.raw[i*size : (i+1)*size]
	if x.values == nil {
		copy(to, x.row)
		return nil
	}
	quant.DecodeFloats(x.values, x.row, x.stored)
	half.EncodeBF16(to, x.values)
	return nil
}
