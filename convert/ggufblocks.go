package convert

import (
	"fmt"

	codec "nibble/gguf/block"
	"nibble/gguf/mix"
	"nibble/quant"
	"nibble/safetensors"
)

// place is where an item is in a GGUF file.
type place struct {
	tensor *GGUFTensor
	index  int   // of the matrix in a stack
	first  int64 // byte of the tensor
}

// blockSpec is how weights of a type are quantized; nil for floats.
func blockSpec(t codec.Type, method string) *quant.Spec {
	g, ok := t.Grid()
	if !ok {
		return nil
	}
	s := &quant.Spec{Bits: g.Bits, Group: g.Size, Method: method, Scale: safetensors.F16}
	if g.Biases {
		s.Zero = quant.Float
	}
	return s
}

// blockCandidates lists the types that a matrix with rows of k columns can have.
func blockCandidates(k int) (list []candidate, refusal error) {
	for _, t := range mix.Choices(k) {
		list = append(list, candidate{spec: *blockSpec(t, quant.Search), kind: t.String(), size: float64(8*t.Bytes()) / float64(t.Size()),
			empty: func(n, k int) *quant.Matrix { return blockMatrix(t, n, k) },
			solve: func(m *quant.Matrix, w, d []float32) {
				if d == nil {
					d = make([]float32, len(w))
					codec.Importance(d, w)
				}
				blockSolver(t)(m, w, d)
			}})
	}
	if list == nil {
		refusal = fmt.Errorf("rows of %d columns are no whole blocks of 32", k)
	}
	return list, refusal
}

// blockMatrix is an empty matrix of a type.
func blockMatrix(t codec.Type, n, k int) *quant.Matrix {
	g, _ := t.Grid()
	s := blockSpec(t, "")
	m := quant.NewMatrix(n, k, s.Bits, s.Group, s.Zero)
	var levels *quant.Levels
	if g.Levels != nil {
		levels = quant.NewLevels(g.Levels...)
	}
	m.Blocks = quant.NewBlocks(n, k, t.Size(), t.Bytes(), levels)
	return m
}

// blockSolver finds the blocks of rows. A row whose weights are not finite, as a solver's may be that corrects them, is one of zeros.
func blockSolver(t codec.Type) quant.Solver {
	return func(m *quant.Matrix, w, d []float32) {
		groups, size := m.Groups(), m.Blocks.RowBytes(m.K)
		good := t.Encode(m.Blocks.Raw, w, d) == nil
		for n := range m.N {
			raw := m.Blocks.Raw[n*size : (n+1)*size]
			if !good && t.Encode(raw, w[n*m.K:(n+1)*m.K], d) != nil {
				clear(raw)
			}
			var bias []float32
			if m.Bias != nil {
				bias = m.Bias[n*groups : (n+1)*groups]
			}
			t.Split(m.Codes[n*m.K:(n+1)*m.K], m.Scales[n*groups:(n+1)*groups], bias, raw)
		}
	}
}

// pack stores the rows of m from row0 of the source on. Those that the file has in another order lie apart.
func (r *Run) pack(it *Item, m *quant.Matrix, row0 int) error {
	t, size := it.place.tensor, m.Blocks.RowBytes(m.K)
	t.Type.Join(m.Blocks.Raw, m.Codes)
	put := func(row int, raw []byte) error {
		return r.out.WriteAt(it.Outputs[0].Name, raw, it.place.first+int64(row)*int64(size))
	}
	if t.Heads == 0 {
		return put(row0, m.Blocks.Raw)
	}
	for n := range m.N {
		if err := put(t.Place(row0+n, it.N), m.Blocks.Raw[n*size:(n+1)*size]); err != nil {
			return err
		}
	}
	return nil
}

const (
	ggufStrip     = 1 << 18       // weights that are read at a time, about
	ggufPerWeight = 4 + 4 + 4 + 1 // bytes that one takes: as stored, in float32, its importance, in its block
)

