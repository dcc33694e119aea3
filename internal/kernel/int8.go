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

// QuantizeInt8Blocks is QuantizeInt8 of every block columns of x; the last block may be shorter. scales and sums have room
// for all blocks.
func QuantizeInt8Blocks(q []int8, scales []float32, sums []int32, x []float32, block int) {
	for i := 0; len(x) > 0; i++ {
		n := min(block, len(x))
		scales[i], sums[i] = QuantizeInt8(q, x[:n])
		q, x = q[n:], x[n:]
	}
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

// DotInt8 returns Σ w[i]·x[i], exact for up to 2^17 elements. x is at least as long as w.
func DotInt8(w, x []int8) int32 {
	x = x[:len(w)]
	n := len(w) &^ 63
	return active.dotInt8(w[:n], x[:n]) + dotInt8(w[n:], x[n:])
}

// dotInt8 is DotInt8 for slices of the same length.
func dotInt8(w, x []int8) int32 {
	var a, b, c, d int32
	i := 0
	for ; i+8 <= len(w); i += 8 {
		p, q := (*[8]int8)(w[i:]), (*[8]int8)(x[i:])
		a += int32(p[0])*int32(q[0]) + int32(p[4])*int32(q[4])
		b += int32(p[1])*int32(q[1]) + int32(p[5])*int32(q[5])
		c += int32(p[2])*int32(q[2]) + int32(p[6])*int32(q[6])
		d += int32(p[3])*int32(q[3]) + int32(p[7])*int32(q[7])
	}
	for ; i < len(w); i++ {
		a += int32(w[i]) * int32(x[i])
	}
	return a + b + c + d
}
