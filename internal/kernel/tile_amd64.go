//go:build !purego

package kernel

//go:generate go -C _asm run ./tile -out ../tile_amd64.s -stubs ../tile_stubs_amd64.go -pkg kernel

var (
	tilesAVX2   = tiles{[]dotTile{{2, 2, dot2x2AVX2}}}
	tilesAVX512 = tiles{[]dotTile{{4, 2, dot4x2AVX512}, {4, 6, dot4x6AVX512}}}
)
