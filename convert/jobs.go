package convert

import (
	"fmt"
	"hash/crc32"
	"math"

	"nibble/hf"
	"nibble/quant"
	"nibble/safetensors"
)

// jobs lists the work that is not done yet: the source's files to hash, which take longest, then the items.
func (r *Run) jobs() []*job {
	var jobs []*job
	for i, file := range r.Source.Stored() {
		if !r.hashes(i, file.Name) {
			continue
		}
		name := "file " + file.Name
		jobs = append(jobs, &job{name: name, rows: 1, strip: 1, run: func(*worker, int, int) error {
			sum, err := hashFile(r.Source.FS, file.Name)
			if err != nil {
				return err
			}
			if e, ok := r.done[name]; ok && e.SHA256 != sum {
				return fmt.Errorf("convert: %s has changed since the interrupted run read it; --overwrite starts again", r.Source.In(file.Name))
			}
			r.journal.mu.Lock()
			r.sums[file.Name] = sum
			r.journal.mu.Unlock()
			return r.journal.line(entry{Job: name, SHA256: sum})
		}})
	}
	for i := range r.Items {
		it := &r.Items[i]
		if r.learns(it) || !r.owns(it) {
			continue
		}
		if r.finished(it) {
			r.Resumed++
			if r.Progress != nil {
				r.Progress(it.Name, r.cost(it))
			}
			continue
		}
		switch {
		case it.place != nil:
			jobs = append(jobs, r.blocks(it))
		case it.Spec != nil:
			jobs = append(jobs, r.quantized(it))
		case it.rows != nil:
			jobs = append(jobs, r.padded(it))
		default:
			jobs = append(jobs, r.copied(it))
		}
	}
	return jobs
}

// finished reports whether the journal has the item and the output still holds what was stored.
func (r *Run) finished(it *Item) bool {
	e, ok := r.done[it.Name]
	if !ok || !e.fits(it) {
		return false
	}
	crc, err := r.crc(it)
	if err != nil || crc != e.CRC {
		return false
	}
	if e.Outcome != nil {
		r.outcomes[it.Name] = e.Outcome
	}
	return true
}

// quantized is the job of a matrix, strip by strip: read, solve and account part by part, then pack.
func (r *Run) quantized(it *Item) *job {
	blocks := make([]quant.Noise, (it.N+block-1)/block)
	put := func(tensor int, off int64, p []byte) error { return r.out.WriteAt(it.Outputs[tensor].Name, p, off) }
	part := r.partRows(it.rows)
	return &job{name: it.Name, rows: it.N, strip: r.stripRows(it.K),
		cost: int64(it.K) * int64(it.rows.elements),
		run: func(w *worker, row0, rows int) error {
			m := quant.NewMatrix(rows, it.K, it.Spec.Bits, it.Spec.GroupSize(it.K), it.Spec.Zero)
			defer m.Recycle()
			for at := 0; at < rows; at += part {
				n := min(part, rows-at)
				weights, err := it.rows.read(w, row0+at, n)
				if err != nil {
					return err
				}
				p := m.Part(at, n)
				it.solve(p, weights, nil)
				account(w, p, weights, blocks, row0+at)
			}
			return r.Format.Pack(*it.Spec, r.Options, m, row0, it.N, put)
		},
		done: func() error {
			var noise quant.Noise
			for _, b := range blocks {
				noise.Merge(b)
			}
			if math.IsInf(noise.Error, 0) || math.IsNaN(noise.Error) {
				return fmt.Errorf("convert: %s: weights near the largest that there are overflow under --method %s: %w; --method search holds them",
					it.Name, it.Spec.Method, quant.ErrNonFinite)
			}
			return r.record(it, &outcome{Noise: &noise})
		}}
}

// account adds what the rows of m from row0 lost against their weights to the blocks of the matrix.
func account(w *worker, m *quant.Matrix, weights []float32, blocks []quant.Noise, row0 int) {
	row := grow(&w.row, m.K)
	for n := range m.N {
		m.DequantizeRow(row, n)
		blocks[(row0+n)/block].Add(weights[n*m.K:(n+1)*m.K], row)
	}
}

