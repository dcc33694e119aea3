package convert

import (
	"nibble/calib"
	"nibble/gptq"
	"nibble/hf"
	"nibble/quant"
)

// solveRows is the number of rows that are solved at a time.
const solveRows = 64

// Why a matrix is not what its method makes of it.
const (
	fallbackFew   = "too few tokens: search"
	fallbackWorse = "feedback was no better: search"
	fallbackPlain = "the second moment has no factor: no feedback"
)

// segment is rows of an item whose inputs are weighed alike.
type segment struct {
	row0, rows int
	moment     *calib.Moment
	hessian    *gptq.Hessian // nil: errors are weighed by the diagonal
	shift      *gptq.Shift   // nil: the weights are what is to be reached
}

// solution is an item that is being quantized with its inputs.
type solution struct {
	it       *Item
	segments []segment
	m        *quant.Matrix // [N, K]
	losses   []losses      // of every strip of solveRows; nil without feedback
	searched bool          // m is of search alone
	blocks   []quant.Noise
	Loss     *float64 // Σ e H eᵀ / Σ w H wᵀ
	Fallback string   // why the result is not the method's
}

// losses are what quantization costs rows of a matrix: e H eᵀ with feedback and by search alone, and w H wᵀ. The last two are
// those of every fourth strip, and so is the first that is compared with them.
type losses struct{ feedback, search, energy float64 }

// sampled is every how many strips feedback is compared with search.
const sampled = 4

// factors are the prepared moments of an input, by what is weighed and the size of the groups.
type factors struct {
	in      *calib.Input
	threads int
	made    map[factorKey]*gptq.Hessian
	shifts  map[bool]*gptq.Shift // for inputs weighed by attention, and plain ones
}

type factorKey struct {
	received bool
	k, group int
}

func newFactors(in *calib.Input, threads int) *factors {
	return &factors{in: in, threads: threads, made: map[factorKey]*gptq.Hessian{}, shifts: map[bool]*gptq.Shift{}}
}

func (f *factors) moment(received bool) *calib.Moment {
	if received && f.in.Received != nil {
		return f.in.Received
	}
	return f.in.Plain
}

// hessian prepares the moment of k columns in groups; those behind the moment's are padding, and never active.
func (f *factors) hessian(received bool, k, group int) (*gptq.Hessian, error) {
	key := factorKey{received && f.in.Received != nil, k, group}
	if h := f.made[key]; h != nil {
		return h, nil
	}
	m := f.moment(received)
	second := make([]float64, k*k)
	for i := range m.K {
		copy(second[i*k:i*k+i+1], m.Second[i*m.K:])
	}
	h, err := gptq.NewHessian(second, k, group, gptq.Damping(m.K, float64(m.Tokens)), f.threads)
	f.made[key] = h
	return h, err
}

// driftShare is how much of the drift of inputs the weights make up for.
const driftShare = 0.5

// shift returns what makes up for the drift of the inputs, nil if that is not known.
func (f *factors) shift(received bool) (*gptq.Shift, error) {
	m := f.moment(received)
	if m.Drift == nil {
		return nil, nil
	}
	received = received && f.in.Received != nil
	if s := f.shifts[received]; s != nil {
		return s, nil
	}
	s, err := gptq.NewShift(m.Second, m.Drift, m.K, driftShare, f.threads)
	f.shifts[received] = s
	return s, err
}

// segments divides an item into rows whose inputs are weighed alike: those of k and v by the attention that tokens receive.
func (p *Plan) segments(in *calib.Input, it *Item) []segment {
	received := in.Plain
	if in.Received != nil {
		received = in.Received
	}
	switch a := p.Source.Arch; it.Role {
	case hf.K, hf.V:
		return []segment{{rows: it.N, moment: received}}
	case hf.QKV:
		q := a.Heads * a.HeadDim
		return []segment{{rows: q, moment: in.Plain}, {row0: q, rows: it.N - q, moment: received}}
	}
	return []segment{{rows: it.N, moment: in.Plain}}
}

// matrix is an empty one of n rows.
func (it *Item) matrix(n int) *quant.Matrix {
	if it.place != nil {
		return blockMatrix(it.place.tensor.Type, n, it.K)
	}
	return quant.NewMatrix(n, it.K, it.Spec.Bits, it.Spec.GroupSize(it.K), it.Spec.Zero)
}

