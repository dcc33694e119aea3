package asym_test

import (
	"fmt"

	"nibble/asym"
	"nibble/safetensors"
)

// The grid of cpu_int4 has a float zero, ŵ = s·(q − 8) + b, so that sixteen equidistant weights anywhere are held as they are.
func ExampleSearchGroup() {
	w := make([]float32, 16)
	for i := range w {
		w[i] = 3 + 0.25*float32(i)
	}
	g := asym.SearchGroup(w, nil, safetensors.F32)
	codes := make([]uint8, len(w))
	g.Encode(codes, w)
	fmt.Println(g.Scale, g.Bias)
	fmt.Println(codes)
	// Output:
	// 0.25 5
	// [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15]
}
