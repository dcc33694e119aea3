package quant_test

import (
	"fmt"

	"nibble/quant"
)

// A matrix is codes with the parameters of their groups: here one row of two groups, ŵ = s·(q − 8).
func ExampleMatrix() {
	m := quant.NewMatrix(1, 4, 4, 2, quant.Symmetric) // [1, 4], 4 bits, groups of 2
	copy(m.Codes, []uint8{15, 8, 0, 9})
	copy(m.Scales, []float32{0.5, 0.25})
	fmt.Println(m.Dequantize())

	var n quant.Noise
	n.Add([]float32{3.5, 0.1, -2, 0.25}, m.Dequantize())
	fmt.Printf("%d weights, largest error %.1f, SQNR %.1f dB\n", n.Count, n.Max, n.SQNR())
	// Output:
	// [3.5 0 -2 0.25]
	// 4 weights, largest error 0.1, SQNR 32.1 dB
}

// An IntGrid is what one group's weights are rounded to.
func ExampleIntGrid() {
	w := []float32{-0.8, -0.2, 0.15, 0.7}
	g := quant.SymmetricGrid(0.1, 4)
	codes := make([]uint8, len(w))
	g.Encode(codes, w)
	fmt.Println(codes)
	fmt.Printf("%.4f\n", g.Error(w, nil))
	// Output:
	// [0 6 10 15]
	// 0.0025
}
