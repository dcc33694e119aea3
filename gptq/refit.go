package gptq

import (
	"math"

	"nibble/internal/kernel"
	"nibble/internal/linalg"
	"nibble/quant"
	"nibble/safetensors"
)

// Refit solves, codes fixed, for all scales of a row at once (for a float zero: all scales and zeros), row by row:
//
//	(AᵀH'A + Λ) s = AᵀH'w + Λ s_old,   Λ = 1e-4·diag(AᵀH'A) + 1e-12·mean(diag(AᵀH'A))·I
//
// with the columns a_k = q_k − z of A [K, G] in their group's rows. For a float zero the unknowns of a group are s and
// b − s/2, of the basis vectors q − M + 1/2 and 1. Results are rounded to the stored type d, and kept in the rows whose
// objective falls.
func (s *Descent) Refit(d safetensors.DType) {
	k, n, groups := s.x.K, s.m.N, s.m.Groups()
	per := 1
	if s.m.Zero == quant.Float {
		per = 2
	}
	size := per * groups
	basis := make([]float32, per*k)        // of the row
	image := make([]float32, per*groups*k) // H' times every column of A, [size, K]
	normal := make([]float64, size*size)   // AᵀH'A + Λ
	right := make([]float64, size)
	target := make([]float32, k)
	for r := range n {
		before := s.Row(r)
		s.basis(r, basis)
		clear(image)
		for g := range groups {
			for c := g * s.m.Group; c < min((g+1)*s.m.Group, k); c++ {
				for p := range per {
					kernel.Axpy(image[(per*g+p)*k:(per*g+p+1)*k], basis[p*k+c], s.x.h[c*k:(c+1)*k])
				}
			}
		}
		old := s.unknowns(r, per)
		// w H' = e H' + ŵ H', ŵ = A s_old.
		copy(target, s.g[r*k:(r+1)*k])
		for i, v := range old {
			kernel.Axpy(target, float32(v), image[i*k:(i+1)*k])
		}
		for i := range size {
			lo, hi := i/per*s.m.Group, min((i/per+1)*s.m.Group, k)
			a := basis[i%per*k:]
			right[i] = dot(a[lo:hi], target[lo:hi])
			for j := range i + 1 {
				normal[i*size+j] = dot(a[lo:hi], image[j*k+lo:j*k+hi])
			}
		}
		var mean float64
		for i := range size {
			mean += normal[i*size+i]
		}
		mean /= float64(size)
		for i := range size {
			ridge := float64(1e-4*normal[i*size+i]) + float64(1e-12*mean)
			normal[i*size+i] += ridge
			right[i] += float64(ridge * old[i])
		}
		if linalg.SolveSPD(normal, size, right, 1, 1, 1) != nil {
			continue
		}
		s.adopt(r, right, per, d, before)
	}
}

// basis fills the columns of A of row r, one behind the other.
func (s *Descent) basis(r int, a []float32) {
	k, mid := s.x.K, float32(s.m.Mid())
	for c := range k {
		q := float32(s.m.Codes[r*k+c])
		switch s.m.Zero {
		case quant.Integer:
			a[c] = q - float32(s.m.Zeros[r*s.m.Groups()+c/s.m.Group])
		case quant.Float:
			a[c], a[k+c] = q-mid+0.5, 1
		default:
			a[c] = q - mid
		}
	}
}

// unknowns returns the parameters of row r in the basis of A.
func (s *Descent) unknowns(r, per int) []float64 {
	groups := s.m.Groups()
	x := make([]float64, per*groups)
	for g := range groups {
		scale := float64(s.m.Scales[r*groups+g])
		x[per*g] = scale
		if per == 2 {
			x[per*g+1] = float64(s.m.Bias[r*groups+g]) - float64(scale/2)
		}
	}
	return x
}

// adopt takes new parameters for row r if its objective falls below what it was.
func (s *Descent) adopt(r int, x []float64, per int, d safetensors.DType, before float64) {
	k, groups := s.x.K, s.m.Groups()
	row := s.m.Part(r, 1)
	scales, bias := append([]float32(nil), row.Scales...), append([]float32(nil), row.Bias...)
	e, g := append([]float32(nil), s.e[r*k:(r+1)*k]...), append([]float32(nil), s.g[r*k:(r+1)*k]...)
	for i := range groups {
		if v := float32(x[per*i]); v != 0 && !math.IsInf(float64(v), 0) && v == v {
			row.Scales[i] = quant.RoundScale(v, d)
		}
		if per == 2 {
			row.Bias[i] = quant.Round(float32(x[2*i+1])+float32(row.Scales[i]/2), d)
		}
	}
	s.errors(r)
	clear(s.g[r*k : (r+1)*k])
	s.x.packed.Multiply(linalg.Add, s.g[r*k:], k, s.e[r*k:], k, 1, 1)
	if s.Row(r) < before {
		return
	}
	copy(row.Scales, scales)
	copy(row.Bias, bias)
	copy(s.e[r*k:(r+1)*k], e)
	copy(s.g[r*k:(r+1)*k], g)
}

// dot returns Σ a·b in float64, in the order of the elements.
func dot(a, b []float32) float64 {
	var sum float64
	for i, v := range a {
		sum += float64(float64(v) * float64(b[i]))
	}
	return sum
}
