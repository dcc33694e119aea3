package fidelity

import (
	"math"
	"math/big"
)

const (
	stepBits = 6
	steps    = 1 << stepBits
	perStep  = steps * math.Log2E
	// ln 2/64 in two parts, of which the first has 33 bits: products with an integer of 17 bits are exact.
	stepHi = 0x1.62e42fefp-7
	stepLo = 0x1.473de6af278edp-40
	// Added to a small number, it rounds to an integer, ties to even, that is in the low bits of the sum.
	integer = 0x1.8p52
	// Of less the exponential is taken for 0. It is a sum's part of 10^-307 at most.
	nothing = -708
)

// roots has 2^(i/64), rounded to nearest.
var roots = func() (t [steps]float64) {
	const precision = 200
	root := new(big.Float).SetPrec(precision).SetInt64(2)
	for range stepBits {
		root.Sqrt(root)
	}
	x := new(big.Float).SetPrec(precision).SetInt64(1)
	for i := range t {
		t[i], _ = x.Float64()
		x.Mul(x, root)
	}
	return t
}()

// powers sets dst[i] = exp(logits[i] − most), within 1.3 ulp, and returns the sum in order. most is the largest logit.
//
// x = n·ln 2/64 + r with an integer n and |r| ≤ ln 2/128, so e^x = 2^(n/64)·e^r, of which the last is a polynomial up to r⁵: what
// follows is less than 2^-54. math.Exp, which is as precise, takes twice as long, and its bits depend on the processor.
func powers(dst []float64, logits []float32, most float64) (sum float64) {
	dst = dst[:len(logits)]
	for i, v := range logits {
		x := float64(v) - most
		var y float64
		if x >= nothing {
			t := float64(x*perStep) + integer
			n := t - integer
			r := x - float64(n*stepHi) - float64(n*stepLo)
			z := float64(r * r)
			p := r + float64(z*((0.5+float64(r*(1./6)))+float64(z*(1./24+float64(r*(1./120))))))
			k := int32(math.Float64bits(t))
			root := roots[k&(steps-1)]
			y = math.Float64frombits(math.Float64bits(root+float64(root*p)) + uint64(int64(k>>stepBits))<<52)
		} else if x != x {
			y = x
		}
		dst[i] = y
		sum += y
	}
	return sum
}
