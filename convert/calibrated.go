package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"nibble/calib"
	"nibble/hf"
	"nibble/internal/kernel"
	"nibble/quant"
	"nibble/runtime"
)

// Calibration is what methods that look at the inputs of matrices need.
type Calibration struct {
	Settings    string // what decides the sequences, for the report
	Load        func(ctx context.Context) (*calib.Sequences, error)
	Independent bool // every layer sees float predecessors

	// Kernel is the set of kernels that the pass computes with, one with bits of its own; "": any, as all others have the same. Until the pass
	// ends it is that of the whole process, which may compute nothing else meanwhile.
	Kernel string

	Cache  string            // folder that keeps what matrices of the float model receive; "": none does
	Reused func(file string) // told which file of it was read; may be nil
}

// CalibrationReport says what the build was calibrated with.
type CalibrationReport struct {
	Text      string `json:"text"`
	Sequences int    `json:"sequences"`
	Tokens    int    `json:"tokens"`
	SHA256    string `json:"sha256"` // of the tokens
}

// set fills in what the sequences are.
func (c *CalibrationReport) set(s *calib.Sequences) {
	c.Sequences, c.Tokens, c.SHA256 = len(s.IDs), s.Tokens(), s.Digest()
}

// learns reports whether an item is decided while calibration sequences run through the model: everything quantized in the
// layers, so that what follows sees it, what the head's inputs decide, and norms that are divided.
func (p *Plan) learns(it *Item) bool {
	if p.Calibration == nil || it.Spec == nil {
		return it.out != nil
	}
	return it.Role.Linear() || it.Head || it.Embed && p.tied()
}

// full reports whether second moments are needed, and not their diagonals alone.
func (p *Plan) full() bool {
	return slices.ContainsFunc(p.Items, func(it Item) bool { return it.Spec != nil && it.Spec.Calibrated() })
}

// drifts reports whether what separates the inputs of the quantized model from those of the float one is needed.
func (p *Plan) drifts() bool {
	return !p.Calibration.Independent && slices.ContainsFunc(p.Items, func(it Item) bool { return it.Spec != nil && it.Spec.Method == quant.Best })
}

// calibration is a run's state while sequences run through the model.
type calibration struct {
	*Run
	ctx  context.Context
	pass *calib.Pass // nil: inputs are from an earlier run
	inputs
	kept     *statistics        // nil: nothing is kept
	recorder *calib.Recorder    // of what the pass shows; may be nil
	items    map[string][]*Item // by the tensor of the source that they are rows of
	loss     float64            // of the matrices so far, added up
	count    int
}

// step tells what comes next.
func (c *calibration) step(layer int, stage string) {
	if c.Stage != nil {
		c.Stage(layer, stage, c.loss/float64(max(c.count, 1)))
	}
}

// calibrate quantizes the items that need inputs.
func (r *Run) calibrate(ctx context.Context) error {
	if name := r.Calibration.Kernel; name != "" {
		was, err := kernel.Active()
		if err := cmp.Or(err, kernel.Select(name)); err != nil {
			return err
		}
		defer func() { _ = kernel.Select(was) }() // it was in use
	}
	c := &calibration{Run: r, ctx: ctx, items: map[string][]*Item{}}
	r.scaled = map[*Item]*scaling{}
	for i := range r.Items {
		it := &r.Items[i]
		if it.Spec == nil || !r.learns(it) || !r.owns(it) {
			continue
		}
		name := it.Tensor.Name
		if it.Tensor.PartOf != "" {
			name = it.Tensor.PartOf
		}
		c.items[name] = append(c.items[name], it)
	}
	first, state := r.solvedLayers()
	var err error
	if c.kept, err = r.statistics(); err != nil {
		return err
	}
	replay, err := c.kept.open()
	if err != nil {
		return err
	}
	if replay != nil {
		c.inputs, replay.Step = replay, c.step
		return errors.Join(c.layers(first), replay.Close(), calib.RemoveActivations(r.dir.Path()))
	}
	mode := runtime.A16
	if !r.full() && !r.Calibration.Independent {
		mode = runtime.A8 // faster, and variances come out alike; a cache is of A16
	}
	c.pass, err = calib.NewPass(r.Source, r.sequences.IDs, calib.PassConfig{Dir: r.dir.Path(), Mode: mode, Threads: r.Threads,
		Full: r.full(), Drift: r.drifts(), Resume: first > 0, Layer: first, Step: c.step})
	if err != nil {
		return err
	}
	c.inputs = c.pass
	err = c.passes(first, state)
	if err != nil && ctx.Err() != nil {
		return errors.Join(err, c.pass.Leave())
	}
	return errors.Join(err, c.pass.Close())
}

// layerJob is the journal's name of a layer.
func layerJob(i int) string { return fmt.Sprintf("layer %d", i) }

// solvedLayers returns how many layers an earlier run has taken the sequences through, and the checksum of what the last of
// them made. Those whose matrices are not all in the output count as not done, and so do those behind them.
func (r *Run) solvedLayers() (layers int, state uint32) {
	for i := range r.Source.Arch.Layers {
		e, ok := r.done[layerJob(i)]
		if !ok {
			return layers, state
		}
		for j := range r.Items {
			if it := &r.Items[j]; it.Tensor.Layer == i && r.learns(it) && r.owns(it) && !r.finished(it) {
				return layers, state
			}
		}
		layers, state = i+1, e.CRC
	}
	return layers, state
}

