package calib

import (
	"context"

	"nibble/hf"
	"nibble/runtime"
)

// fewTokens is below which number of tokens the inputs of an expert's down are not enough for a second moment: the mean of
// the diagonals of the layer's other experts takes its place.
const fewTokens = 32

// expert is one of a mixture on its way through a layer.
type expert struct {
	rows   []int // tokens that are sent to it
	factor []float32
	act    []byte // what its down receives [len(rows), width]
}

// mixture takes the sequences through the experts of a layer, one expert after the other. Gate and up of an expert are shown
// the moment of its own tokens blended with that of all; down its own.
func (p *Pass) mixture(ctx context.Context, solve Solve) error {
	d := p.src.Arch.Hidden
	x, next := p.x.Bytes(), p.next.Floats()
	experts, err := p.route(ctx, x)
	if err != nil {
		return err
	}
	float, err := p.floatMixture(ctx)
	if err != nil {
		return err
	}
	pool := p.moment(x, d, nil)
	out := make([]float32, len(next))
	var few []int
	variance, had := []float64(nil), 0
	for e := range experts {
		m := &experts[e]
		in := make([]byte, len(m.rows)*2*d)
		takeRows(in, x, m.rows, 2*d)
		if err := float.run(ctx, p, e); err != nil {
			return err
		}
		own := p.moment(in, d, nil).Blend(pool)
		f := p.tensors(p.layer, e, hf.Down)[0].In()
		m.act = make([]byte, len(m.rows)*2*f)
		ahead := func() (*Moment, error) {
			n := min(len(m.rows), aheadTokens)
			err := p.blocks(ctx, n, func(l *runtime.Lane, lo, hi int) { l.Expand(m.act[2*lo*f:2*hi*f], e, in[2*lo*d:2*hi*d]) })
			return p.moment(m.act[:2*n*f], f, nil), err
		}
		if err := p.solve(solve, &Input{Layer: p.layer, Expert: e, Tensors: p.tensors(p.layer, e, hf.Gate, hf.Up, hf.GateUp),
			Tokens: len(m.rows), Plain: own, Ahead: ahead}, "experts"); err != nil {
			return err
		}
		if err := p.blocks(ctx, len(m.rows), func(l *runtime.Lane, lo, hi int) {
			l.Expand(m.act[2*lo*f:2*hi*f], e, in[2*lo*d:2*hi*d])
		}); err != nil {
			return err
		}
		if len(m.rows) < fewTokens {
			few = append(few, e)
			continue
		}
		own = p.moment(m.act, f, nil)
		if variance == nil {
			variance = make([]float64, f)
		}
		for i, v := range own.Diag {
			variance[i] += v
		}
		had++
		if err := p.contract(ctx, solve, e, m, own, false, out); err != nil {
			return err
		}
	}
	for _, e := range few {
		m := &experts[e]
		f := len(variance)
		own := &Moment{K: f, Diag: make([]float64, f)}
		for i, v := range variance {
			own.Diag[i] = v / float64(had)
		}
		if f == 0 { // no expert had enough
			own = p.moment(m.act, p.tensors(p.layer, e, hf.Down)[0].In(), nil)
		}
		if err := p.contract(ctx, solve, e, m, own, true, out); err != nil {
			return err
		}
	}
	return p.sequences(ctx, func(l *runtime.Lane, i int) error {
		if float != nil {
			l.AddMLP(rowsOf(p, p.float.next.Floats(), i, d), rowsOf(p, float.out, i, d))
		}
		to := rowsOf(p, next, i, d)
		l.AddMLP(to, rowsOf(p, out, i, d))
		return p.finite(to, i, p.layer, "experts")
	})
}

// contract shows down of an expert its inputs and adds what it makes of them to out.
func (p *Pass) contract(ctx context.Context, solve Solve, e int, m *expert, own *Moment, diagonal bool, out []float32) error {
	d := p.src.Arch.Hidden
	if err := p.solve(solve, &Input{Layer: p.layer, Expert: e, Tensors: p.tensors(p.layer, e, hf.Down), Tokens: len(m.rows),
		Plain: own, Diagonal: diagonal}, "experts"); err != nil {
		return err
	}
	y := make([]float32, len(m.rows)*d)
	if err := p.blocks(ctx, len(m.rows), func(l *runtime.Lane, lo, hi int) {
		l.Contract(y[lo*d:hi*d], e, m.act[2*lo*own.K:2*hi*own.K])
	}); err != nil {
		return err
	}
	addRows(out, y, m.rows, m.factor, d)
	m.act = nil
	return nil
}

// route returns the tokens of every expert for what the MLP receives.
func (p *Pass) route(ctx context.Context, x []byte) ([]expert, error) {
	a := p.src.Arch
	d := a.Hidden
	chosen, weight := make([]int, p.Tokens()*a.TopK), make([]float32, p.Tokens()*a.TopK)
	if err := p.sequences(ctx, func(l *runtime.Lane, i int) error {
		l.Route(rowsOf(p, chosen, i, a.TopK), rowsOf(p, weight, i, a.TopK), rowsOf(p, x, i, 2*d))
		return nil
	}); err != nil {
		return nil, err
	}
	experts := make([]expert, a.Experts)
	for i, e := range chosen {
		experts[e].rows = append(experts[e].rows, i/a.TopK)
		experts[e].factor = append(experts[e].factor, weight[i])
	}
	return experts, nil
}

// blocks runs f over n rows, some at a time, on all threads.
func (p *Pass) blocks(ctx context.Context, n int, f func(l *runtime.Lane, lo, hi int)) error {
	const rows = 512
	return p.parallel(ctx, (n+rows-1)/rows, func(l *runtime.Lane, i int) error {
		f(l, i*rows, min((i+1)*rows, n))
		return nil
	})
}
