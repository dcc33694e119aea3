//go:build !purego

package kernel

//go:generate go -C _asm run ./rows -out ../rows_amd64.s -stubs ../rows_stubs_amd64.go -pkg kernel

var (
	rowsAVX2   = rows{widenAVX2, narrowAVX2, finiteAVX2, extremesAVX2, expandAVX2, liftAVX2, spreadAVX2, noiseAVX2}
	rowsAVX512 = rows{widenAVX512, narrowAVX512, finiteAVX512, extremesAVX512, expandAVX512, liftAVX512, spreadAVX2, noiseAVX512}
)
