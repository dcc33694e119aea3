package convert

import (
	"slices"
	"strings"

	"nibble/awq"
	"nibble/calib"
	"nibble/hf"
	"nibble/quant"
	"nibble/safetensors"
)

// fold is a place where matrices receive x/s instead of x, and have their columns multiplied by s: what makes x is divided by it.
// That is
//
//	a norm, whose weights are divided. Everything that reads the norm is a matrix of the build; not where a router or a gate of
//	heads reads it too, or a matrix stays in float, or the norm has a bias.
//	v, in front of o, whose rows are divided: the attention of a head mixes them with weights that sum to one. Query heads with
//	one key/value head have the same scales. Where q, k and v are one matrix, it is the last rows.
//	up, in front of down, whose rows are divided, in MLPs that multiply its outputs by those of a gate.
//
// Matrices with a bias are not divided.
type fold struct {
	from  *Item // the norm, or the matrix with v or up
	first int   // of its rows
	width int   // rows of it that are divided, or weights of the norm
	to    []*Item
}

// scaling is what an item's weights are multiplied and divided by; nil for ones.
type scaling struct{ columns, rows []float32 } // [K], [N]

// fewScaled is below how many tokens of an expert nothing is scaled.
const fewScaled = 256

// fold finds the places, and links items with them.
func (p *Plan) fold() {
	if p.Calibration == nil {
		return
	}
	readers, biased, found := map[string][]*Item{}, map[string]bool{}, false
	for i := range p.Items {
		it := &p.Items[i]
		if it.Tensor.Input != "" {
			readers[it.Tensor.Input] = append(readers[it.Tensor.Input], it)
		}
		if it.Role == hf.Bias {
			biased[strings.TrimSuffix(it.Tensor.Name, ".bias")] = true
		}
	}
	for i := range p.Items {
		it := &p.Items[i]
		module := it.Tensor.Module()
		if it.Tensor.PartOf != "" {
			module = strings.TrimSuffix(it.Tensor.PartOf, ".weight")
		}
		f := &fold{from: it, width: it.N, to: readers[module]}
		switch a := p.Source.Arch; it.Role {
		case hf.AttnNorm, hf.MLPNorm, hf.FinalNorm:
			f.width = it.Tensor.Shape[0]
			if d := p.dtype(it); a.LayerNorm || d != safetensors.BF16 && d != safetensors.F16 && d != safetensors.F32 {
				continue
			}
		case hf.V, hf.Up:
		case hf.QKV:
			f.width = a.KVHeads * a.HeadDim
			f.first = it.N - f.width
		case hf.GateUp:
			f.width /= 2
			f.first = f.width
		default:
			continue
		}
		if it.N > 0 && (!p.scales(it) || biased[module] || biased[it.Tensor.Module()]) || len(f.to) == 0 ||
			slices.ContainsFunc(f.to, func(x *Item) bool { return !p.scales(x) }) {
			continue
		}
		it.out, found = f, true
		for _, x := range f.to {
			x.in = f
		}
	}
	if found {
		p.Notes = append(p.Notes, "matrices marked folded, and the norms before them, are scaled against one another: "+
			"their weights stand for multiples of the source's, outputs compare as they are")
	}
}

// dtype is the type in which the source has an item.
func (p *Plan) dtype(it *Item) safetensors.DType {
	x, _ := p.Source.Set.Lookup(it.Tensor.Source)
	return x.DType
}

// scales reports whether an item is a matrix that may be scaled: by its method, and as a whole, since sequences go through the
// float form of one whose parts are not alike.
func (p *Plan) scales(it *Item) bool {
	if it.Spec == nil || !it.Spec.Scales() || !p.learns(it) {
		return false
	}
	if it.Tensor.PartOf == "" {
		return true
	}
	for i := range p.Items {
		x := &p.Items[i]
		if x.Tensor.PartOf == it.Tensor.PartOf &&
			(x.Spec == nil || x.Spec.Bits != it.Spec.Bits || x.Spec.Group != it.Spec.Group || x.Spec.Zero != it.Spec.Zero) {
			return false
		}
	}
	return true
}

