package calib

import (
	"nibble/internal/kernel"
	"nibble/internal/linalg"
)

// Moment is a second moment of the inputs x [K] of a matrix, H = (1/Σω) Σ_t ω_t x_t x_tᵀ.
type Moment struct {
	K      int
	Tokens int       // that entered
	Weight float64   // Σω
	Second []float64 // [K, K], the lower triangle; nil if only the diagonal was asked for
	Diag   []float64 // [K]
	Drift  []float64 // [K, K], (1/Σω) Σ_t ω_t (y_t − x_t) x_tᵀ of what the float model's inputs y are; nil if not asked for
}

// moment sums up rows of bfloat16 [len(rows)/2/k, k]. Weights are one for each row, or nil for ones.
func moment(rows []byte, k int, weights []float32, full bool, threads int) *Moment {
	n := len(rows) / 2 / k
	m := &Moment{K: k, Tokens: n, Diag: make([]float64, k), Weight: float64(n)}
	if weights != nil {
		m.Weight = 0
		for _, w := range weights {
			m.Weight += float64(w)
		}
	}
	if m.Weight == 0 {
		m.Weight = 1 // nothing entered
	}
	if full {
		sum := linalg.NewMoment(k)
		sum.AddBF16(rows, 2*k, n, weights, threads)
		m.Second = sum.Sum(threads)
		for i := range m.Second {
			m.Second[i] /= m.Weight
		}
		for i := range k {
			m.Diag[i] = m.Second[i*k+i]
		}
		return m
	}
	m.diagonal(rows, weights)
	return m
}

// diagonal fills Diag, in the order of the rows.
func (m *Moment) diagonal(rows []byte, weights []float32) {
	x, w := make([]float32, m.K), 1.0
	for t := 0; t*2*m.K < len(rows); t++ {
		kernel.WidenBF16(x, rows[2*t*m.K:])
		if weights != nil {
			w = float64(weights[t])
		}
		for i, v := range x {
			m.Diag[i] += float64(w * float64(float64(v)*float64(v)))
		}
	}
	for i := range m.Diag {
		m.Diag[i] /= m.Weight
	}
}

// Blend returns (n·H + n0·P)/(n + n0) for the moment H of n tokens and a pool P, n0 = 4K: experts that saw few tokens take
// most of it from all tokens that their layer saw.
func (m *Moment) Blend(pool *Moment) *Moment {
	n, n0 := float64(m.Tokens), float64(4*m.K)
	mix := func(a, b []float64) []float64 {
		if a == nil {
			return nil
		}
		c := make([]float64, len(a))
		for i := range c {
			c[i] = (float64(n*a[i]) + float64(n0*b[i])) / (n + n0)
		}
		return c
	}
	return &Moment{K: m.K, Tokens: m.Tokens + 4*m.K, Weight: m.Weight, Second: mix(m.Second, pool.Second), Diag: mix(m.Diag, pool.Diag)}
}
