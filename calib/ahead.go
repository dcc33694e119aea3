package calib

import (
	"context"

	"nibble/hf"
	"nibble/runtime"
)

// aheadTokens is about how many tokens say what a matrix will receive before those in front of it are quantized.
const aheadTokens = 8192

// ahead returns an Input's Ahead: run fills rows [tokens, k] of bfloat16 for a sequence.
func (p *Pass) ahead(ctx context.Context, rows []byte, k int, run func(l *runtime.Lane, i int)) func() (*Moment, error) {
	return func() (*Moment, error) {
		n := 0
		for n < len(p.ids) && p.starts[n] < aheadTokens {
			n++
		}
		err := p.parallel(ctx, n, func(l *runtime.Lane, i int) error { run(l, i); return nil })
		return p.moment(rows[:p.starts[n]*2*k], k, nil), err
	}
}

// SetNorm changes the weight of the norm that makes the present input, and the input with it. It is for Solve to call; the
// matrices that receive the input are to be replaced.
func (p *Pass) SetNorm(ctx context.Context, t *hf.Tensor, weight []float32) error {
	p.stages.SetNorm(t, weight)
	return p.sequences(ctx, p.receive)
}

// Scaled returns the moment of x/s, for a divisor of every column, and the drift of y/s.
func (m *Moment) Scaled(s []float32) *Moment {
	c := *m
	c.Diag = make([]float64, m.K)
	for i, v := range m.Diag {
		c.Diag[i] = v / float64(float64(s[i])*float64(s[i]))
	}
	divided := func(a []float64) []float64 {
		if a == nil {
			return nil
		}
		b := make([]float64, len(a))
		for i, v := range a {
			b[i] = v / float64(float64(s[i/m.K])*float64(s[i%m.K]))
		}
		return b
	}
	c.Second, c.Drift = divided(m.Second), divided(m.Drift)
	return &c
}

// ScaledTarget returns m with the drift of y/s, for inputs x that are divided already.
func (m *Moment) ScaledTarget(s []float32) *Moment {
	if m.Drift == nil {
		return m
	}
	c := *m
	c.Drift = make([]float64, len(m.Drift))
	for i := range m.K {
		d := float64(s[i])
		for j := range m.K {
			h := m.Second[max(i, j)*m.K+min(i, j)]
			c.Drift[i*m.K+j] = (m.Drift[i*m.K+j]+h)/d - h
		}
	}
	return &c
}