// scale decides the scales of all places that an input belongs to, and returns the input as the scaled model has it.
func (c *calibration) scale(in *calib.Input) (*calib.Input, error) {
	var f *fold
	for _, t := range in.Tensors {
		for _, it := range c.items[t.Name] {
			if it.out != nil {
				if err := c.divideRows(in, it.out); err != nil {
					return nil, err
				}
			}
			if it.in != nil {
				f = it.in
			}
		}
	}
	if f == nil {
		return in, nil
	}
	norm := f.from.Spec == nil
	if norm {
		if err := c.divideNorm(in, f); err != nil {
			return nil, err
		}
	}
	s := c.scaled[f.to[0]]
	if s == nil || s.columns == nil {
		return in, nil
	}
	scaled := *in
	if !norm && !c.Calibration.Independent { // behind divided rows the sequences have it already
		scaled.Plain = in.Plain.ScaledTarget(s.columns)
		return &scaled, nil
	}
	scaled.Plain = in.Plain.Scaled(s.columns)
	if in.Received != nil {
		scaled.Received = in.Received.Scaled(s.columns)
	}
	return &scaled, nil
}

// divideRows decides the scales of what o or down receives, by what it receives as yet.
func (c *calibration) divideRows(in *calib.Input, f *fold) error {
	m, err := in.Ahead()
	if err != nil || m.Tokens < fewScaled {
		return err
	}
	p := newProblems(&calib.Input{Plain: m}, c.Threads)
	variance, err := p.variance(f)
	if err != nil {
		return err
	}
	a, columns := c.Source.Arch, func(s []float32) []float32 { return s }
	if f.to[0].Role == hf.O {
		variance = awq.Share(variance, a.KVHeads, a.HeadDim)
		columns = func(s []float32) []float32 { return awq.Spread(s, a.Heads, a.KVHeads, a.HeadDim) }
	}
	candidates := make([][]float32, awq.Steps)
	for i := range candidates {
		candidates[i] = columns(awq.Candidate(variance, i))
	}
	best, err := c.choose(p, f, candidates)
	if err != nil || best == 0 {
		return err
	}
	c.multiply(f, candidates[best])
	rows := ones(f.from.N)
	copy(rows[f.first:], awq.Candidate(variance, best))
	c.scalingOf(f.from).rows = rows
	return nil
}

// divideNorm decides the scales of what a norm makes, and writes the norm.
func (c *calibration) divideNorm(in *calib.Input, f *fold) error {
	t, d := &f.from.Tensor, c.dtype(f.from)
	size := int64(d.Bits() / 8)
	raw, w := make([]byte, int64(f.width)*size), make([]float32, f.width)
	if err := c.Source.Set.ReadAt(t.Source, raw, t.Offset*size); err != nil {
		return err
	}
	quant.DecodeFloats(w, raw, d)
	best, candidates, folded := 0, make([][]float32, awq.Steps), make([][]float32, awq.Steps)
	if quant.NonFinite(w) < 0 {
		p := newProblems(in, c.Threads)
		variance, err := p.variance(f)
		if err != nil {
			return err
		}
		candidates[0] = ones(f.width)
		for i := 1; i < awq.Steps; i++ {
			folded[i], candidates[i] = awq.Fold(w, awq.Candidate(variance, i), c.Source.Arch.NormPlusOne, d)
		}
		if best, err = c.choose(p, f, candidates); err != nil {
			return err
		}
	}
	if best == 0 {
		return run(c.ctx, []*job{c.copied(f.from)}, 1, c.Progress)
	}
	quant.EncodeFloats(raw, folded[best], d)
	if err := c.out.WriteAt(f.from.Outputs[0].Name, raw, 0); err != nil {
		return err
	}
	if c.Progress != nil {
		c.Progress(f.from.Name, c.cost(f.from))
	}
	c.multiply(f, candidates[best])
	if err := c.record(f.from, nil); err != nil || c.Calibration.Independent {
		return err
	}
	return c.pass.SetNorm(c.ctx, t, folded[best])
}

// problems are the problems of an input's scales, by what is weighed and the size of the groups; 0 without feedback.
type problems struct {
	*factors
	made map[problemKey]*awq.Problem
}

type problemKey struct {
	moment *calib.Moment
	group  int
}

func newProblems(in *calib.Input, threads int) *problems {
	return &problems{newFactors(in, threads), map[problemKey]*awq.Problem{}}
}

