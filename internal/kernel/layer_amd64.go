//go:build !purego

package kernel

//go:generate go -C _asm run ./layer -out ../layer_amd64.s -stubs ../layer_stubs_amd64.go -pkg kernel

var (
	layersAVX2 = layers{
		times: func(x []float32, a float32) {
			n := len(x) &^ 7
			timesAVX2(x[:n], a)
			times(x[n:], a)
		},
		weigh: func(dst, x, w []float32, scale, one float32) {
			n := len(x) &^ 7
			weighAVX2(dst[:n], x[:n], w[:n], scale, one)
			weigh(dst[n:], x[n:], w[n:], scale, one)
		},
		totals: totalsAVX2, squares: squaresAVX2, centre: eightsOf(centreAVX2),
		rotate: func(lo, hi, cos, sin []float32) {
			n := len(cos) &^ 7
			rotateAVX2(lo[:n], hi[:n], cos[:n], sin[:n])
			rotate(lo[n:], hi[n:], cos[n:], sin[n:])
		},
		peak: func(x []float32, scale float32) float32 {
			n := len(x) &^ 7
			return max(peakAVX2(x[:n], scale), peak(x[n:], scale))
		},
		expSum: func(x []float32, scale, most float32) float32 {
			n := len(x) &^ 15
			s := expLanesAVX2(x[:n], scale, most)
			expTail(&s, x[n:], scale, most)
			return fold(&s)
		},
		largest: func(x []float32) uint32 {
			n := len(x) &^ 7
			return max(largestAVX2(x[:n]), largest(x[n:]))
		},
		codes: func(q []int8, x []float32, s float32) int32 {
			n := len(x) &^ 7
			return codesAVX2(q[:n], x[:n], s) + codes(q[n:], x[n:], s)
		},
		curves: curves{
			sigmoids: ofEights(sigmoidsAVX2, sigmoids), silus: ofEights(silusAVX2, silus),
			gelus: ofEights(gelusAVX2, gelus), geluTanhs: ofEights(geluTanhsAVX2, geluTanhs),
			siluGated: gatedEights(siluGatedAVX2, siluGated), geluGated: gatedEights(geluGatedAVX2, geluGated),
			geluTanhGated: gatedEights(geluTanhGatedAVX2, geluTanhGated),
			softcaps: func(x []float32, c float32) {
				n := len(x) &^ 7
				softcapsAVX2(x[:n], c)
				softcaps(x[n:], c)
			},
		},
	}
	layersAVX512 = layers{
		timesAVX512, weighAVX512, totalsAVX512, squaresAVX512, eightsOf(centreAVX512), rotateAVX512,
		peakAVX512, expSumAVX512, largestAVX512, codesAVX512,
		curves{
			sigmoidsAVX512, silusAVX512, gelusAVX512, geluTanhsAVX512,
			siluGatedAVX512, geluGatedAVX512, geluTanhGatedAVX512, softcapsAVX512,
		},
	}
)

// ofEights is a curve whose assembly takes multiples of 8.
func ofEights(native, plain func(dst, x []float32)) func(dst, x []float32) {
	return func(dst, x []float32) {
		n := len(x) &^ 7
		native(dst[:n], x[:n])
		plain(dst[n:], x[n:])
	}
}

func gatedEights(native, plain func(dst, gate, up []float32)) func(dst, gate, up []float32) {
	return func(dst, gate, up []float32) {
		n := len(gate) &^ 7
		native(dst[:n], gate[:n], up[:n])
		plain(dst[n:], gate[n:], up[n:])
	}
}

// eightsOf is centre by an assembly that takes multiples of 8.
func eightsOf(native func(dst, x, w, b []float32, mean, scale float64)) func(dst, x, w, b []float32, mean, scale float64) {
	return func(dst, x, w, b []float32, mean, scale float64) {
		n := len(x) &^ 7
		native(dst[:n], x[:n], w[:n], b[:n], mean, scale)
		centre(dst[n:], x[n:], w[n:], b[n:], mean, scale)
	}
}
