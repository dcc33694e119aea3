//go:build !purego

package kernel

//go:generate go -C _asm run ./attend -part avx2 -out ../attend_avx2_amd64.s -stubs ../attend_avx2_stubs_amd64.go -pkg kernel
//go:generate go -C _asm run ./attend -part scores -out ../attend_scores_amd64.s -stubs ../attend_scores_stubs_amd64.go -pkg kernel
//go:generate go -C _asm run ./attend -part values -out ../attend_values_amd64.s -stubs ../attend_values_stubs_amd64.go -pkg kernel

var (
	attendsAVX2 = attends{
		[storedTypes]attend{fours(scoresF32AVX2), fours(scoresBF16AVX2), fours(scoresF16AVX2), fours(scoresInt8AVX2)},
		[storedTypes]attend{fours(valuesF32AVX2), fours(valuesBF16AVX2), fours(valuesF16AVX2), fours(valuesInt8AVX2)},
		narrowF16AVX2,
	}
	attendsAVX512 = attends{
		[storedTypes]attend{scoresF32AVX512, scoresBF16AVX512, scoresF16AVX512, scoresInt8AVX512},
		[storedTypes]attend{valuesF32AVX512, valuesBF16AVX512, valuesF16AVX512, valuesInt8AVX512},
		narrowF16AVX512,
	}
)

// fours does eight rows in two calls.
func fours(f attend) attend {
	return func(to []float32, ldt int, from []float32, ldf int, data []byte, stride, rows, n, dim int) {
		f(to, ldt, from, ldf, data, stride, min(rows, 4), n, dim)
		if rows == 8 {
			f(to[4*ldt:], ldt, from[4*ldf:], ldf, data, stride, 4, n, dim)
		}
	}
}
