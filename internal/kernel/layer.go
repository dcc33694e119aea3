package kernel

import "math"

// RMSNorm sets dst = x / sqrt(mean(x²) + eps) · w, or · (1+w) with plusOne. dst may be x.
func RMSNorm(dst, x, w []float32, eps float32, plusOne bool) {
	scale := float32(1 / math.Sqrt(float64(Dot(x, x)/float32(len(x))+eps)))
	dst, w = dst[:len(x)], w[:len(x)]
	if plusOne {
		for i, v := range x {
			dst[i] = float32(v*scale) * (1 + w[i])
		}
		return
	}
	for i, v := range x {
		dst[i] = float32(v*scale) * w[i]
	}
}

// LayerNorm sets dst = (x − mean) / sqrt(var + eps) · w + b, with the variance over len(x). Sums are float64. dst may be x.
func LayerNorm(dst, x, w, b []float32, eps float32) {
	var sum, squares float64
	for _, v := range x {
		sum += float64(v)
	}
	mean := sum / float64(len(x))
	for _, v := range x {
		d := float64(v) - mean
		squares += float64(d * d)
	}
	scale := 1 / math.Sqrt(squares/float64(len(x))+float64(eps))
	dst, w, b = dst[:len(x)], w[:len(x)], b[:len(x)]
	for i, v := range x {
		dst[i] = float32(float32((float64(v)-mean)*scale)*w[i]) + b[i]
	}
}

// Softmax turns scores into probabilities. Differences from the largest and their sum, in order, are float64.
func Softmax(x []float32) {
	most := float32(math.Inf(-1))
	for _, v := range x {
		most = max(most, v)
	}
	var sum float64
	for i, v := range x {
		e := math.Exp(float64(v) - float64(most))
		x[i] = float32(e)
		sum += e
	}
	inv := float32(1 / sum)
	for i := range x {
		x[i] *= inv
	}
}

// Sigmoid returns 1/(1+exp(−x)).
func Sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

// SiLU returns x·sigmoid(x).
func SiLU(x float32) float32 { return float32(float64(x) / (1 + math.Exp(-float64(x)))) }

// GELU returns x·Φ(x) through the error function.
func GELU(x float32) float32 {
	v := float64(x)
	return float32(v * 0.5 * (1 + math.Erf(v/math.Sqrt2)))
}

// GELUTanh returns the tanh approximation of GELU.
func GELUTanh(x float32) float32 {
	v := float64(x)
	cubic := float64(0.044715 * v * v * v) // rounded before the sum, on every machine
	return float32(0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+cubic))))
}

// Softcap returns c·tanh(x/c).
func Softcap(x, c float32) float32 { return c * float32(math.Tanh(float64(x/c))) }

// Rotate turns the pairs (j, j+len(cos)) of x by the angles of cos and sin; the elements behind them stay.
func Rotate(x, cos, sin []float32) {
	n := len(cos)
	lo, hi, sin := x[:n], x[n:2*n], sin[:n]
	for j, c := range cos {
		a, b := lo[j], hi[j]
		lo[j] = float32(a*c) - float32(b*sin[j])
		hi[j] = float32(b*c) + float32(a*sin[j])
	}
}