// of returns the problem of an item's rows whose inputs have a moment. With feedback an error costs what columns behind it cannot
// make up for.
func (p *problems) of(it *Item, m *calib.Moment) (*awq.Problem, error) {
	key := problemKey{moment: m}
	if it.Spec.FeedsBack() {
		key.group = it.Spec.GroupSize(m.K)
	}
	if x := p.made[key]; x != nil {
		return x, nil
	}
	if key.group == 0 {
		p.made[key] = awq.NewProblem(m.Second, m.K, p.threads)
		return p.made[key], nil
	}
	h, err := p.hessian(m == p.in.Received, m.K, key.group)
	if err != nil {
		return nil, err
	}
	p.made[key] = awq.NewPriced(h.Prices())
	return p.made[key], nil
}

// variance returns how active the columns are that a fold is to scale.
func (p *problems) variance(f *fold) ([]float64, error) {
	s, m := f.to[0].Spec, p.in.Plain
	if !s.FeedsBack() {
		return m.Diag, nil
	}
	h, err := p.hessian(false, m.K, s.GroupSize(m.K))
	if err != nil {
		return nil, err
	}
	return h.Prices(), nil
}

// chosenRows is by about how many rows of a matrix scales are chosen, or of the rows in it whose inputs are weighed alike.
const chosenRows = 256

// choose returns the candidate with which quantization costs least: of scales for the columns of a fold's matrices.
func (c *calibration) choose(problems *problems, f *fold, candidates [][]float32) (int, error) {
	var jobs []*job
	var sums [][awq.Steps]float64 // of every strip
	for _, it := range f.to {
		for _, x := range c.segments(problems.in, it) {
			p, err := problems.of(it, x.moment)
			if err != nil {
				return 0, err
			}
			step := (x.rows + chosenRows - 1) / chosenRows
			first := len(sums)
			j := &job{name: it.Name, rows: (x.rows + step - 1) / step, strip: block}
			sums = append(sums, make([][awq.Steps]float64, (j.rows+block-1)/block)...)
			j.run = func(w *worker, row0, rows int) error {
				weights := make([]float32, 0, rows*it.K)
				for i := range rows {
					row, err := it.rows.read(w, x.row0+(row0+i)*step, 1)
					if err != nil {
						return err
					}
					weights = append(weights, row...)
				}
				m := quant.NewMatrix(rows, it.K, it.Spec.Bits, it.Spec.GroupSize(it.K), it.Spec.Zero)
				defer m.Recycle()
				for i, s := range candidates {
					sums[first+row0/block][i] = p.Loss(m, weights, padded(s, it.K), it.solve)
				}
				return nil
			}
			jobs = append(jobs, j)
		}
	}
	if err := run(c.ctx, jobs, c.Threads, nil); err != nil {
		return 0, err
	}
	losses := make([]float64, len(candidates))
	for _, strip := range sums {
		for i := range losses {
			losses[i] += strip[i]
		}
	}
	return awq.Least(losses), nil
}

// multiply sets the scales of the columns of a fold's matrices.
func (c *calibration) multiply(f *fold, s []float32) {
	for _, it := range f.to {
		c.scalingOf(it).columns = padded(s, it.K)
	}
}

func (c *calibration) scalingOf(it *Item) *scaling {
	if c.scaled[it] == nil {
		c.scaled[it] = new(scaling)
	}
	return c.scaled[it]
}

// padded returns scales for k columns; padding has ones.
func padded(s []float32, k int) []float32 {
	if len(s) == k {
		return s
	}
	return append(slices.Clone(s), ones(k-len(s))...)
}

func ones(n int) []float32 { return slices.Repeat([]float32{1}, n) }

// read returns rows of an item as the scaled model has them. The slice belongs to the worker.
func (r *Run) read(w *worker, it *Item, row0, count int) ([]float32, error) {
	weights, err := it.rows.read(w, row0, count)
	s := r.scaled[it]
	if err != nil || s == nil {
		return weights, err
	}
	if s.columns != nil {
		awq.Multiply(weights, weights, s.columns)
	}
	if s.rows != nil {
		for i, d := range s.rows[row0 : row0+count] {
			for k := range it.K {
				weights[i*it.K+k] /= d
			}
		}
	}
	return weights, nil
}
