package calib

import (
	"context"

	"nibble/hf"
	"nibble/internal/linalg"
	"nibble/internal/mmap"
	"nibble/runtime"
)

// float is the same as in Pass for the float model, whose matrices every stage runs before they are replaced.
type float struct{ h, next, x, ctx, act *mmap.Region }

// floatContext fills x and ctx of the float model.
func (p *Pass) floatContext(ctx context.Context) error {
	d, q, _ := sizes(p.src.Arch)
	o := p.float
	return p.sequences(ctx, func(l *runtime.Lane, i int) error {
		in := rowsOf(p, o.x.Bytes(), i, 2*d)
		l.AttentionInput(in, rowsOf(p, o.h.Floats(), i, d))
		l.Attend(rowsOf(p, o.ctx.Bytes(), i, 2*q), nil, in)
		return nil
	})
}

// floatAttention takes the float model's residual stream behind attention.
func (p *Pass) floatAttention(ctx context.Context) error {
	d, q, _ := sizes(p.src.Arch)
	o := p.float
	return p.sequences(ctx, func(l *runtime.Lane, i int) error {
		to := rowsOf(p, o.next.Floats(), i, d)
		copy(to, rowsOf(p, o.h.Floats(), i, d))
		l.AddAttention(to, rowsOf(p, o.ctx.Bytes(), i, 2*q))
		l.MLPInput(rowsOf(p, o.x.Bytes(), i, 2*d), to)
		return nil
	})
}

// floatExpand fills act of the float model.
func (p *Pass) floatExpand(ctx context.Context, width int) error {
	d := p.src.Arch.Hidden
	o := p.float
	return p.sequences(ctx, func(l *runtime.Lane, i int) error {
		l.Expand(rowsOf(p, o.act.Bytes(), i, 2*width), -1, rowsOf(p, o.x.Bytes(), i, 2*d))
		return nil
	})
}

// floatContract takes the float model's residual stream behind the MLP.
func (p *Pass) floatContract(ctx context.Context, width int) error {
	d := p.src.Arch.Hidden
	o := p.float
	return p.sequences(ctx, func(l *runtime.Lane, i int) error {
		to := rowsOf(p, o.next.Floats(), i, d)
		out := make([]float32, len(to))
		l.Contract(out, -1, rowsOf(p, o.act.Bytes(), i, 2*width))
		l.AddMLP(to, out)
		return nil
	})
}

// floatExperts are the float model's experts in a layer, each run before it is replaced.
type floatExperts struct {
	experts []expert
	out     []float32 // [tokens, hidden]
}

// floatMixture routes the float model's tokens; nil without one.
func (p *Pass) floatMixture(ctx context.Context) (*floatExperts, error) {
	if p.float == nil {
		return nil, nil
	}
	list, err := p.route(ctx, p.float.x.Bytes())
	return &floatExperts{list, make([]float32, len(p.float.next.Floats()))}, err
}

// run adds what expert e makes of its tokens.
func (m *floatExperts) run(ctx context.Context, p *Pass, e int) error {
	if m == nil {
		return nil
	}
	d, x := p.src.Arch.Hidden, &m.experts[e]
	f := p.tensors(p.layer, e, hf.Down)[0].In()
	in, act, y := make([]byte, len(x.rows)*2*d), make([]byte, len(x.rows)*2*f), make([]float32, len(x.rows)*d)
	takeRows(in, p.float.x.Bytes(), x.rows, 2*d)
	err := p.blocks(ctx, len(x.rows), func(l *runtime.Lane, lo, hi int) {
		l.Expand(act[2*lo*f:2*hi*f], e, in[2*lo*d:2*hi*d])
		l.Contract(y[lo*d:hi*d], e, act[2*lo*f:2*hi*f])
	})
	addRows(m.out, y, x.rows, x.factor, d)
	return err
}

// drift fills Drift, (1/Σω) Σ_t ω_t (y_t − x_t) x_tᵀ of the inputs y of the float model, from rows of bfloat16: their cross moment less that of
// x, which is Second.
func (m *Moment) drift(y, x []byte, weights []float32, threads int) {
	k := m.K
	sum := linalg.NewCross(k)
	sum.AddCross(y, x, 2*k, len(x)/2/k, weights, threads)
	m.Drift = sum.Sum(threads)
	for i := range k {
		for j := range k {
			m.Drift[i*k+j] = m.Drift[i*k+j]/m.Weight - m.Second[max(i, j)*k+min(i, j)]
		}
	}
}
