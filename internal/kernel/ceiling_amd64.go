//go:build !purego

package kernel

//go:generate go -C _asm run ./ceiling -out ../ceiling_amd64.s -stubs ../ceiling_stubs_amd64.go -pkg kernel

var (
	ceilingsAVX2   = ceilings{readAVX2, peakInt8AVX2, peakFloatAVX2}
	ceilingsAVX512 = ceilings{readAVX512, peakInt8AVX512, peakFloatAVX512}
	ceilingsVNNI   = ceilings{readAVX512, peakInt8VNNI, peakFloatAVX512}
	ceilingsBF16   = ceilings{readAVX512, peakInt8VNNI, peakBF16}
)
