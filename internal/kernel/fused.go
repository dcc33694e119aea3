package kernel

import "math"

// fuses are products of a row and a matrix [k, columns] in two orders that other programs have, which simulations of them follow.
// Rows of w are ld elements apart; x has k elements, w (k-1)·ld and the columns of y, which are 64 or 16.
type fuses struct {
	fused64, fused16 func(y, x, w []float32, ld int)
	quads64, quads16 func(y, x, w []float32, ld int)
}

var fusesGeneric = fuses{fused, fused, quads, quads}

// FMA is a·b + c, rounded once.
//
// The product of two float32 is exact in float64. So that the sum, rounded to 53 bits first, is not rounded twice, it is made odd
// where bits were lost: then it is no tie of 24 bits, and lies on the side of one on which the sum lies.
func FMA(a, b, c float32) float32 {
	p, q := float64(float64(a)*float64(b)), float64(c)
	s := p + q
	z := s - p
	lost := (p - (s - z)) + (q - z)
	bits := math.Float64bits(s)
	if lost > 0 || lost < 0 {
		if bits&1 == 0 {
			if (lost > 0) == (s > 0) {
				bits++
			} else {
				bits--
			}
		}
	}
	return float32(math.Float64frombits(bits))
}

// Fused sets y to x times w: y[c] starts at 0 and becomes FMA(x[j], w[j·ld+c], y[c]) for j = 0, 1, 2 …
func Fused(y, x, w []float32, ld int) {
	byColumns(y, x, w, ld, active.fused64, active.fused16, fused)
}

// Quads sets y to x times w, four products at a time: each is rounded, they are added up one after the other, and their sum to
// y[c]. Of what is left two come together, then one.
func Quads(y, x, w []float32, ld int) {
	byColumns(y, x, w, ld, active.quads64, active.quads16, quads)
}

// byColumns cuts the columns.
func byColumns(y, x, w []float32, ld int, wide, narrow, rest func(y, x, w []float32, ld int)) {
	n := len(y)
	for c := 0; c < n; {
		f, width := wide, 64
		switch left := n - c; {
		case left < 16:
			f, width = rest, left
		case left < 64:
			f, width = narrow, 16
		}
		f(y[c:c+width], x, w[min(c, len(w)):], ld)
		c += width
	}
}

// fused is Fused.
func fused(y, x, w []float32, ld int) {
	clear(y)
	for j, a := range x {
		for c, b := range w[j*ld : j*ld+len(y)] {
			y[c] = FMA(a, b, y[c])
		}
	}
}

// quads is Quads.
func quads(y, x, w []float32, ld int) {
	clear(y)
	for at := 0; at < len(x); {
		step := 4
		if left := len(x) - at; left < 4 {
			step = max(left&2, left&1)
		}
		for c := range y {
			t := float32(x[at] * w[at*ld+c])
			for j := at + 1; j < at+step; j++ {
				t += float32(x[j] * w[j*ld+c])
			}
			y[c] += t
		}
		at += step
	}
}
