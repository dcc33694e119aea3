//go:build !purego

package kernel

//go:generate go -C _asm run ./dot -out ../dot_amd64.s -stubs ../dot_stubs_amd64.go -pkg kernel

var (
	dotsAVX2   = dots{dotByLanes, dotBF16ByLanes, axpyAVX2}
	dotsAVX512 = dots{dotAVX512, dotBF16AVX512, axpyAVX512}
)

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
