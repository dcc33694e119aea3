//go:build !purego

package kernel

//go:generate go -C _asm run ./pack -out ../pack_amd64.s -stubs ../pack_stubs_amd64.go -pkg kernel

// Shuffles of bytes gain nothing from registers twice as wide: all sets share these.
var packsAVX2 = packs{joinNibblesAVX2, splitNibblesAVX2, weaveAVX2, unweaveAVX2, bandAVX2, lowsAVX2,
	[3]func([]byte, []uint8, int, int64){1: high1AVX2, 2: high2AVX2}}
