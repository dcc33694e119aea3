package gptq

import "nibble/internal/linalg"

// Quadratic is the form x H xᵀ of a second moment H [K, K], without damping: what a method that passes no errors on is judged by.
type Quadratic struct {
	k      int
	packed linalg.Panels[float32]
	diag   []float64 // instead of packed, where nothing else is known
}

// NewQuadratic prepares a moment, of which only the lower triangle is read.
func NewQuadratic(second []float64, k, threads int) *Quadratic {
	h := make([]float32, k*k)
	for i := range k {
		for j := range i + 1 {
			v := float32(second[i*k+j])
			h[i*k+j], h[j*k+i] = v, v
		}
	}
	x := &Quadratic{k: k}
	x.packed.Pack(h, k, false, k, k, threads)
	return x
}

// NewDiagonal is the form of a moment of which only the diagonal is known.
func NewDiagonal(diag []float64) *Quadratic { return &Quadratic{k: len(diag), diag: diag} }

// Sum returns Σ x H xᵀ over n rows of x [n, K], in float64 in the order of the elements.
func (q *Quadratic) Sum(x []float32, n int) (sum float64) {
	k := q.k
	if q.diag != nil {
		for i, v := range x[:n*k] {
			sum += float64(q.diag[i%k] * float64(float64(v)*float64(v)))
		}
		return sum
	}
	g := make([]float32, n*k)
	q.packed.Multiply(linalg.Add, g, k, x, k, n, 1)
	return max(objective(x[:n*k], g), 0)
}
