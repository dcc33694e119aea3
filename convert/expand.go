package convert

import (
	"context"
	"fmt"

	"nibble/internal/stage"
	"nibble/quant"
	"nibble/safetensors"
)

// Run writes the plain checkpoint to the folder out, and returns what every quantized matrix lost if the original is
// known.
func (x *Expansion) Run(ctx context.Context, out string, mode stage.Mode, progress Progress) ([]*Loss, error) {
	if x.Against != nil {
		if err := sameModel(x.Build, x.Against); err != nil {
			return nil, err
		}
	}
	unchanged, err := Watch(x.Build)
	if err != nil {
		return nil, err
	}
	if err := room(out, x.Bytes()); err != nil {
		return nil, err
	}
	dir, _, err := stage.Open(out, mode)
	if err != nil {
		return nil, err
	}
	losses, err := x.run(ctx, dir, progress, unchanged)
	if err != nil {
		dir.Abort()
		if ctx.Err() != nil {
			err = ErrInterrupted
		}
		return nil, err
	}
	return losses, nil
}

func (x *Expansion) run(ctx context.Context, dir *stage.Dir, progress Progress, unchanged func() error) ([]*Loss, error) {
	w, err := safetensors.Create(dir.Path(), x.Weights)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	var jobs []*job
	var losses []*Loss
	folded := 0
	for i := range x.pieces {
		p := &x.pieces[i]
		if p.linear == nil {
			jobs = append(jobs, x.float(p, w))
			if x.Against != nil && x.decoded(p) {
				loss, err := x.loss(p)
				if err != nil {
					return nil, err
				}
				losses = append(losses, &loss.Loss)
				jobs = append(jobs, x.measure(p, loss))
			}
			continue
		}
		loss, err := x.loss(p)
		if err != nil {
			return nil, err
		}
		if loss != nil {
			losses = append(losses, &loss.Loss)
		} else if x.Against != nil {
			folded++
		}
		jobs = append(jobs, x.expand(p, w, loss))
	}
	if folded > 0 {
		x.Notes = append(x.Notes, fmt.Sprintf("%d matrices stand for multiples of the original's weights and are not compared with it", folded))
	}
	if err := run(ctx, jobs, x.Threads, progress); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := writeFiles(dir.Path(), x.Build.Model, x.texts); err != nil {
		return nil, err
	}
	if err := unchanged(); err != nil {
		return nil, err
	}
	return losses, dir.Commit()
}

// decoded reports whether a float tensor may be what was made of blocks in a GGUF file.
func (x *Expansion) decoded(p *piece) bool {
	return x.Build.Origin != nil && p.tensor.Role.Matrix()
}

// measure compares a matrix that was decoded with the original.
func (x *Expansion) measure(p *piece, loss *lossJob) *job {
	n, k := p.tensor.Out(), p.tensor.In()
	return &job{name: p.tensor.Module() + " against the original", rows: n, strip: max(block, 8*cached/k/block*block), done: loss.finish,
		run: func(w *worker, row0, rows int) error {
			from, err := newRows(x.Build.Model, p.tensor)
			if err != nil {
				return err
			}
			var own worker
			got, err := from.read(&own, row0, rows)
			if err != nil {
				return err
			}
			want, err := loss.rows.read(w, row0, rows)
			if err != nil {
				return err
			}
			for i := range rows {
				loss.blocks[(row0+i)/block].Add(want[i*k:(i+1)*k], got[i*k:(i+1)*k])
			}
			return nil
		}}
}

// float converts a float tensor, or copies one that is not.
func (x *Expansion) float(p *piece, w *safetensors.Writer) *job {
	s, _ := x.Build.Set.Lookup(p.tensor.Source)
	from := int64(s.DType.Bits())
	to := from
	if s.DType.IsFloat() {
		to = int64(x.DType.Bits())
	}
	const chunk = 1 << 20 // elements
	n := p.tensor.Elements()
	return &job{name: p.tensor.Name, rows: max(1, int((n+chunk-1)/chunk)), strip: 1, cost: min(n, chunk) * from / 8,
		run: func(k *worker, row0, _ int) error {
			first := int64(row0) * chunk
			count := min(chunk, n-first)
			raw := grow(&k.raw, int(count*from/8))
			if err := x.Build.Set.ReadAt(p.tensor.Source, raw, (p.tensor.Offset+first)*from/8); err != nil {
				return err
			}
			if s.DType.IsFloat() && s.DType != x.DType {
				floats := grow(&k.floats, int(count))
				quant.DecodeFloats(floats, raw, s.DType)
				raw = grow(&k.raw, int(count*to/8))
				quant.EncodeFloats(raw, floats, x.DType)
			}
			return w.WriteAt(p.target, raw, (p.at+first)*to/8)
		}}
}

// expand dequantizes a matrix strip by strip.
func (x *Expansion) expand(p *piece, w *safetensors.Writer, loss *lossJob) *job {
	n, k := p.linear.Shape()
	weights := maxStrip / 2 // the plain weights take memory, too
	if p.tensor.Transposed {
		weights /= 8 // they are all in float32 at once
	}
	strip, part := max(block, weights/k/block*block), max(1, cached/k)
	j := &job{name: p.tensor.Module(), rows: n, strip: strip, cost: int64(k) / 2}
	j.run = func(wk *worker, row0, rows int) error {
		m, err := p.linear.Rows(row0, rows)
		if err != nil {
			return err
		}
		defer m.Recycle()
		if p.tensor.Transposed {
			if loss != nil {
				if err := loss.add(wk, m, row0); err != nil {
					return err
				}
			}
			return x.columns(p, w, wk, m, row0, n)
		}
		for at := 0; at < rows; at += part {
			if err := x.part(p, w, wk, m.Part(at, min(part, rows-at)), row0+at, loss); err != nil {
				return err
			}
		}
		return nil
	}
	if loss != nil {
		j.done = loss.finish
	}
	return j
}

// part stores a few rows of a strip, after it has measured them against the original.
func (x *Expansion) part(p *piece, w *safetensors.Writer, wk *worker, m *quant.Matrix, row0 int, loss *lossJob) error {
	if loss != nil {
		if err := loss.add(wk, m, row0); err != nil {
			return err
		}
	}
	size := x.DType.Bits() / 8
	row, raw := grow(&wk.row, m.K), grow(&wk.raw, m.N*m.K*size)
	for i := range m.N {
		m.DequantizeRow(row, i)
		quant.EncodeFloats(raw[i*m.K*size:], row, x.DType)
	}
	return w.WriteAt(p.target, raw, (p.at+int64(row0)*int64(m.K))*int64(size))
}

// columns stores rows of a matrix that its architecture keeps as [in, out].
func (x *Expansion) columns(p *piece, w *safetensors.Writer, wk *worker, m *quant.Matrix, row0, out int) error {
	size := int64(x.DType.Bits() / 8)
	all := grow(&wk.floats, m.N*m.K)
	for i := range m.N {
		m.DequantizeRow(all[i*m.K:(i+1)*m.K], i)
	}
	line, raw := grow(&wk.row, m.N), grow(&wk.raw, m.N*int(size))
	for k := range m.K {
		for i := range line {
			line[i] = all[i*m.K+k]
		}
		quant.EncodeFloats(raw, line, x.DType)
		if err := w.WriteAt(p.target, raw, (p.at+int64(k)*int64(out)+int64(row0))*size); err != nil {
			return err
		}
	}
	return nil
}
