package convert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"nibble/calib"
	"nibble/gguf"
	codec "nibble/gguf/block"
	"nibble/hf"
	"nibble/internal/stage"
	"nibble/quant"
	"nibble/runtime"
)

// GGUFRun is one execution of a plan.
type GGUFRun struct {
	*GGUFPlan
	Overwrite bool
	Progress  Progress                 // may be nil
	Loaded    func(s *calib.Sequences) // told what the calibration text gave; may be nil
	Stage     Stage                    // told what calibration is about; may be nil

	dir       *stage.Dir
	out       *gguf.Writer
	noise     map[string][]quant.Noise // by tensor, one for each of its sources
	sequences *calib.Sequences
}

// Quantize writes the file and the report. After an error nothing is left of them.
func (r *GGUFRun) Quantize(ctx context.Context) (*Report, error) {
	if err := r.checkWeights(); err != nil {
		return nil, err
	}
	if err := room(r.Out, r.Bytes()); err != nil {
		return nil, err
	}
	mode := stage.Restart
	if r.Overwrite {
		mode = stage.Overwrite
	}
	var err error
	if r.dir, _, err = stage.Open(r.Out, mode); err != nil {
		return nil, err
	}
	report, err := r.quantize(ctx)
	if err != nil {
		r.dir.Abort()
		if ctx.Err() != nil {
			err = ErrInterrupted
		}
		return nil, err
	}
	return report, nil
}

func (r *GGUFRun) quantize(ctx context.Context) (*Report, error) {
	if r.Calibration != nil {
		if err := r.calibrate(ctx); err != nil {
			return nil, err
		}
	}
	var err error
	if r.out, err = gguf.Create(r.dir.Path(), r.File); err != nil {
		return nil, err
	}
	defer r.out.Close()
	r.noise = map[string][]quant.Noise{}
	var jobs []*job
	for i := range r.Tensors {
		jobs = append(jobs, r.jobs(&r.Tensors[i])...)
	}
	if err := run(ctx, jobs, r.Threads, r.Progress); err != nil {
		return nil, err
	}
	if err := r.out.Close(); err != nil {
		return nil, err
	}
	sums, err := r.hashes(ctx)
	if err != nil {
		return nil, err
	}
	report := r.report(r.noise, sums)
	report.Time = now()
	if r.sequences != nil {
		report.Calibration.set(r.sequences)
	}
	raw, err := report.encode(r.Files[1].Size)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(r.dir.Path(), r.Files[1].Name), raw, 0o666); err != nil {
		return nil, err
	}
	return report, r.dir.CommitFiles(r.Files[0].Name, r.Files[1].Name)
}

// jobs lists the work on a tensor: one job for each of its sources.
func (r *GGUFRun) jobs(t *GGUFTensor) []*job {
	if len(t.Sources) == 0 {
		return []*job{{name: t.Name, rows: 1, strip: 1, run: func(*worker, int, int) error { return r.store(t, t.Values, nil, 0) }}}
	}
	var jobs []*job
	if t.Type.Size() > 1 {
		r.noise[t.Name] = make([]quant.Noise, len(t.Sources))
	}
	for i, s := range t.Sources {
		if len(s.Shape) < 2 {
			jobs = append(jobs, r.vector(t, s))
			continue
		}
		jobs = append(jobs, r.matrix(t, s, i))
	}
	return jobs
}

// store encodes elements of a tensor at byte off.
func (r *GGUFRun) store(t *GGUFTensor, values, weights []float32, off int64) error {
	raw := make([]byte, len(values)/t.Type.Size()*t.Type.Bytes())
	if err := t.Type.Encode(raw, values, weights); err != nil {
		return err
	}
	return r.out.WriteAt(t.Name, raw, off)
}

// vector is the job of a vector.
func (r *GGUFRun) vector(t *GGUFTensor, s *hf.Tensor) *job {
	x, _ := r.Source.Set.Lookup(s.Source)
	size := int64(x.DType.Bits() / 8)
	n := int(s.Elements())
	return &job{name: s.Name, rows: 1, strip: 1, cost: int64(n) * size, run: func(w *worker, _, _ int) error {
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
		return r.store(t, values, nil, 0)
	}}
}