// prepare finds what the solver needs of an item.
func (c *calibration) prepare(in *calib.Input, f *factors, it *Item) (*solution, error) {
	s := &solution{it: it, blocks: make([]quant.Noise, (it.N+block-1)/block)}
	s.segments = c.segments(in, it)
	s.m = it.matrix(it.N)
	if !it.Spec.FeedsBack() {
		return s, nil
	}
	if in.Diagonal {
		s.Fallback = fallbackFew
		return s, nil
	}
	strips := 0
	for i := range s.segments {
		x := &s.segments[i]
		var err error
		if x.hessian, err = f.hessian(x.moment == in.Received, it.K, s.m.Unit()); err != nil {
			return nil, err
		}
		if x.hessian.Plain {
			s.Fallback = fallbackPlain
		}
		if it.Spec.Method == quant.Best && it.K == x.moment.K {
			if x.shift, err = f.shift(x.moment == in.Received); err != nil {
				return nil, err
			}
		}
		strips += (x.rows + solveRows - 1) / solveRows
	}
	s.losses = make([]losses, strips)
	return s, nil
}

// solving returns the jobs that fill the matrices of a solution.
func (c *calibration) solving(s *solution) []*job {
	var jobs []*job
	strip := 0
	for i := range s.segments {
		x, first := &s.segments[i], strip
		strip += (x.rows + solveRows - 1) / solveRows
		jobs = append(jobs, &job{name: s.it.Name, rows: x.rows, strip: solveRows, run: func(w *worker, row0, rows int) error {
			weights, err := c.read(w, s.it, x.row0+row0, rows)
			if err != nil {
				return err
			}
			m := s.m.Part(x.row0+row0, rows)
			if x.hessian == nil || s.searched {
				s.it.solve(m, weights, x.weigh(s.it))
				return nil
			}
			if x.shift != nil {
				weights = x.shift.Target(weights, rows, m.K)
			}
			x.hessian.Solve(m, weights, s.it.solve)
			d := x.hessian.Descend(m, weights)
			d.Sweep(2)
			if i := first + row0/solveRows; i%sampled == 0 {
				plain := m.Like(rows, m.K)
				defer plain.Recycle()
				s.it.solve(plain, weights, x.weigh(s.it))
				s.losses[i] = losses{d.Loss(), x.hessian.Descend(plain, weights).Loss(), x.hessian.Energy(weights, rows)}
			}
			return nil
		}})
	}
	return jobs
}

// weigh returns the weights of the columns' errors in a search; nil for a method that has none.
func (x *segment) weigh(it *Item) []float32 {
	if it.Spec.Plain().Method != quant.Search {
		return nil
	}
	d := make([]float32, it.K) // columns of padding stay behind: their weights are 0
	for i := range d {
		d[i] = 1
	}
	var most float64
	for _, v := range x.moment.Diag {
		most = max(most, v)
	}
	for i, v := range x.moment.Diag {
		if most > 0 {
			d[i] = float32(max(v, 1e-6*most)) // a column that was never active may be some day
		}
	}
	return d
}

// settle looks at the losses, and reports whether search alone is to be taken instead because feedback was no better.
func (s *solution) settle() (again bool) {
	if s.losses == nil {
		return false
	}
	var sum losses
	for _, l := range s.losses {
		sum.feedback += l.feedback
		sum.search += l.search
		sum.energy += l.energy
	}
	if s.searched = !(sum.feedback < sum.search); s.searched {
		s.Fallback, sum.feedback = fallbackWorse, sum.search
	}
	if loss := sum.feedback / sum.energy; sum.energy > 0 {
		s.Loss = &loss
	}
	return s.searched
}

// storing is the job that accounts for the matrix of a solution and writes it.
func (c *calibration) storing(s *solution) *job {
	it := s.it
	put := func(tensor int, off int64, p []byte) error { return c.out.WriteAt(it.Outputs[tensor].Name, p, off) }
	part := c.partRows(it.rows)
	return &job{name: it.Name, rows: it.N, strip: c.stripRows(it.K), cost: int64(it.K) * int64(it.rows.elements),
		run: func(w *worker, row0, rows int) error {
			for at := 0; at < rows; at += part {
				n := min(part, rows-at)
				weights, err := c.read(w, it, row0+at, n)
				if err != nil {
					return err
				}
				account(w, s.m.Part(row0+at, n), weights, s.blocks, row0+at)
			}
			if it.place != nil {
				return c.pack(it, s.m.Part(row0, rows), row0)
			}
			return c.Format.Pack(*it.Spec, c.Options, s.m.Part(row0, rows), row0, it.N, put)
		},
		done: func() error {
			var noise quant.Noise
			for _, b := range s.blocks {
				noise.Merge(b)
			}
			return c.record(it, &outcome{Noise: &noise, Loss: s.Loss, Fallback: s.Fallback, Folded: c.scaled[it] != nil})
		}}
}
