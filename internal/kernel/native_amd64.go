//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

// native returns the sets in assembly that this machine can run, the best last, and those with other bits. x/sys/cpu reports AVX2 and AVX-512 only
// where the operating system saves their registers.
func native() (list, apart []set) {
	x := &cpu.X86
	if x.HasAVX2 && x.HasF16C && x.HasFMA {
		list = append(list, set{"avx2", dotsAVX2, gridsAVX2, rowsAVX2, packsAVX2, panelsAVX2, tilesAVX2, ceilingsAVX2, layersAVX2, attendsAVX2, gemmsAVX2, momentsAVX2, fusesAVX2, waysAVX2})
	}
	if !x.HasBMI2 || !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512VL || !x.HasAVX512DQ {
		return list, nil
	}
	list = append(list, set{"avx512", dotsAVX512, gridsAVX512, rowsAVX512, packsAVX2, panelsAVX512, tilesAVX512, ceilingsAVX512, layersAVX512, attendsAVX512, gemmsAVX512, momentsAVX512, fusesAVX512, waysAVX512})
	if x.HasAVX512VNNI {
		list = append(list, set{"avx512vnni", dotsVNNI, gridsAVX512, rowsAVX512, packsAVX2, panelsVNNI, tilesAVX512, ceilingsVNNI, layersAVX512, attendsAVX512, gemmsAVX512, momentsAVX512, fusesAVX512, waysAVX512})
		if x.HasAVX512BF16 {
			list = append(list, set{"avx512bf16", dotsVNNI, gridsAVX512, rowsAVX512, packsAVX2, panelsBF16, tilesAVX512, ceilingsBF16, layersAVX512, attendsAVX512, gemmsAVX512, momentsBF16, fusesAVX512, waysAVX512})
			if amxUsable {
				list = append(list, set{"amx", dotsVNNI, gridsAVX512, rowsAVX512, packsAVX2, panelsAMX, tilesAVX512, ceilingsAMX, layersAVX512, attendsAVX512, gemmsAVX512, momentsBF16, fusesAVX512, waysAVX512})
				apart = append(apart, set{"amxbf16", dotsVNNI, gridsAVX512, rowsAVX512, packsAVX2, panelsAMXBF16, tilesAVX512, ceilingsAMXBF16, layersAVX512, attendsAVX512, gemmsAVX512, momentsBF16, fusesAVX512, waysAVX512})
			}
		}
	}
	return list, apart
}
