//go:build !purego

package kernel

//go:generate go -C _asm run ./lanes -out ../lanes_amd64.s -stubs ../lanes_stubs_amd64.go -pkg kernel

// The assembly takes each struct as one run of numbers, Lanes from W on. Loading and levels are eight at a time in both sets.
var (
	waysAVX2   = waysNative(lineWaysAVX2, minimaWaysAVX2, scaleWaysAVX2, errorWaysAVX2)
	waysAVX512 = waysNative(lineWaysAVX512, minimaWaysAVX512, scaleWaysAVX512, errorWaysAVX512)
)

func waysNative(
	line func(ways *float32, count int, lanes *float32, n int, lo, hi, bottom float32, best *float32),
	minima func(ways *float32, count int, lanes *float32, n int, lo, hi float32, m, best *float32),
	scale, errors func(ways *float32, count int, lanes *float32, n int, lo, hi float32, best *float32),
) ways {
	return ways{
		lay:    func(x *Lanes, w, c []float32) { loadLanesAVX2(&x.W[0], &w[0], &c[0], x.N) },
		scaled: func(x *Lanes, up, upC *[8]float32) { weighLanesAVX2(&x.W[0], &up[0], &upC[0], x.N) },
		line: func(x *Lanes, ways []Way, lo, hi, bottom float32, best *Best) {
			line(&ways[0].Scale[0], len(ways), &x.W[0], x.N, lo, hi, bottom, &best.Loss[0])
		},
		scale: func(x *Lanes, ways []Way, lo, hi float32, best *Best) {
			scale(&ways[0].Scale[0], len(ways), &x.W[0], x.N, lo, hi, &best.Loss[0])
		},
		level: func(x *Lanes, ways []Way, levels *Levels, best *Best) {
			levelWaysAVX2(&ways[0].Scale[0], len(ways), &x.W[0], x.N, &levels.values[0], &levels.middles[0], &best.Loss[0])
		},
		errors: func(x *Lanes, ways []Way, lo, hi float32, best *Best) {
			errors(&ways[0].Scale[0], len(ways), &x.W[0], x.N, lo, hi, &best.Loss[0])
		},
		minima: func(x *Lanes, ways []Way, lo, hi float32, m *Minima, best *Best) {
			minima(&ways[0].Scale[0], len(ways), &x.W[0], x.N, lo, hi, &m.M[0], &best.Loss[0])
		},
		steps: func(dst *[3][8]float32, integers, unit *[8]float64, share, lo, hi, not float64) {
			stepsAVX2(&dst[0][0], &integers[0], &unit[0], share, lo, hi, not)
		},
		ends: func(y *Way, upper, floor *[8]float32, top float32) { endsAVX2(&y.Scale[0], &upper[0], &floor[0], top) },
		flat: func(x *Lanes, mean, up, down *[8]float64, unit, inverse, top float64, best *Best) {
			flatAVX2(&x.W[0], &mean[0], &up[0], &down[0], unit, inverse, top, &best.Loss[0])
		},
	}
}
