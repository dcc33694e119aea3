package kernel

import "math"

// QuantizeInt8 rounds x to q = rint(x/s), s = max|x|/127, and returns s and Σ q. q is at least as long as x.
//
// A vector of zeros, or of numbers so small that s is 0 in float32, gives s = 0 and codes of 0. A vector with a NaN or an
// infinity gives s = NaN and codes of 0, so that everything computed from it is NaN.
func QuantizeInt8(q []int8, x []float32) (s float32, sum int32) {
	q = q[:len(x)]
	most := active.largest(x)
	s = math.Float32frombits(most) / 127
	switch {
	case most >= 0x7f800000:
		clear(q)
		return float32(math.NaN()), 0
	case s == 0:
		clear(q)
		return 0, 0
	}
	return s, active.codes(q, x, s)
}

// largest returns the bits of max|x|: the order of magnitudes is that of their bits.
func largest(x []float32) (most uint32) {
	for _, v := range x {
		most = max(most, math.Float32bits(v)&^(1<<31))
	}
	return most
}

// codes sets q = rint(x/s) of a QuantizeInt8 and returns Σ q.
func codes(q []int8, x []float32, s float32) (sum int32) {
	for i, v := range x {
		n := int32(math.RoundToEven(float64(v / s)))
		n = max(min(n, 127), -127) // a subnormal s is coarse
		q[i] = int8(n)
		sum += n
	}
	return sum
}
