package npu

import (
	"context"
	"slices"

	"nibble/gptq"
	"nibble/internal/kernel"
	"nibble/internal/linalg"
	"nibble/internal/parallel"
	"nibble/quant"
)

// Rounding with error feedback: every weight of a row is rounded so that its error, and those of the weights before it, cancel in the
// outputs for the inputs that the text made (gptq.Hessian), and then once more as long as that helps, with several scales near that of the
// row's largest weight. Files stay as they are.

// rounding is a matrix with its bits.
type rounding struct {
	name string
	bits int
}

// rounded is what a matrix was rounded to, [n, k], without the lowest code.
type rounded struct {
	codes  []int8
	scales []float32
}

// feedback rounds the matrices of a model while their inputs come by.
type feedback struct {
	model   *Model
	scheme  *Scheme
	threads int
	made    map[rounding]*rounded

	input   *value // of hessian
	hessian *gptq.Hessian
}

// tokensPerColumn is how many inputs a second moment wants at least, for every column of a matrix.
const tokensPerColumn = 2

// sweeps is how often codes are looked through for better ones.
const sweeps = 4

// take rounds the matrix of a node whose inputs are rows of x. Matrices share what is known of an input.
func (f *feedback) take(n *node, x []float32, rows int) error {
	p := n.In[1].Param
	k, bits := p.from.k, f.scheme.bits(p)
	if bits > 8 || rows < tokensPerColumn*k {
		return nil
	}
	if f.input != n.In[0] {
		moment := linalg.NewMoment32(k)
		moment.Add32(x, k, rows, nil, f.threads)
		second := moment.Sum(f.threads)
		for i := range second {
			second[i] /= float64(rows)
		}
		h, err := gptq.NewHessian(second, k, k, gptq.Damping(k, float64(rows)), f.threads)
		if err != nil {
			return err
		}
		f.input, f.hessian = n.In[0], h
	}
	for ; bits <= 8; bits *= 2 { // those that a promotion gives, too
		if err := f.round(p, bits); err != nil {
			return err
		}
	}
	return nil
}

// The scales that are tried for a row, by bits: evenly spaced factors of the one that holds its largest weight. How errors fall is chance,
// and at 4 bits a larger step costs more than a clipped weight does.
const trials = 8

var factors = map[int][2]float64{4: {0.8, 1.04}, 8: {0.99, 1.03}}

// round rounds a matrix to so many bits, every row with the scale that leaves least.
func (f *feedback) round(p *param, bits int) error {
	k := p.from.k
	r := &rounded{make([]int8, p.from.n*k), make([]float32, p.from.n)}
	f.made[rounding{p.Name, bits}] = r
	return parallel.Each(context.Background(), (p.from.n+stripRows-1)/stripRows, f.threads, func(i int) error {
		row := i * stripRows
		count := min(stripRows, p.from.n-row)
		w := make([]float32, count*k)
		if err := f.model.rows(p, w, k, row, count); err != nil {
			return err
		}
		m := quant.NewMatrix(count, k, bits, k, quant.Symmetric)
		defer m.Recycle()
		least := make([]float64, count)
		for trial := range trials {
			d := f.try(m, w, bits, trial)
			for j := range count {
				left := d.Row(j)
				if trial > 0 && left >= least[j] {
					continue
				}
				least[j], r.scales[row+j] = left, m.Scales[j]
				for i, c := range m.Codes[j*k : (j+1)*k] {
					r.codes[(row+j)*k+i] = int8(int(c) - m.Mid())
				}
			}
		}
		return nil
	})
}

// try rounds rows with one of the scales.
func (f *feedback) try(m *quant.Matrix, w []float32, bits, trial int) *gptq.Descent {
	ends := factors[bits]
	factor := ends[0] + float64((ends[1]-ends[0])*(float64(trial)+0.5)/trials)
	f.hessian.Solve(m, w, func(m *quant.Matrix, w, _ []float32) {
		for i := range m.N {
			lo, hi := kernel.Extremes(w[i*m.K : (i+1)*m.K])
			m.Scales[i] = channel(bits, float32(float64(max(-lo, hi))*factor))
		}
	})
	d := f.hessian.Descend(m, w)
	d.Sweep(sweeps)
	if slices.Min(m.Codes) > 0 {
		return d
	}
	for i, c := range m.Codes {
		m.Codes[i] = max(c, 1)
	}
	return f.hessian.Descend(m, w)
}

// roundRow replaces a row of a matrix by what its codes stand for, and stores the codes where they are wanted.
func (q *Quantizer) roundRow(p *param, row, bits int, dst []float32, codes []int16, w []float32) (scale float32) {
	r := q.rounded[rounding{p.Name, bits}]
	if r == nil {
		return roundChannel(dst, codes, w, bits)
	}
	scale = r.scales[row]
	for i, c := range r.codes[row*len(w) : (row+1)*len(w)] {
		dst[i] = float32(c) * scale
		if codes != nil {
			codes[i] = int16(c)
		}
	}
	return scale
}
