package convert

import (
	"context"
	"errors"
	"fmt"

	"nibble/calib"
	"nibble/fidelity"
	"nibble/gptq"
	"nibble/hf"
	"nibble/quant"
	"nibble/runtime"
)

// SensitivityRun is one execution of a plan.
type SensitivityRun struct {
	*SensitivityPlan
	Dir      string                   // for the activations of the calibration sequences
	Progress Progress                 // may be nil
	Loaded   func(s *calib.Sequences) // told what the calibration text gave; may be nil
	Stage    Stage                    // told what comes next; may be nil

	ctx     context.Context
	named   map[string]*linear // by the tensor of the source
	streams *fidelity.Streams  // nil: KL is not measured
}

// Run takes the calibration sequences through the float model once. What matrices receive is the same for all candidates. To
// measure, behind every layer the streams of all changes so far go through it, and one for each of its matrices begins.
func (r *SensitivityRun) Run(ctx context.Context) (*Sensitivity, error) {
	r.ctx, r.named = ctx, map[string]*linear{}
	for _, x := range r.all() {
		r.named[x.Tensor.Name] = x
	}
	model, err := ModelDigest(r.Source)
	if err != nil {
		return nil, err
	}
	q, err := r.Calibration.Load(ctx)
	if err != nil {
		return nil, err
	}
	if r.Loaded != nil {
		r.Loaded(q)
	}
	text := r.text(q.IDs)
	if text != nil {
		if r.streams, err = fidelity.NewStreams(r.Source, text, r.Threads); err != nil {
			return nil, err
		}
		defer r.streams.Close()
	}
	if err := r.measureEnds(); err != nil {
		return nil, err
	}
	var kept *statistics
	if r.Calibration.Cache != "" {
		kept = &statistics{Calibration: r.Calibration, src: r.Source, model: model, tokens: q.Digest(), kind: calib.Moments}
	}
	if err := r.pass(q, kept); err != nil {
		return nil, err
	}
	return r.sensitivity(model, q, text), nil
}

// pass shows what matrices receive, as an earlier run has left it or to later ones.
func (r *SensitivityRun) pass(q *calib.Sequences, kept *statistics) error {
	replay, err := kept.open()
	if err != nil {
		return err
	}
	if replay != nil {
		replay.Step = r.step
		return errors.Join(r.layers(replay, r.solve), replay.Close())
	}
	pass, err := calib.NewPass(r.Source, q.IDs, calib.PassConfig{Dir: r.Dir, Mode: runtime.A16, Threads: r.Threads, Full: true, Step: r.step})
	if err != nil {
		return err
	}
	solve := r.solve
	recorder, err := kept.recording(true)
	if err == nil {
		err = pass.Begin()
	}
	if recorder != nil {
		solve = recorder.Recording(solve)
	}
	if err == nil {
		err = r.layers(pass, solve)
	}
	if recorder != nil {
		err = errors.Join(err, recorder.Close(err))
	}
	return errors.Join(err, pass.Close())
}

func (r *SensitivityRun) step(layer int, stage string) {
	if r.Stage != nil {
		r.Stage(layer, stage, 0)
	}
}

// text returns the beginnings of so many sequences that the tokens to measure on are together; nil for none.
func (r *SensitivityRun) text(ids [][]int32) (text [][]int32) {
	for left := r.Tokens; left > 0 && len(ids) > 0; ids = ids[1:] {
		s := ids[0][:min(len(ids[0]), measuredLength, left)]
		left -= len(s)
		text = append(text, s)
	}
	return text
}

func (r *SensitivityRun) layers(from inputs, solve calib.Solve) error {
	for i := range r.Source.Arch.Layers {
		if err := from.Layer(r.ctx, i, solve); err != nil {
			return err
		}
		if r.streams != nil {
			if err := r.measure(i); err != nil {
				return err
			}
		}
	}
	head := headTensor(r.Source)
	if r.head != nil {
		head = r.head.Tensor
	}
	if err := from.Head(r.ctx, []hf.Tensor{head}, solve); err != nil || r.streams == nil {
		return err
	}
	r.step(-1, "head")
	kl, err := r.streams.Divergences(r.ctx, func(done, all int) {
		if c := r.headCost(); r.Progress != nil {
			r.Progress(headJob, c*int64(done)/int64(all)-c*int64(done-1)/int64(all))
		}
	})
	if err != nil {
		return err
	}
	for _, x := range append([]*linear{r.embed, r.head}, r.linears...) { // in the order of the changes
		if x != nil && len(x.candidates) > 0 {
			x.kl, kl = kl[0], kl[1:]
		}
	}
	return nil
}

