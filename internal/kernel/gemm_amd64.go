//go:build !purego

package kernel

//go:generate go -C _asm run ./gemm -set avx2 -out ../gemm_avx2_amd64.s -stubs ../gemm_avx2_stubs_amd64.go -pkg kernel
//go:generate go -C _asm run ./gemm -set avx512 -out ../gemm_avx512_amd64.s -stubs ../gemm_avx512_stubs_amd64.go -pkg kernel
//go:generate go -C _asm run ./gemm -set bf16 -out ../gemm_bf16_amd64.s -stubs ../gemm_bf16_stubs_amd64.go -pkg kernel

var (
	gemmsAVX2 = gemms{
		Outer[float32]{4, 8, 16, []outer[float32]{add32x1AVX2, add32x2AVX2}, []outer[float32]{sub32x1AVX2, sub32x2AVX2}, nil},
		Outer[float64]{4, 4, 8, []outer[float64]{add64x1AVX2, add64x2AVX2}, []outer[float64]{sub64x1AVX2, sub64x2AVX2}, []divider[float64]{dividex1AVX2, dividex2AVX2}},
	}
	gemmsAVX512 = gemms{
		Outer[float32]{
			8, 16, 48,
			[]outer[float32]{add32x1AVX512, add32x2AVX512, add32x3AVX512}, []outer[float32]{sub32x1AVX512, sub32x2AVX512, sub32x3AVX512}, nil,
		},
		Outer[float64]{
			8, 8, 24,
			[]outer[float64]{add64x1AVX512, add64x2AVX512, add64x3AVX512}, []outer[float64]{sub64x1AVX512, sub64x2AVX512, sub64x3AVX512},
			[]divider[float64]{dividex1AVX512, dividex2AVX512, dividex3AVX512},
		},
	}
)

var (
	momentsAVX2 = moments{
		Moment{4, 8, 16, 2, false, []momentTile{momentx1AVX2, momentx2AVX2}, nil},
		Moment{4, 8, 24, 2, false, []momentTile{exactMomentx1AVX2, exactMomentx2AVX2, exactMomentx3AVX2}, packMomentsAVX2},
	}
	momentsAVX512 = moments{
		Moment{8, 16, 48, 2, false, []momentTile{momentx1AVX512, momentx2AVX512, momentx3AVX512}, nil},
		Moment{8, 16, 48, 2, false, []momentTile{momentx1AVX512, momentx2AVX512, momentx3AVX512}, packMomentsAVX512},
	}
	momentsBF16 = moments{
		momentsAVX512.moment32,
		Moment{8, 16, 48, 1, false, []momentTile{momentx1BF16, momentx2BF16, momentx3BF16}, packMomentsBF16},
	}
	momentsAMXBF16 = moments{
		momentsAVX512.moment32,
		Moment{PanelRows, PanelRows, PanelRows, 1, true, nil, packMomentsBF16},
	}
)
