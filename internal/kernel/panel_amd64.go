//go:build !purego

package kernel

//go:generate go -C _asm run ./panel -set avx2 -out ../panel_avx2_amd64.s -pkg kernel
//go:generate go -C _asm run ./panel -set avx512 -out ../panel_avx512_amd64.s -pkg kernel
//go:generate go -C _asm run ./panel -set vnni -out ../panel_vnni_amd64.s -pkg kernel

//go:generate go -C _asm run ./pairs -set avx2 -out ../pairs_avx2_amd64.s -pkg kernel
//go:generate go -C _asm run ./pairs -set avx512 -out ../pairs_avx512_amd64.s -pkg kernel
//go:generate go -C _asm run ./pairs -set bf16 -out ../pairs_bf16_amd64.s -pkg kernel

var (
	panelsAVX2 = panels{
		codes4: []tile{{1, codes4x1AVX2}, {2, codes4x2AVX2}, {6, codes4x6AVX2}}, codes8: []tile{{1, codes8x1AVX2}, {2, codes8x2AVX2}, {6, codes8x6AVX2}},
		levels4:    []tile{{1, levels4x1AVX2}},
		pairs:      []tile{{1, pairsx1AVX2}, {2, pairsx2AVX2}, {4, pairsx4AVX2}},
		roundPairs: roundPairsAVX2, unpackLevels: unpackLevelsAVX2, pairs4: pairs4AVX2, pairs8: pairs8AVX2,
		blocks: ksetsAVX2,
	}
	panelsAVX512 = panels{
		codes4:     []tile{{1, codes4x1AVX512}, {2, codes4x2AVX512}, {4, codes4x4AVX512}, {8, codes4x8AVX512}},
		codes8:     []tile{{1, codes8x1AVX512}, {4, codes8x4AVX512}, {8, codes8x8AVX512}},
		levels4:    []tile{{1, levels4x1AVX512}},
		pairs:      []tile{{1, pairsx1AVX512}, {2, pairsx2AVX512}, {4, pairsx4AVX512}, {8, pairsx8AVX512}},
		roundPairs: roundPairsAVX512, unpack8: unpack8AVX512, unpackLevels: unpackLevelsAVX512, pairs4: pairs4AVX512, pairs8: pairs8AVX512,
		blocks: ksetsAVX512,
	}
	panelsVNNI = panels{
		codes4:     []tile{{1, codes4x1VNNI}, {2, codes4x2VNNI}, {4, codes4x4VNNI}, {8, codes4x8VNNI}},
		codes8:     []tile{{1, codes8x1VNNI}, {4, codes8x4VNNI}, {8, codes8x8VNNI}, {12, codes8x12VNNI}},
		levels4:    []tile{{1, levels4x1VNNI}},
		pairs:      panelsAVX512.pairs,
		roundPairs: roundPairsAVX512, unpack8: unpack8AVX512, unpackLevels: unpackLevelsAVX512, pairs4: pairs4AVX512, pairs8: pairs8AVX512,
		blocks: ksetsVNNI,
	}
	panelsBF16 = panels{
		codes4: panelsVNNI.codes4, codes8: panelsVNNI.codes8, levels4: panelsVNNI.levels4,
		pairs:      []tile{{1, pairsx1BF16}, {2, pairsx2BF16}, {4, pairsx4BF16}, {8, pairsx8BF16}, {12, pairsx12BF16}},
		direct4:    []tile{{1, direct4x1BF16}, {2, direct4x2BF16}, {4, direct4x4BF16}, {8, direct4x8BF16}},
		roundPairs: roundPairsAVX512, unpack8: unpack8AVX512, unpackLevels: unpackLevelsAVX512, pairs4: pairs4AVX512, pairs8: pairs8AVX512,
		blocks: ksetsVNNI,
	}
)

// These are Codes4 and Codes8 for the number of tokens behind the x; codes4 and codes8 are the specification.

//go:noescape
func codes4x1AVX2(p *Product)

//go:noescape
func codes4x2AVX2(p *Product)

//go:noescape
func codes4x6AVX2(p *Product)

//go:noescape
func codes8x1AVX2(p *Product)

//go:noescape
func codes8x2AVX2(p *Product)

//go:noescape
func codes8x6AVX2(p *Product)

//go:noescape
func codes4x1AVX512(p *Product)

//go:noescape
func codes4x2AVX512(p *Product)

//go:noescape
func codes4x4AVX512(p *Product)

//go:noescape
func codes4x8AVX512(p *Product)

//go:noescape
func codes8x1AVX512(p *Product)

//go:noescape
func codes8x4AVX512(p *Product)

//go:noescape
func codes8x8AVX512(p *Product)

//go:noescape
func codes4x1VNNI(p *Product)

//go:noescape
func codes4x2VNNI(p *Product)

//go:noescape
func codes4x4VNNI(p *Product)

//go:noescape
func codes4x8VNNI(p *Product)

//go:noescape
func codes8x1VNNI(p *Product)

//go:noescape
func codes8x4VNNI(p *Product)

//go:noescape
func codes8x8VNNI(p *Product)

//go:noescape
func codes8x12VNNI(p *Product)

// These are Levels4 for one token; levels4 is the specification.

//go:noescape
func levels4x1AVX2(p *Product)

//go:noescape
func levels4x1AVX512(p *Product)

//go:noescape
func levels4x1VNNI(p *Product)

// These turn 4-bit codes into 8-bit codes or levels; unpack8 and unpackLevels are the specification.

//go:noescape
func unpackLevelsAVX2(dst, src []byte)

//go:noescape
func unpackLevelsAVX512(dst, src []byte)

//go:noescape
func unpack8AVX512(dst, src []byte)

// These are Pairs and Codes4Pairs for the number of tokens behind the x; pairs is the specification.

//go:noescape
func pairsx1AVX2(p *Product)

//go:noescape
func pairsx2AVX2(p *Product)

//go:noescape
func pairsx4AVX2(p *Product)

//go:noescape
func pairsx1AVX512(p *Product)

//go:noescape
func pairsx2AVX512(p *Product)

//go:noescape
func pairsx4AVX512(p *Product)

//go:noescape
func pairsx8AVX512(p *Product)

//go:noescape
func pairsx1BF16(p *Product)

//go:noescape
func pairsx2BF16(p *Product)

//go:noescape
func pairsx4BF16(p *Product)

//go:noescape
func pairsx8BF16(p *Product)

//go:noescape
func pairsx12BF16(p *Product)

//go:noescape
func direct4x1BF16(p *Product)

//go:noescape
func direct4x2BF16(p *Product)

//go:noescape
func direct4x4BF16(p *Product)

//go:noescape
func direct4x8BF16(p *Product)

// These turn codes less mid into pairs; pairs4 and pairs8 are the specification.

//go:noescape
func pairs4AVX2(dst, src []byte, mid int64)

//go:noescape
func pairs4AVX512(dst, src []byte, mid int64)

//go:noescape
func pairs8AVX2(dst, src []byte, mid int64)

//go:noescape
func pairs8AVX512(dst, src []byte, mid int64)

// These round values to bfloat16, a multiple of 16; roundPairs is the specification.

//go:noescape
func roundPairsAVX2(dst []byte, x []float32) [16]float32

//go:noescape
func roundPairsAVX512(dst []byte, x []float32) [16]float32
