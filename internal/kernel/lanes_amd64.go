//go:build !purego

package kernel

//go:generate go -C _asm run ./lanes -out ../lanes_amd64.s -stubs ../lanes_stubs_amd64.go -pkg kernel

// The assembly takes each struct as one run of numbers, Lanes from W on. Loading and levels are eight at a time in both sets.
var (
	waysAVX2 = ways{
		lay:    loadLanesNative,
		scaled: weighLanesNative,
		line: func(x *Lanes, ways []Way, lo, hi, bottom float32, best *Best) {
			lineWaysAVX2(&ways[0].Scale[0], len(ways), &x.W[0], x.N, lo, hi, bottom, &best.Loss[0])
		},
		scale: func(x *Lanes, ways []Way, lo, hi float32, best *Best) {
			scaleWaysAVX2(&ways[0].Scale[0], len(ways), &x.W[0], x.N, lo, hi, &best.Loss[0])
		},
		level: levelWaysNative,
		errors: func(x *Lanes, ways []Way, lo, hi float32, best *Best) {
			errorWaysAVX2(&ways[0].Scale[0], len(ways), &x.W[0], x.N, lo, hi, &best.Loss[0])
		},
		minima: func(x *Lanes, ways []Way, lo, hi float32, m *Minima, best *Best) {
			minimaWaysAVX2(&ways[0].Scale[0], len(ways), &x.W[0], x.N, lo, hi, &m.M[0], &best.Loss[0])
		},
	}
	waysAVX512 = ways{
		lay:    loadLanesNative,
		scaled: weighLanesNative,
		line: func(x *Lanes, ways []Way, lo, hi, bottom float32, best *Best) {
			lineWaysAVX512(&ways[0].Scale[0], len(ways), &x.W[0], x.N, lo, hi, bottom, &best.Loss[0])
		},
		scale: func(x *Lanes, ways []Way, lo, hi float32, best *Best) {
			scaleWaysAVX512(&ways[0].Scale[0], len(ways), &x.W[0], x.N, lo, hi, &best.Loss[0])
		},
		level: levelWaysNative,
		errors: func(x *Lanes, ways []Way, lo, hi float32, best *Best) {
			errorWaysAVX512(&ways[0].Scale[0], len(ways), &x.W[0], x.N, lo, hi, &best.Loss[0])
		},
		minima: func(x *Lanes, ways []Way, lo, hi float32, m *Minima, best *Best) {
			minimaWaysAVX512(&ways[0].Scale[0], len(ways), &x.W[0], x.N, lo, hi, &m.M[0], &best.Loss[0])
		},
	}
)

func loadLanesNative(x *Lanes, w, c []float32) { loadLanesAVX2(&x.W[0], &w[0], &c[0], x.N) }

func weighLanesNative(x *Lanes, up, upC *[8]float32) {
	weighLanesAVX2(&x.W[0], &up[0], &upC[0], x.N)
}

func levelWaysNative(x *Lanes, ways []Way, levels *Levels, best *Best) {
	levelWaysAVX2(&ways[0].Scale[0], len(ways), &x.W[0], x.N, &levels.values[0], &levels.middles[0], &best.Loss[0])
}