// solve takes the losses of the candidates of the matrices that an input belongs to. It replaces nothing.
func (r *SensitivityRun) solve(in *calib.Input) (map[string]quant.Linear, error) {
	forms := map[*calib.Moment]*gptq.Quadratic{}
	var jobs []*job
	var list []*linear
	for _, t := range in.Tensors {
		x := r.named[t.Name]
		if x == nil || len(x.candidates) == 0 {
			continue
		}
		list = append(list, x)
		x.Spec, x.segments, x.weights = &x.candidates[x.measured].spec, r.divide(x, in), nil
		for i := range x.segments {
			s := &x.segments[i]
			if forms[s.moment] == nil {
				forms[s.moment] = form(in, s.moment, r.Threads)
			}
			d := s.weigh(&x.Item)
			if x == r.head {
				d = nil
			}
			x.weights = append(x.weights, d)
			jobs = append(jobs, x.proxy(i, forms[s.moment]))
		}
	}
	if err := run(r.ctx, jobs, r.Threads, nil); err != nil {
		return nil, err
	}
	for _, x := range list {
		x.settle()
		for i := range x.segments {
			x.segments[i].moment = nil // its weights are all that measuring needs
		}
		if r.streams == nil && r.Progress != nil {
			r.Progress(x.Name, x.cost())
		}
	}
	return nil, nil
}

// form is what errors are judged by.
func form(in *calib.Input, m *calib.Moment, threads int) *gptq.Quadratic {
	if in.Diagonal || m.Second == nil {
		return gptq.NewDiagonal(m.Diag)
	}
	return gptq.NewQuadratic(m.Second, m.K, threads)
}

// divide divides a matrix into rows whose inputs are weighed alike: those of k and v by the attention that tokens receive.
func (r *SensitivityRun) divide(x *linear, in *calib.Input) []segment {
	a := r.Source.Arch
	switch q := a.Heads * a.HeadDim; {
	case x.Role == hf.QKV && in.Received != nil:
		return []segment{{rows: q, moment: in.Plain}, {row0: q, rows: x.N - q, moment: in.Received}}
	case (x.Role == hf.K || x.Role == hf.V) && in.Received != nil:
		return []segment{{rows: x.N, moment: in.Received}}
	}
	return []segment{{rows: x.N, moment: in.Plain}}
}

// proxy is the job that takes the losses of the sampled rows of a segment, evenly spaced, all candidates on the same rows.
func (x *linear) proxy(i int, form *gptq.Quadratic) *job {
	s, d := &x.segments[i], x.weights[i]
	n := (min(sensitivityRows, x.N)*s.rows + x.N - 1) / x.N
	// Sums of strips, so that they are added up in one order: of w H wᵀ, then of e H eᵀ of every candidate.
	first := len(x.sums)
	x.sums = append(x.sums, make([][]float64, (n+block-1)/block)...)
	return &job{name: x.Name, rows: n, strip: block, run: func(w *worker, row0, count int) error {
		weights, e := make([]float32, count*x.K), make([]float32, count*x.K)
		for j := range count {
			one, err := x.rows.read(w, s.row0+(row0+j)*s.rows/n, 1)
			if err != nil {
				return err
			}
			copy(weights[j*x.K:], one)
		}
		list := []float64{form.Sum(weights, count)}
		for _, c := range x.candidates {
			m := c.empty(count, x.K)
			c.solve(m, weights, d)
			for j := range count {
				row := e[j*x.K : (j+1)*x.K]
				m.DequantizeRow(row, j)
				for k, v := range weights[j*x.K : (j+1)*x.K] {
					row[k] = v - row[k]
				}
			}
			m.Recycle()
			list = append(list, form.Sum(e, count))
		}
		x.sums[first+row0/block] = list
		return nil
	}}
}

// settle adds up the losses.
func (x *linear) settle() {
	energy, losses := 0.0, make([]float64, len(x.candidates))
	for _, list := range x.sums {
		energy += list[0]
		for c, v := range list[1:] {
			losses[c] += v
		}
	}
	for c := range x.candidates {
		if y := &x.candidates[c]; energy > 0 {
			y.loss, y.known = losses[c]/energy, true
		}
	}
}

// measure takes the streams through a layer, and begins one for each of its matrices, quantized as the candidate to measure.
func (r *SensitivityRun) measure(layer int) error {
	r.step(layer, "changes")
	if err := r.streams.Enter(r.ctx, layer); err != nil {
		return err
	}
	for _, x := range r.linears {
		if x.Layer != layer {
			continue
		}
		if len(x.candidates) > 0 {
			m, err := x.whole(r.ctx, r.Threads)
			if err != nil {
				return err
			}
			if err := r.streams.Change(r.ctx, map[string]quant.Linear{x.Tensor.Name: quant.InMemory(m)}); err != nil {
				return fmt.Errorf("%s: %w", x.Name, err)
			}
			m.Recycle()
			x.weights = nil
		}
		if r.Progress != nil {
			r.Progress(x.Name, x.cost())
		}
	}
	return nil
}

// whole quantizes all rows as the candidate to measure.
func (x *linear) whole(ctx context.Context, threads int) (*quant.Matrix, error) {
	c := &x.candidates[x.measured]
	m := c.empty(x.N, x.K)
	var jobs []*job
	for i := range x.segments {
		s, d := &x.segments[i], x.weights[i]
		jobs = append(jobs, &job{name: x.Name, rows: s.rows, strip: solveRows, run: func(w *worker, row0, rows int) error {
			weights, err := x.rows.read(w, s.row0+row0, rows)
			if err != nil {
				return err
			}
			c.solve(m.Part(s.row0+row0, rows), weights, d)
			return nil
		}})
	}
	return m, run(ctx, jobs, threads, nil)
}
