package kernel

import "math"

// The curves of a network, in float32 alone: a vector of them has the bits of what is written here for one element. Bounds
// in ulp, units in the last place of the result, hold where it is a normal number.

// exp(x) = 2^n · (1 + r + r²·p(r)) with x = n·ln2 + r; ln2 is the sum of a number of 9 bits, so that n·ln2Hi is exact, and
// of the rest. p is a minimax polynomial.
const (
	log2e    = 0x1.715476p+0
	ln2Hi    = 0x1.63p-1
	ln2Lo    = -0x1.bd0106p-13
	expP0    = 0x1.fffffcp-2
	expP1    = 0x1.555492p-3
	expP2    = 0x1.5558f2p-5
	expP3    = 0x1.1239d8p-7
	expP4    = 0x1.6a2444p-10
	expMin   = -104 // e^expMin is 0
	expMax   = 89   // e^expMax is infinite
	expShift = 3 << 22
)

// exp returns e^x within 1 ulp: an infinity above 88.7, 0 below −104, NaN of NaN.
func exp(x float32) float32 {
	if x < expMin {
		x = expMin
	} else if x > expMax {
		x = expMax
	}
	t := float32(x*log2e) + expShift // n, rounded to even, in the low bits
	n := t - expShift
	r := x - float32(n*ln2Hi) - float32(n*ln2Lo)
	z := float32(r * r)
	p := float32(expP4*z) + (float32(expP3*r) + expP2) // in pairs: a short chain of operations
	p = float32(p*z) + (float32(expP1*r) + expP0)
	y := 1 + (r + float32(z*p))
	k := int32(math.Float32bits(t)) - 0x4b400000
	half := k >> 1 // in two steps, of which the first is exact
	return float32(float32(y*exp2(half)) * exp2(k-half))
}

// exp2 returns 2^k of a small k.
func exp2(k int32) float32 { return math.Float32frombits(uint32(k+127) << 23) }

// tanh is odd: up to tanhSmall it is u + u³·p(u²), with a minimax polynomial, from there on (1−e)/(1+e), e = exp(−2u).
const (
	tanhSmall = 0.625
	tanhP0    = -0x1.555532p-2
	tanhP1    = 0x1.110726p-3
	tanhP2    = -0x1.b83c5ap-5
	tanhP3    = 0x1.52269cp-6
	tanhP4    = -0x1.75e1ccp-8
)

// tanh returns the hyperbolic tangent within 2 ulp.
func tanh(u float32) float32 {
	a := math.Float32frombits(math.Float32bits(u) &^ (1 << 31))
	if a < tanhSmall {
		z := float32(u * u)
		p := float32(tanhP4*z) + tanhP3
		p = float32(p*z) + tanhP2
		p = float32(p*z) + tanhP1
		p = float32(p*z) + tanhP0
		return u + float32(float32(u*z)*p)
	}
	e := exp(-2 * a)
	return math.Float32frombits(math.Float32bits((1-e)/(1+e)) | math.Float32bits(u)&(1<<31))
}

// Sigmoid returns 1/(1+exp(−x)) within 3 ulp; below −88.7 it is 0.
func Sigmoid(x float32) float32 { return 1 / (1 + exp(-x)) }

// SiLU returns x·sigmoid(x) within 3 ulp; below −88.7 it is −0.
func SiLU(x float32) float32 { return x / (1 + exp(-x)) }

// GELU through the error function is max(x, 0) − a·Φ(−a), a = |x|. Φ(−a) = exp(−a²/2)·p(s), s = (a−3)/(a+3), with a minimax
// polynomial.
const (
	geluMax = 15 // Φ(−geluMax) is 0
	geluP0  = 0x1.f1b89cp-4
	geluP1  = -0x1.a6b66ap-3
	geluP2  = 0x1.f8badp-4
	geluP3  = -0x1.7a944cp-5
	geluP4  = 0x1.91df14p-8
	geluP5  = 0x1.7cb4bep-9
	geluP6  = -0x1.01e2eep-10
	geluP7  = -0x1.63f9dep-12
	geluP8  = 0x1.e4a076p-14
	geluP9  = 0x1.c23bfep-15
)

// GELU returns x·Φ(x), Φ the normal distribution, within 1e-7·max(1, |x|).
func GELU(x float32) float32 {
	a := min(math.Float32frombits(math.Float32bits(x)&^(1<<31)), geluMax)
	s := (a - 3) / (a + 3)
	p := float32(geluP9*s) + geluP8
	p = float32(p*s) + geluP7
	p = float32(p*s) + geluP6
	p = float32(p*s) + geluP5
	p = float32(p*s) + geluP4
	p = float32(p*s) + geluP3
	p = float32(p*s) + geluP2
	p = float32(p*s) + geluP1
	p = float32(p*s) + geluP0
	tail := float32(exp(float32(-0.5*float32(a*a))) * p)
	return max(x, 0) - float32(a*tail)
}

// GELU's tanh approximation, ½x·(1+tanh(√(2/π)·(x+0.044715x³))), is x/(1+exp(x·(g+h·x²))).
const (
	geluG = -0x1.988454p+0 // −2·√(2/π)
	geluH = -0x1.2444f2p-4 // 0.044715·g
)

// GELUTanh returns the tanh approximation of GELU within 1.5e-7·max(1, |x|).
func GELUTanh(x float32) float32 {
	return x / (1 + exp(float32(x*(geluG+float32(geluH*float32(x*x))))))
}

// Softcap returns c·tanh(x/c) within 3 ulp where x/c is a normal number.
func Softcap(x, c float32) float32 { return c * tanh(x/c) }
