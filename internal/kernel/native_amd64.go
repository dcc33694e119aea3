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
	s := set{"avx512", dotsAVX512, gridsAVX512, rowsAVX512, packsAVX2, panelsAVX512, tilesAVX512, ceilingsAVX512, layersAVX512, attendsAVX512, gemmsAVX512, momentsAVX512, fusesAVX512, waysAVX512}
	list = append(list, s)
	if !x.HasAVX512VNNI {
		return list, nil
	}
	s.name, s.panels, s.ceilings = "avx512vnni", panelsVNNI, ceilingsVNNI
	list = append(list, s)
	if !x.HasAVX512BF16 {
		return list, nil
	}
	s.name, s.panels, s.ceilings, s.moments = "avx512bf16", panelsBF16, ceilingsBF16, momentsBF16
	list = append(list, s)
	if !amxUsable {
		return list, nil
	}
	s.name, s.panels, s.ceilings = "amx", panelsAMX, ceilingsAMX
	list = append(list, s)
	s.name, s.panels, s.ceilings, s.moments = "amxbf16", panelsAMXBF16, ceilingsAMXBF16, momentsAMXBF16
	return list, []set{s}
}
