package kernel

import (
	"encoding/binary"
	"math"
)

// dots are the dot products of a set. Slices fit; lengths are multiples of 16 for axpy, whose tails the caller does, and may
// be 0.
type dots struct {
	dot     func(x, y []float32) float32
	dotBF16 func(w []byte, x []float32) float32
	axpy    func(y []float32, a float32, x []float32)
}

var dotsGeneric = dots{dot, dotBF16, axpy}

// Dot returns Σ x[i]·y[i] in the order of the package comment. y is at least as long as x.
func Dot(x, y []float32) float32 { return active.dot(x, y[:len(x)]) }

// DotBF16 returns Dot of x and of len(x) values that w holds in bfloat16, little-endian.
func DotBF16(w []byte, x []float32) float32 { return active.dotBF16(w[:2*len(x)], x) }

// dot is Dot for slices of the same length.
func dot(x, y []float32) float32 {
	n := len(x) &^ 15
	s := dotLanes(x[:n], y[:n])
	return dotTail(&s, x, y, n)
}

// dotTail adds the products from element n on to their lanes, and folds them.
func dotTail(s *[16]float32, x, y []float32, n int) float32 {
	for i := n; i < len(x); i++ {
		s[i&15] += float32(x[i] * y[i])
	}
	return fold(s)
}

// dotBF16 is DotBF16 for slices that fit.
func dotBF16(w []byte, x []float32) float32 {
	n := len(x) &^ 15
	s := dotBF16Lanes(w[:2*n], x[:n])
	return dotBF16Tail(&s, w, x, n)
}

func dotBF16Tail(s *[16]float32, w []byte, x []float32, n int) float32 {
	for i := n; i < len(x); i++ {
		s[i&15] += float32(math.Float32frombits(uint32(binary.LittleEndian.Uint16(w[2*i:]))<<16) * x[i])
	}
	return fold(s)
}

// fold adds up the lanes.
func fold(s *[16]float32) float32 {
	a, b, c, d := s[0]+s[8], s[1]+s[9], s[2]+s[10], s[3]+s[11]
	a, b, c, d = a+(s[4]+s[12]), b+(s[5]+s[13]), c+(s[6]+s[14]), d+(s[7]+s[15])
	return (a + c) + (b + d)
}

// Axpy adds a·x to y, element by element: y[i] += a·x[i], the product rounded first. y is at least as long as x.
func Axpy(y []float32, a float32, x []float32) {
	y = y[:len(x)]
	n := len(x) &^ 15
	active.axpy(y[:n], a, x[:n])
	axpy(y[n:], a, x[n:])
}

// dotLanes returns in lane l Σ x[i]·y[i] over i = l, l+16, l+32 … Both are a multiple of 16 long.
func dotLanes(x, y []float32) (s [16]float32) {
	s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7] = eight(x, y, 0)
	s[8], s[9], s[10], s[11], s[12], s[13], s[14], s[15] = eight(x, y, 8)
	return
}

// eight returns eight of the sixteen lanes: those of the elements first to first+7 of every 16.
func eight(x, y []float32, first int) (a, b, c, d, e, f, g, h float32) {
	for i := first; i+8 <= len(x); i += 16 {
		p, q := (*[8]float32)(x[i:]), (*[8]float32)(y[i:])
		a += float32(p[0] * q[0])
		b += float32(p[1] * q[1])
		c += float32(p[2] * q[2])
		d += float32(p[3] * q[3])
		e += float32(p[4] * q[4])
		f += float32(p[5] * q[5])
		g += float32(p[6] * q[6])
		h += float32(p[7] * q[7])
	}
	return
}

// dotBF16Lanes is dotLanes of x and of the values that w holds in bfloat16.
func dotBF16Lanes(w []byte, x []float32) (s [16]float32) {
	for first := 0; first < 16; first += 4 {
		s[first], s[first+1], s[first+2], s[first+3] = fourBF16(w, x, first)
	}
	return
}

// fourBF16 returns four of the sixteen lanes: those of the elements first to first+3 of every 16.
func fourBF16(w []byte, x []float32, first int) (a, b, c, d float32) {
	for i := first; i+4 <= len(x); i += 16 {
		q, v := (*[4]float32)(x[i:]), binary.LittleEndian.Uint64(w[2*i:])
		lo, hi := uint32(v), uint32(v>>32)
		a += float32(math.Float32frombits(lo<<16) * q[0])
		b += float32(math.Float32frombits(lo&0xffff0000) * q[1])
		c += float32(math.Float32frombits(hi<<16) * q[2])
		d += float32(math.Float32frombits(hi&0xffff0000) * q[3])
	}
	return
}

// axpy is Axpy.
func axpy(y []float32, a float32, x []float32) {
	for i, v := range x {
		y[i] += float32(a * v)
	}
}
