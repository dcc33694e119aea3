package npu

import (
	"math"

	"nibble/internal/kernel"
)

// The curves of ONNX Runtime, whose rounding shows where a value lies between two codes. Their coefficients are Eigen's, as quotients of
// polynomials for sigmoid and tanh, and those of a published approximation of erf.

// horner is a polynomial, the highest power first.
func horner(x float32, coefficients ...float32) float32 {
	p := coefficients[0]
	for _, c := range coefficients[1:] {
		p = kernel.FMA(p, x, c)
	}
	return p
}

// sigmoid is 1/(1+e^-x).
func sigmoid(x float32) float32 {
	x = min(max(x, -18), 18)
	square := float32(x * x)
	p := x * horner(square, 4.37031012579801e-11, 1.15627324459942e-07, 6.08574864600143e-05, 8.51377133304701e-03, 2.48287947061529e-01)
	q := horner(square, 6.10247389755681e-13, 5.76102136993427e-09, 6.29106785017040e-06, 1.70198817374094e-03, 1.16817656904453e-01, 9.93151921023180e-01)
	return max(float32(p)/q+0.5, 0)
}

func tanh(x float32) float32 {
	x = min(max(x, -9), 9)
	square := float32(x * x)
	p := x * horner(square, -2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08, 1.48572235717979e-05,
		6.37261928875436e-04, 4.89352455891786e-03)
	return float32(p) / horner(square, 1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)
}

// e^x of what is not above 0 is 2^n times a polynomial of x - n·ln2, which is taken off in two parts.
const (
	log2e     = 1.44269504088896341
	ln2High   = -6.93145752e-1
	ln2Low    = -1.42860677e-6
	toInteger = 3 << 22
)

// reduced returns n and x - n·ln2.
func reduced(x float32) (n int, rest float32) {
	f := kernel.FMA(log2e, x, toInteger) - toInteger
	return int(f), kernel.FMA(f, ln2Low, kernel.FMA(f, ln2High, x))
}

func exp(x float32) float32 {
	n, x := reduced(max(x, -103.9720840454))
	return float32(math.Ldexp(float64(horner(x, 0x1.694p-10, 0x1.125edcp-7, 0x1.555b5ap-5, 0x1.55545p-3, 0x1.fffff6p-2, 1, 1)), n))
}

// erf is odd: a polynomial near 0, from there on 1 - e^-p(x).
func erf(x float32) float32 {
	a := min(max(x, -x), 3.925)
	var y float32
	if a > 0.921875 {
		p := kernel.FMA(horner(a, 1.72948930e-5, -3.83208680e-4, 3.88393435e-3, -2.42545605e-2, 1.06777847e-1, 6.34846687e-1, 1.28717512e-1), a, a)
		n, r := reduced(max(-p, -88.3762626647949))
		y = 1 - float32(math.Ldexp(float64(horner(r, 1.38319808e-3, 8.37550033e-3, 4.16689515e-2, 1.66664466e-1, 4.99999851e-1, 1, 1)), n))
	} else {
		p := horner(float32(a*a), -5.99104969e-4, 4.99339588e-3, -2.67667342e-2, 1.12818025e-1, -3.76124859e-1, 1.28379151e-1)
		y = kernel.FMA(p, a, a)
	}
	return float32(math.Copysign(float64(y), float64(x)))
}

// gelu is x·Φ(x).
func gelu(x float32) float32 { return float32(0.5*x) * (erf(float32(x*math.Sqrt2/2)) + 1) }

// geluTanh is gelu with tanh for Φ.
func geluTanh(x float32) float32 {
	const root, cube = 0.7978845608028654, 0.035677408136300125 // sqrt(2/π), and 0.044715 of it
	return float32(0.5*x) * (tanh(float32(x*(float32(float32(cube*x)*x)+root))) + 1)
}

// curve sets dst to f of x, element by element.
func curve(dst, x []float32, f func(float32) float32) {
	for i, v := range x {
		dst[i] = f(v)
	}
}
