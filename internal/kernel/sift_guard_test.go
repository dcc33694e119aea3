//go:build unix

package kernel

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

// Loops over candidates read and write the lanes that they are given, all of them and no others: beside them is memory that
// must not be touched.
func TestGuardPagesOfTrials(t *testing.T) { underEach(t, testGuardPagesOfTrials) }

func testGuardPagesOfTrials(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 17))
	for _, atEnd := range []bool{true, false} {
		memory := make([][]byte, 9)
		for i := range memory {
			memory[i] = guarded(t, 4*MaxTrials, atEnd)
		}
		// part is the n lanes of slice i that touch the guard.
		part := func(i, n int) []float32 {
			b := memory[i]
			if atEnd {
				return floatsOf(b[len(b)-4*n:])
			}
			return floatsOf(b[:4*n])
		}
		whole := func(i int) *lanes { return (*lanes)(unsafe.Pointer(unsafe.SliceData(memory[i]))) }

		for _, x := range [][8]float32{{0, 2, -1, 0, 0, 15, 0, 15}, {0.5, 1, -1, 1, 8, 0, -8, 7}} {
			var want [5]lanes
			for i := range whole(0) {
				whole(0)[i], whole(1)[i], whole(2)[i] = 0.75+0.25*r.Float32(), 0.75+0.25*r.Float32(), 15
			}
			active.fill(x, whole(0), whole(1), whole(2), whole(3), whole(4), whole(5), whole(6), whole(7))
			fill(x, whole(0), whole(1), whole(2), &want[0], &want[1], &want[2], &want[3], &want[4])
			for i := range want {
				for l := range want[i] { // a zero may have either sign
					want[i][l], whole(3 + i)[l] = want[i][l]+0, whole(3 + i)[l]+0
				}
				sameBits(t, "fill", i, whole(3 + i)[:], want[i][:])
			}
		}

		for n := 0; n <= MaxTrials; n += 16 {
			squares, scale, sub, low := part(0, n), part(1, n), part(2, n), part(3, n)
			for i := range squares {
				squares[i], scale[i], sub[i], low[i] = r.Float32(), r.Float32()-0.5, r.Float32(), -1
			}
			x, plain := [4]float32{0x1p-16, 0x1p-16, 1, 16}, make([]float32, n)
			least, want := active.sieve(x, squares, scale, sub, low), sieve(x, squares, scale, sub, plain)
			if least != want {
				t.Fatalf("sieve, length %d: %v, want %v", n, least, want)
			}
			sameBits(t, "sieve", n, low, plain)
			if got, want := active.above(low, 0.25), above(low, 0.25); got != want {
				t.Fatalf("above, length %d: %b, want %b", n, got, want)
			}

			if a, b := active.span(scale, low, squares, sub); n > 0 {
				c, d := span(scale, low, squares, sub)
				sameBits(t, "span", n, []float32{a, b}, []float32{c, d})
			}

			// Weights of any length, and lanes that are half of a register of the largest.
			for _, length := range []int{0, 1, 7, 16, 31, 48} {
				n := max(n-8, 0)
				squares, low, plain := part(0, n), part(3, n), plain[:n]
				inverse, lo, hi, w, v, d, e := part(1, n), part(2, n), part(4, n), part(5, length), part(6, length), part(7, length), part(8, length)
				for i := range inverse {
					inverse[i], lo[i], hi[i], low[i] = 1+r.Float32(), -8, 7, r.Float32()
				}
				for i := range w {
					w[i], v[i], d[i], e[i] = 8*(r.Float32()-0.5), 8*(r.Float32()-0.5), r.Float32(), r.Float32()
				}
				active.coarse(squares, inverse, lo, hi, v, w, d, e)
				coarse(plain, inverse, lo, hi, v, w, d, e)
				sameBits(t, "coarse", n, squares, plain)
				active.shifted(squares, inverse, lo, hi, low, v, w, d, e)
				shifted(plain, inverse, lo, hi, low, v, w, d, e)
				sameBits(t, "shifted", n, squares, plain)
			}
		}

		for n := 0; n <= MaxTrials; n += 16 {
			inner, outer, w, innerD, outerD, d := part(0, n), part(1, n), part(2, n), part(3, n), part(4, n), part(5, n)
			for i := range w {
				w[i], d[i] = r.Float32(), r.Float32()
			}
			for _, high := range []float32{-1, 0.5, 2} { // none, some and all are inside
				a, b, c, e := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
				got, want := active.split(inner, outer, innerD, outerD, w, d, 0.1, high), split(a, b, c, e, w, d, 0.1, high)
				if got != want {
					t.Fatalf("split, length %d: %d are inside, want %d", n, got, want)
				}
				sameBits(t, "split", n, inner[:got], a[:got])
				sameBits(t, "split", n, outer[:n-got], b[:n-got])
				sameBits(t, "split", n, innerD[:got], c[:got])
				sameBits(t, "split", n, outerD[:n-got], e[:n-got])
			}
		}
	}
}