// passes takes the sequences through all layers from the first that is not done. What the layers receive is kept if all of them are
// seen.
func (c *calibration) passes(first int, state uint32) error {
	if first > 0 && c.checksum() != state {
		first = 0 // what the interrupted run left is not whole
	}
	if first == 0 {
		if err := c.pass.Begin(); err != nil {
			return err
		}
	}
	var err error
	if c.recorder, err = c.kept.recording(first == 0 && c.share == nil); err != nil {
		return err
	}
	if err = c.layers(first); c.recorder != nil {
		err = errors.Join(err, c.recorder.Close(err))
	}
	return err
}

// layers shows the inputs of all layers from the first that is not done.
func (c *calibration) layers(first int) error {
	for i := range c.Source.Arch.Layers {
		if i < first {
			for j := range c.Items {
				if it := &c.Items[j]; it.Tensor.Layer == i && c.learns(it) && c.owns(it) && c.Progress != nil {
					c.Resumed++
					c.Progress(it.Name, c.cost(it))
				}
			}
			continue
		}
		mine, later := c.layerShare(i)
		if !mine && !later && c.recorder == nil {
			return nil
		}
		var solve calib.Solve
		if mine {
			solve = c.solve
		}
		if err := c.Layer(c.ctx, i, c.recording(solve)); err != nil {
			return err
		}
		if err := c.journal.line(entry{Job: layerJob(i), CRC: c.checksum()}); err != nil {
			return err
		}
	}
	for i := range c.Items {
		if it := &c.Items[i]; it.Spec != nil && c.learns(it) && c.owns(it) && it.Tensor.Layer < 0 {
			return c.Head(c.ctx, []hf.Tensor{it.Tensor}, c.recording(c.solve))
		}
	}
	if c.recorder != nil {
		return c.Head(c.ctx, []hf.Tensor{headTensor(c.Source)}, c.recording(nil))
	}
	return nil
}

// recording is a solver that keeps what it is shown, if anything is kept.
func (c *calibration) recording(solve calib.Solve) calib.Solve {
	if c.recorder == nil {
		return solve
	}
	return c.recorder.Recording(solve)
}

// checksum is that of the residual streams, 0 without a pass.
func (c *calibration) checksum() (sum uint32) {
	if c.pass == nil {
		return 0
	}
	for _, b := range c.pass.State() {
		sum = crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), b)
	}
	return sum
}

// solve quantizes the matrices that an input belongs to, and returns them in the form in which the rest of the model sees
// them.
func (c *calibration) solve(in *calib.Input) (map[string]quant.Linear, error) {
	var list []*solution
	linears := map[string]quant.Linear{}
	in, err := c.scale(in)
	if err != nil {
		return nil, err
	}
	factors := newFactors(in, c.Threads)
	for _, t := range in.Tensors {
		for _, it := range c.items[t.Name] {
			s, err := c.prepare(in, factors, it)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", it.Name, err)
			}
			list = append(list, s)
		}
	}
	var jobs []*job
	for _, s := range list {
		jobs = append(jobs, c.solving(s)...)
	}
	if err := run(c.ctx, jobs, c.Threads, nil); err != nil {
		return nil, err
	}
	jobs = jobs[:0]
	for _, s := range list {
		if s.settle() {
			jobs = append(jobs, c.solving(s)...)
		}
	}
	if err := run(c.ctx, jobs, c.Threads, nil); err != nil {
		return nil, err
	}
	jobs = jobs[:0]
	for _, s := range list {
		if s.Loss != nil {
			c.loss += *s.Loss
			c.count++
		}
		jobs = append(jobs, c.storing(s))
	}
	if err := run(c.ctx, jobs, c.Threads, c.Progress); err != nil {
		return nil, err
	}
	if c.Calibration.Independent || in.Layer < 0 {
		return nil, nil
	}
	for _, t := range in.Tensors {
		if l := whole(&t, list); l != nil {
			linears[t.Name] = l
		}
	}
	return linears, nil
}

// whole returns the quantized form of a tensor of the source; nil if some of its rows stay in float, or are quantized in
// another way than the rest: the sequences then go through the float matrix.
func whole(t *hf.Tensor, list []*solution) quant.Linear {
	var parts []*quant.Matrix
	rows := 0
	for _, s := range list {
		if s.it.Tensor.Name != t.Name && s.it.Tensor.PartOf != t.Name {
			continue
		}
		m := s.it.rows.unpadded(s.m)
		if len(parts) > 0 && (m.Bits != parts[0].Bits || m.Group != parts[0].Group || m.Zero != parts[0].Zero) {
			return nil
		}
		parts = append(parts, m)
		rows += m.N
	}
	if rows != t.Out() {
		return nil
	}
	return quant.InMemory(parts...)
}

// loadSequences loads the calibration sequences.
func (r *Run) loadSequences(ctx context.Context) (err error) {
	if r.Calibration == nil {
		return nil
	}
	if r.sequences, err = r.Calibration.Load(ctx); err != nil {
		return err
	}
	if r.Loaded != nil {
		r.Loaded(r.sequences)
	}
	widest := 0
	for i := range r.Items {
		if it := &r.Items[i]; r.learns(it) && it.Spec != nil && it.Spec.Calibrated() {
			widest = max(widest, it.K)
		}
	}
	return calib.Enough(r.sequences.Tokens(), widest)
}
