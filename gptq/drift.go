package gptq

import "nibble/internal/linalg"

// Shift moves the weights of a matrix to what makes up best for inputs that are no longer those of the float model:
//
//	W* = W + α·W·P,  P = Δ·(H + μ·mean(diag H)·I)⁻¹,  Δ = (1/Σω) Σ_t ω_t (y_t − x_t) x_tᵀ
//
// for the float model's inputs y and those of the quantized one, x, whose second moment is H. Minimising ‖Y Wᵀ − X Ŵᵀ‖² is
// minimising (w* − ŵ) H (w* − ŵ)ᵀ with α = 1; less of it is better where the text is short.
type Shift struct{ p linalg.Panels[float32] } // αPᵀ, for products with P

// ridge is μ.
const ridge = 0.01

// NewShift prepares the shift for a second moment, of which the lower triangle is read, and Δ [k, k].
func NewShift(moment, delta []float64, k int, alpha float64, threads int) (*Shift, error) {
	a, b := make([]float64, k*k), make([]float64, k*k)
	var mean float64
	for i := range k {
		mean += moment[i*k+i] / float64(k)
	}
	for i := range k {
		copy(a[i*k:i*k+i+1], moment[i*k:])
		a[i*k+i] += float64(ridge * mean)
		if mean == 0 {
			a[i*k+i] = 1 // nothing was ever active
		}
		for j := range k {
			b[i*k+j] = delta[j*k+i]
		}
	}
	if err := linalg.SolveSPD(a, k, b, k, k, threads); err != nil {
		return nil, err
	}
	p := make([]float32, k*k)
	for i, v := range b {
		p[i] = float32(alpha * v)
	}
	s := new(Shift)
	s.p.Pack(p, k, true, k, k, threads)
	return s, nil
}

// Target returns W* of n rows of w.
func (s *Shift) Target(w []float32, n, k int) []float32 {
	t := append([]float32(nil), w[:n*k]...)
	s.p.Multiply(linalg.Add, t, k, w, k, n, 1)
	return t
}
