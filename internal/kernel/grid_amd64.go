//go:build !purego

package kernel

//go:generate go -C _asm run ./grid -out ../grid_amd64.s -stubs ../grid_stubs_amd64.go -pkg kernel

var (
	gridsAVX2   = grids{gridErrorAVX2, plainErrorAVX2, encodeAVX2, encodeBF16AVX2, encodeRunsAVX2, coarseAVX2, shiftedAVX2, spanAVX2, split, surveyAVX2, codeSumsAVX2, fillAVX2, sieveAVX2, aboveAVX2}
	gridsAVX512 = grids{gridErrorAVX512, plainErrorAVX512, encodeAVX512, encodeBF16AVX512, encodeRunsAVX2, coarseAVX2, shiftedAVX2, spanAVX512, splitAVX512, surveyAVX512, codeSumsAVX512, fillAVX512, sieveAVX512, aboveAVX512}
)
