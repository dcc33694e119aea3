//go:build !purego

package kernel

//go:generate go -C _asm run ./lanes -out ../lanes_amd64.s -stubs ../lanes_stubs_amd64.go -pkg kernel

// Levels are looked up eight at a time in both sets.
var (
	waysAVX2 = ways{
		line: func(x *Lanes, ways []Way, lo, hi float32) {
			lineWaysAVX2(&ways[0].Scale[0], len(ways), &x.W[0], &x.C[0], x.N, lo, hi)
		},
		scale: func(x *Lanes, ways []Way, lo, hi float32) {
			scaleWaysAVX2(&ways[0].Scale[0], len(ways), &x.W[0], &x.C[0], x.N, lo, hi)
		},
		level: levelWaysNative,
	}
	waysAVX512 = ways{
		line: func(x *Lanes, ways []Way, lo, hi float32) {
			lineWaysAVX512(&ways[0].Scale[0], len(ways), &x.W[0], &x.C[0], x.N, lo, hi)
		},
		scale: func(x *Lanes, ways []Way, lo, hi float32) {
			scaleWaysAVX512(&ways[0].Scale[0], len(ways), &x.W[0], &x.C[0], x.N, lo, hi)
		},
		level: levelWaysNative,
	}
)

func levelWaysNative(x *Lanes, ways []Way, levels *Levels) {
	levelWaysAVX2(&ways[0].Scale[0], len(ways), &x.W[0], &x.C[0], x.N, &levels.values[0], &levels.middles[0])
}
