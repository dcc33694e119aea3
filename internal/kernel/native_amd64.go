//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

// native returns the sets in assembly that this machine can run, the best last. x/sys/cpu reports AVX2 and AVX-512 only
// where the operating system saves their registers.
func native() []set {
	var list []set
	x := &cpu.X86
	if x.HasAVX2 {
		list = append(list, set{"avx2", dotByLanes, dotBF16ByLanes, axpyAVX2, dotInt8AVX2, gridErrorAVX2})
	}
	if x.HasBMI2 && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512DQ {
		list = append(list, set{"avx512", dotAVX512, dotBF16AVX512, axpyAVX512, dotInt8AVX512, gridErrorAVX512})
		if x.HasAVX512VNNI {
			list = append(list, set{"avx512vnni", dotAVX512, dotBF16AVX512, axpyAVX512, dotInt8VNNI, gridErrorAVX512})
		}
	}
	return list
}

func dotByLanes(x, y []float32) float32 {
	n := len(x) &^ 15
	s := dotAVX2(x[:n], y[:n])
	return dotTail(&s, x, y, n)
}

func dotBF16ByLanes(w []byte, x []float32) float32 {
	n := len(x) &^ 15
	s := dotBF16AVX2(w[:2*n], x[:n])
	return dotBF16Tail(&s, w, x, n)
}