// stripRows returns how many rows of k weights make a strip.
func (p *Plan) stripRows(k int) int { return max(block, int(p.strip)/k/block*block) }

// cached is the number of weights that stay in a core's cache while they are worked on.
const cached = 1 << 16

// partRows returns how many rows of a strip are in float32 at a time: as many as stay in a core's cache, or more where
// reading goes column by column.
func (p *Plan) partRows(x *rows) int {
	weights := int64(cached)
	if x.t.Transposed {
		weights = p.strip / 8
	}
	return max(1, int(weights)/x.k)
}

// padded copies a float tensor into a wider one.
func (r *Run) padded(it *Item) *job {
	x := it.rows
	size := int64(x.k * x.elements)
	return &job{name: it.Name, rows: x.n, strip: r.stripRows(8 * x.k), cost: size,
		run: func(w *worker, row0, rows int) error {
			weights, err := x.read(w, row0, rows)
			if err != nil {
				return err
			}
			raw := grow(&w.raw, len(weights)*x.elements)
			quant.EncodeFloats(raw, weights, x.dtype)
			return r.out.WriteAt(it.Outputs[0].Name, raw, int64(row0)*size)
		},
		done: func() error { return r.record(it, nil) }}
}

// copied copies the bytes of a tensor, or of the part of one that the item is.
func (r *Run) copied(it *Item) *job {
	const chunk = 1 << 20
	size := bytesOf(it.Outputs[0])
	from := it.Tensor.Offset * int64(it.Outputs[0].DType.Bits()) / 8
	return &job{name: it.Name, rows: max(1, int((size+chunk-1)/chunk)), strip: 1, cost: min(size, chunk),
		run: func(w *worker, row0, _ int) error {
			off := int64(row0) * chunk
			raw := grow(&w.raw, int(min(chunk, size-off)))
			if err := r.Source.Set.ReadAt(it.Tensor.Source, raw, from+off); err != nil {
				return err
			}
			if i := nonFinite(it.Outputs[0].DType, raw); i >= 0 && !r.AllowNonFinite && it.Role != hf.Other && it.Role != hf.Buffer {
				return fmt.Errorf("convert: %s: element %d: %w; --allow-nonfinite copies it as it is", it.Tensor.Name,
					8*(off+int64(i))/int64(it.Outputs[0].DType.Bits()), quant.ErrNonFinite)
			}
			return r.out.WriteAt(it.Outputs[0].Name, raw, off)
		},
		done: func() error { return r.record(it, nil) }}
}

// record notes a finished item in the journal, with what became of it if it is quantized.
func (r *Run) record(it *Item, o *outcome) error {
	crc, err := r.crc(it)
	if err != nil {
		return err
	}
	if o != nil {
		r.journal.mu.Lock()
		r.outcomes[it.Name] = o
		r.journal.mu.Unlock()
	}
	return r.journal.line(entry{Job: it.Name, CRC: crc, Outcome: o})
}

// crc reads back the tensors of an item.
func (r *Run) crc(it *Item) (uint32, error) {
	table := crc32.MakeTable(crc32.Castagnoli)
	buf := make([]byte, 256<<10)
	crc := uint32(0)
	var first int64
	if it.place != nil {
		first = it.place.first
	}
	for _, o := range it.Outputs {
		size := bytesOf(o)
		for off := int64(0); off < size; off += int64(len(buf)) {
			p := buf[:min(int64(len(buf)), size-off)]
			if err := r.out.ReadAt(o.Name, p, first+off); err != nil {
				return 0, err
			}
			crc = crc32.Update(crc, table, p)
		}
	}
	return crc, nil
}

// bytesOf returns the size of a planned tensor, whose shape the plan has checked.
func bytesOf(s safetensors.Spec) int64 {
	n := int64(s.DType.Bits())
	for _, d := range s.Shape {
		n *= int64(d)
	}
	return n / 8
}
