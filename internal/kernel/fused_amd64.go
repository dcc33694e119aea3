//go:build !purego

package kernel

//go:generate go -C _asm run ./fused -out ../fused_amd64.s -stubs ../fused_stubs_amd64.go -pkg kernel

var (
	fusesAVX2   = fuses{fused64AVX2, fused16AVX2, quads64AVX2, quads16AVX2}
	fusesAVX512 = fuses{fused64AVX512, fused16AVX512, quads64AVX512, quads16AVX512}
)