// matrix is the job of a matrix, or of expert number index of a stack.
func (r *GGUFRun) matrix(t *GGUFTensor, s *hf.Tensor, index int) *job {
	n, k := s.Out(), s.In()
	unit := block // rows that stay together
	if t.Heads > 0 {
		unit = n / t.Heads
	}
	x, _ := r.Source.Set.Lookup(s.Source)
	j := &job{name: s.Name, rows: n, strip: max(1, ggufStrip/k/unit) * unit, cost: int64(k) * int64(x.DType.Bits()) / 8}
	if s.Transposed {
		j.strip = max(1, 4*ggufStrip/k/unit) * unit // a strip of columns is read in short pieces
	}
	var weights []float32
	if w := r.Weights[t.Name]; w != nil {
		weights = w[index*k : (index+1)*k]
	}
	strips := make([]quant.Noise, (n+j.strip-1)/j.strip)
	j.run = func(w *worker, row0, count int) error {
		from, err := newRows(r.Source.Model, *s)
		if err != nil {
			return err
		}
		values, err := from.read(w, row0, count)
		if err != nil {
			return err
		}
		size := k / t.Type.Size() * t.Type.Bytes()
		raw, back := make([]byte, count*size), make([]float32, k)
		for i := range count {
			at := t.Row(row0+i, n) - row0
			row, to := values[at*k:(at+1)*k], raw[i*size:(i+1)*size]
			if err := t.Type.Encode(to, row, columns(t.Type, weights)); err != nil {
				return fmt.Errorf("convert: %s: row %d: %w", s.Name, row0+at, err)
			}
			if t.Type.Size() > 1 {
				if err := t.Type.Decode(back, to); err != nil {
					return err
				}
				strips[row0/j.strip].Add(row, back)
			}
		}
		return r.out.WriteAt(t.Name, raw, (int64(index)*int64(n)+int64(row0))*int64(size))
	}
	j.done = func() error {
		for _, x := range strips {
			if noise := r.noise[t.Name]; noise != nil {
				noise[index].Merge(x)
			}
		}
		return nil
	}
	return j
}

// ggufStrip is about how many weights are read at a time.
const ggufStrip = 1 << 18

// columns returns the weights of columns for a type that is searched.
func columns(t codec.Type, weights []float32) []float32 {
	if t.Size() == 1 {
		return nil
	}
	return weights
}

// calibrate runs the sequences through the float model, and sets the weights of the columns to the mean squares of what
// enters them.
func (r *GGUFRun) calibrate(ctx context.Context) (err error) {
	if r.sequences, err = r.Calibration.Load(ctx); err != nil {
		return err
	}
	if r.Loaded != nil {
		r.Loaded(r.sequences)
	}
	pass, err := calib.NewPass(r.Source, r.sequences.IDs, calib.PassConfig{Dir: r.dir.Path(), Mode: runtime.A16, Threads: r.Threads,
		Step: func(layer int, name string) {
			if r.Stage != nil {
				r.Stage(layer, name, 0)
			}
		}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pass.Close()) }()
	squares := map[string][]float32{} // by tensor of the source
	learn := func(in *calib.Input) (map[string]quant.Linear, error) {
		for _, t := range in.Tensors {
			w := make([]float32, len(in.Plain.Diag))
			for i, x := range in.Plain.Diag {
				w[i] = float32(x)
			}
			squares[t.Name] = w
		}
		return nil, nil
	}
	if err := pass.Begin(); err != nil {
		return err
	}
	for i := range r.Source.Arch.Layers {
		if err := pass.Layer(ctx, i, learn); err != nil {
			return err
		}
	}
	head := r.Source.Row(hf.Head)
	if head == nil {
		head = r.Source.Row(hf.Embedding)
	}
	if err := pass.Head(ctx, []hf.Tensor{*head}, learn); err != nil {
		return err
	}
	r.Weights = map[string][]float32{}
	for i := range r.Tensors {
		t := &r.Tensors[i]
		var w []float32
		for _, s := range t.Sources {
			w = append(w, squares[s.Name]...)
		}
		if len(t.Shape) > 1 && len(w) == t.Shape[len(t.Shape)-1]*len(t.Sources) {
			r.Weights[t.Name] = w
		}
	}
	return nil
}
