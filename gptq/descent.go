package gptq

import (
	"nibble/internal/kernel"
	"nibble/internal/linalg"
	"nibble/quant"
)

// Descent is one or more rows on the way to a smaller e H' eᵀ: the errors of a quantized matrix and their product with H'.
type Descent struct {
	x    *Hessian
	m    *quant.Matrix
	w    []float32
	e, g []float32 // [N, K], in file order
}

// Descend starts from the codes and parameters of m, for the weights w [m.N, K].
func (x *Hessian) Descend(m *quant.Matrix, w []float32) *Descent {
	s := &Descent{x: x, m: m, w: w, e: make([]float32, m.N*x.K), g: make([]float32, m.N*x.K)}
	s.refresh()
	return s
}

// refresh computes errors and gradients from codes and parameters.
func (s *Descent) refresh() {
	k := s.x.K
	for r := range s.m.N {
		e, w := s.e[r*k:(r+1)*k], s.w[r*k:(r+1)*k]
		s.m.DequantizeRow(e, r)
		for i, v := range w {
			e[i] = v - e[i]
		}
	}
	clear(s.g)
	s.x.packed.Multiply(linalg.Add, s.g, k, s.e, k, s.m.N, 1)
}

// Objective returns Σ e H' eᵀ over the rows, damping included.
func (s *Descent) Objective() float64 {
	var sum float64
	for r := range s.m.N {
		sum += s.Row(r)
	}
	return sum
}

// Row returns e H' eᵀ of a row, damping included.
func (s *Descent) Row(r int) float64 {
	k := s.x.K
	return objective(s.e[r*k:(r+1)*k], s.g[r*k:(r+1)*k])
}

// Loss returns Σ e H eᵀ over the rows, without the damping.
func (s *Descent) Loss() float64 {
	sum, add := s.Objective(), s.x.Lambda*s.x.mean
	for _, v := range s.e {
		sum -= float64(add * float64(float64(v)*float64(v)))
	}
	return sum
}

// Sweep changes codes one by one, column after column in file order, to the best one given all others:
//
//	q' = clamp(rint(q + G_j/(H'_jj·s))),  G = e H'
//
// at most so many times through the row, and not again after a sweep that changed nothing. The objective never rises.
func (s *Descent) Sweep(sweeps int) {
	for r := range s.m.N {
		for range sweeps {
			if !s.sweepRow(r) {
				break
			}
		}
	}
}

func (s *Descent) sweepRow(r int) (changed bool) {
	x, k := s.x, s.x.K
	e, g, codes := s.e[r*k:(r+1)*k], s.g[r*k:(r+1)*k], s.m.Codes[r*k:(r+1)*k]
	for c0 := 0; c0 < k; c0 += s.m.Group {
		f := formOf(s.m, r*s.m.Groups()+c0/s.m.Group)
		for j := c0; j < min(c0+s.m.Group, k); j++ {
			q := float32(codes[j])
			next := f.better(q, g[j], x.h[j*k+j])
			if next == q {
				continue
			}
			was := e[j]
			e[j] = s.w[r*k+j] - f.weight(next)
			codes[j] = uint8(next)
			kernel.Axpy(g, e[j]-was, x.h[j*k:(j+1)*k])
			changed = true
		}
	}
	return changed
}

// Energy returns Σ w H wᵀ over n rows of w, without the damping: what a loss is a part of.
func (x *Hessian) Energy(w []float32, n int) float64 {
	g := make([]float32, n*x.K)
	x.packed.Multiply(linalg.Add, g, x.K, w, x.K, n, 1)
	var sum float64
	for i, v := range w[:n*x.K] {
		sum += float64(float64(v)*float64(g[i])) - float64(x.Lambda*x.mean*float64(float64(v)*float64(v)))
	}
	return sum
}
