//go:build !purego

package kernel

//go:generate go -C _asm run ./pack -out ../pack_amd64.s -stubs ../pack_stubs_amd64.go -pkg kernel

// Shuffles of bytes gain nothing from registers twice as wide: all sets share these.
var packsAVX2 = packs{joinNibblesAVX2, splitNibblesAVX2, weaveAVX2, unweaveAVX2, bandAVX2}
