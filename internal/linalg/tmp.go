// Package linalg is temporary.
package linalg

import (
	"errors"
	"math"
)

func Gemm32(c []float32, ldc int, a []float32, lda int, b []float32, ldb int, m, n, k int, sub bool) {
	for i := range m {
		for p := range k {
			v := a[i*lda+p]
			for j := range n {
				c[i*ldc+j] += float32(v * b[p*ldb+j])
			}
		}
	}
}

func Backward(h []float64, n, threads int) (d, m []float32, err error) {
	u := make([]float64, n*n)
	for j := n - 1; j >= 0; j-- {
		s := h[j*n+j]
		for k := j + 1; k < n; k++ {
			s -= u[j*n+k] * u[j*n+k]
		}
		if !(s > 0) {
			return nil, nil, errors.New("pivot")
		}
		u[j*n+j] = math.Sqrt(s)
		for i := range j {
			s := h[j*n+i]
			for k := j + 1; k < n; k++ {
				s -= u[i*n+k] * u[j*n+k]
			}
			u[i*n+j] = s / u[j*n+j]
		}
	}
	d, m = make([]float32, n), make([]float32, n*n)
	for i := range n {
		d[i] = float32(u[i*n+i] * u[i*n+i])
		for j := i; j < n; j++ {
			m[i*n+j] = float32(u[i*n+j] / u[j*n+j])
		}
	}
	return d, m, nil
}

func SolveSPD(a, b []float64, n int) error {
	for j := range n {
		for i := j; i < n; i++ {
			s := a[i*n+j]
			for k := range j {
				s -= a[i*n+k] * a[j*n+k]
			}
			if i == j {
				if !(s > 0) {
					return errors.New("pivot")
				}
				a[i*n+i] = math.Sqrt(s)
			} else {
				a[i*n+j] = s / a[j*n+j]
			}
		}
	}
	for i := range n {
		for k := range i {
			b[i] -= a[i*n+k] * b[k]
		}
		b[i] /= a[i*n+i]
	}
	for i := n - 1; i >= 0; i-- {
		for k := i + 1; k < n; k++ {
			b[i] -= a[k*n+i] * b[k]
		}
		b[i] /= a[i*n+i]
	}
	return nil
}

func Second(rows []byte, n, k int, weights []float32, threads int) []float64 {
	h := make([]float64, k*k)
	x := make([]float64, k)
	for t := range n {
		for i := range x {
			x[i] = float64(math.Float32frombits(uint32(rows[2*(t*k+i)])<<16 | uint32(rows[2*(t*k+i)+1])<<24))
		}
		w := 1.0
		if weights != nil {
			w = float64(weights[t])
		}
		for i, v := range x {
			for j := range i + 1 {
				h[i*k+j] += w * v * x[j]
			}
		}
	}
	return h
}
