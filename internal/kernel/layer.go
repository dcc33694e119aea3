package kernel

import "math"

// layers are what a set does to vectors between the products of matrices. Slices fit; all lengths are allowed but where
// it says otherwise.
type layers struct {
	times   func(x []float32, a float32)
	weigh   func(dst, x, w []float32, scale, one float32)     // dst = x·scale·(one+w)
	totals  func(x []float32) [8]float64                      // Σ x in lanes, of a multiple of 8
	squares func(x []float32, mean float64) [8]float64        // Σ (x−mean)² in lanes, of a multiple of 8
	centre  func(dst, x, w, b []float32, mean, scale float64) // dst = (x−mean)·scale·w + b
	rotate  func(lo, hi, cos, sin []float32)
	peak    func(x []float32, scale float32) float32       // max x·scale; any number if one of them is NaN
	expSum  func(x []float32, scale, most float32) float32 // x = exp(x·scale − most), and their sum
	largest func(x []float32) uint32
	codes   func(q []int8, x []float32, s float32) int32
	curves
}

var layersGeneric = layers{times, weigh, totals, squares, centre, rotate, peak, expSum, largest, codes, curvesGeneric}

// Scale multiplies x by a.
func Scale(x []float32, a float32) { active.times(x, a) }

func times(x []float32, a float32) {
	for i := range x {
		x[i] *= a
	}
}

// RMSNorm sets dst = x / sqrt(mean(x²) + eps) · w, or · (1+w) with plusOne. dst may be x.
func RMSNorm(dst, x, w []float32, eps float32, plusOne bool) {
	s := float32(1 / math.Sqrt(float64(Dot(x, x)/float32(len(x))+eps)))
	one := float32(math.Copysign(0, -1)) // −0 + w is w, to the bit
	if plusOne {
		one = 1
	}
	active.weigh(dst[:len(x)], x, w[:len(x)], s, one)
}

func weigh(dst, x, w []float32, scale, one float32) {
	for i, v := range x {
		dst[i] = float32(v*scale) * (one + w[i])
	}
}

// LayerNorm sets dst = (x − mean) / sqrt(var + eps) · w + b, with the variance over len(x). Sums are float64, over eight
// lanes: lane l adds the elements l, l+8, l+16 …, then lane l takes lane l+4, l+2, l+1. dst may be x.
func LayerNorm(dst, x, w, b []float32, eps float32) {
	n := len(x) &^ 7
	sums := active.totals(x[:n])
	for i, v := range x[n:] {
		sums[i] += float64(v)
	}
	mean := fold64(&sums) / float64(len(x))
	sums = active.squares(x[:n], mean)
	for i, v := range x[n:] {
		d := float64(v) - mean
		sums[i] += float64(d * d)
	}
	scale := 1 / math.Sqrt(fold64(&sums)/float64(len(x))+float64(eps))
	active.centre(dst[:len(x)], x, w[:len(x)], b[:len(x)], mean, scale)
}

func fold64(s *[8]float64) float64 {
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

func totals(x []float32) (s [8]float64) {
	for ; len(x) >= 8; x = x[8:] {
		for l, v := range x[:8] {
			s[l] += float64(v)
		}
	}
	return s
}

func squares(x []float32, mean float64) (s [8]float64) {
	for ; len(x) >= 8; x = x[8:] {
		for l, v := range x[:8] {
			d := float64(v) - mean
			s[l] += float64(d * d)
		}
	}
	return s
}

func centre(dst, x, w, b []float32, mean, scale float64) {
	for i, v := range x {
		dst[i] = float32(float32((float64(v)-mean)*scale)*w[i]) + b[i]
	}
}

// Rotate turns the pairs (j, j+len(cos)) of x by the angles of cos and sin; the elements behind them stay.
func Rotate(x, cos, sin []float32) {
	n := len(cos)
	active.rotate(x[:n], x[n:2*n], cos, sin[:n])
}

func rotate(lo, hi, cos, sin []float32) {
	for j, c := range cos {
		a, b := lo[j], hi[j]
		lo[j] = float32(a*c) - float32(b*sin[j])
		hi[j] = float32(b*c) + float32(a*sin[j])
	}
}

// Softmax turns scores into probabilities: exp of the differences from the largest, times 1 over their sum, in the order
// of Dot.
func Softmax(x []float32) { SoftmaxScaled(x, 1) }

// SoftmaxScaled is Softmax of x·scale.
func SoftmaxScaled(x []float32, scale float32) {
	sum := active.expSum(x, scale, active.peak(x, scale))
	active.times(x, 1/sum)
}

func peak(x []float32, scale float32) float32 {
	most := float32(math.Inf(-1))
	for _, v := range x {
		if v *= scale; v > most {
			most = v
		}
	}
	return most
}

func expSum(x []float32, scale, most float32) float32 {
	var s [16]float32
	expTail(&s, x, scale, most)
	return fold(&s)
}

// expTail replaces x, which begins at a multiple of 16, and adds it to the lanes.
func expTail(s *[16]float32, x []float32, scale, most float32) {
	for i, v := range x {
		x[i] = exp(float32(v*scale) - most)
		s[i&15] += x[i]
	}
}