// blocks is the job of an item of a GGUF file that is decided by its weights alone.
func (r *Run) blocks(it *Item) *job {
	t := it.place.tensor
	switch {
	case it.Tensor.Source == "":
		return &job{name: it.Name, rows: 1, strip: 1, run: func(*worker, int, int) error { return r.store(it, t.Values) },
			done: func() error { return r.record(it, nil) }}
	case len(it.Tensor.Shape) < 2:
		return r.vector(it)
	}
	strip := int64(ggufStrip)
	if it.rows.t.Transposed {
		strip *= 4 // a strip of columns is read in short pieces
	}
	j := &job{name: it.Name, rows: it.N, strip: max(block, int(min(strip, r.strip*bytesPerWeight/ggufPerWeight))/it.K/block*block), cost: int64(it.K) * int64(it.rows.elements)}
	var weights []float32
	if w := r.gguf.Weights[t.Name]; w != nil {
		weights = w[it.place.index*it.K : (it.place.index+1)*it.K]
	}
	noise := make([]quant.Noise, (it.N+block-1)/block)
	j.run = func(w *worker, row0, count int) error {
		values, err := it.rows.read(w, row0, count)
		if err != nil {
			return err
		}
		size := it.K / t.Type.Size() * t.Type.Bytes()
		raw, back, d := grow(&w.raw, count*size), grow(&w.row, it.K), weights
		switch {
		case t.Type.Size() == 1:
			d = nil
		case d == nil:
			d = grow(&w.importance, len(values))
			codec.Importance(d, values)
		}
		if err := t.Type.Encode(raw, values, d); err != nil {
			i := max(quant.NonFinite(values), 0)
			return fmt.Errorf("convert: %s: row %d, column %d: %w", it.Tensor.Name, row0+i/it.K, i%it.K, err)
		}
		for i := range count {
			row, to := values[i*it.K:(i+1)*it.K], raw[i*size:(i+1)*size]
			if it.Spec != nil {
				if err := t.Type.Decode(back, to); err != nil {
					return err
				}
				noise[(row0+i)/block].Add(row, back)
			}
			if t.Heads > 0 {
				if err := r.out.WriteAt(it.Outputs[0].Name, to, it.place.first+int64(t.Place(row0+i, it.N))*int64(size)); err != nil {
					return err
				}
			}
		}
		if t.Heads > 0 {
			return nil
		}
		return r.out.WriteAt(it.Outputs[0].Name, raw, it.place.first+int64(row0)*int64(size))
	}
	j.done = func() error {
		if it.Spec == nil {
			return r.record(it, nil)
		}
		var all quant.Noise
		for _, x := range noise {
			all.Merge(x)
		}
		return r.record(it, &outcome{Noise: &all})
	}
	return j
}

// store writes all elements of an item in float.
func (r *Run) store(it *Item, values []float32) error {
	t := it.place.tensor
	raw := make([]byte, len(values)*t.Type.Bytes())
	if err := t.Type.Encode(raw, values, nil); err != nil {
		return err
	}
	return r.out.WriteAt(it.Outputs[0].Name, raw, it.place.first)
}

// vector is the job of a vector.
func (r *Run) vector(it *Item) *job {
	t, s := it.place.tensor, &it.Tensor
	x, _ := r.Source.Set.Lookup(s.Source)
	size := int64(x.DType.Bits() / 8)
	n := int(s.Elements())
	return &job{name: it.Name, rows: 1, strip: 1, cost: int64(n) * size, run: func(*worker, int, int) error {
		raw, from, values := make([]byte, int64(n)*size), make([]float32, n), make([]float32, n)
		if err := r.Source.Set.ReadAt(s.Source, raw, s.Offset*size); err != nil {
			return err
		}
		quant.DecodeFloats(from, raw, x.DType)
		for i := range values {
			values[i] = from[t.Row(i, n)]
			if t.PlusOne {
				values[i]++
			}
		}
		if i := quant.NonFinite(values); i >= 0 {
			return fmt.Errorf("convert: %s: element %d: %w", s.Name, i, quant.ErrNonFinite)
		}
		return r.store(it, values)
	}, done: func() error { return r.record(it, nil) }}
}
