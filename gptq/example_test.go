package gptq_test

import (
	"fmt"

	"nibble/gptq"
	"nibble/quant"
	"nibble/safetensors"
)

// A solver turns rows of weights into codes and scales. Round to nearest takes max|w|/7.5 as the scale of 4 bits.
func ExampleNewSolver() {
	solve, err := gptq.NewSolver(quant.Spec{Bits: 4, Group: 4, Zero: quant.Symmetric, Method: quant.RTN, Scale: safetensors.F32})
	if err != nil {
		fmt.Println(err)
		return
	}
	w := []float32{-1.5, 0.4, 0.9, 1.5}
	m := quant.NewMatrix(1, 4, 4, 4, quant.Symmetric)
	solve(m, w, nil) // nil: all errors count alike
	fmt.Printf("%.2f %v\n", m.Scales[0], m.Codes)
	// Output:
	// 0.20 [0 10 12 15]
}

// With the second moment of a matrix's inputs, the error of a column is made up for by those behind it: where two inputs are always
// alike, what one weight loses its neighbour gains.
func ExampleHessian_Solve() {
	const k = 3
	search, err := gptq.NewSolver(quant.Spec{Bits: 4, Group: k, Zero: quant.Symmetric, Method: quant.RTN, Scale: safetensors.F32})
	if err != nil {
		fmt.Println(err)
		return
	}
	w := []float32{1.4, 2.4, 7.5} // the scale is 7.5/7.5 = 1
	alone := quant.NewMatrix(1, k, 4, k, quant.Symmetric)
	search(alone, w, nil)
	h, err := gptq.NewHessian([]float64{ // E[x xᵀ], [K, K]: the first two inputs are nearly one
		1, 0.999, 0,
		0.999, 1, 0,
		0, 0, 1,
	}, k, k, 1e-4, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	together := quant.NewMatrix(1, k, 4, k, quant.Symmetric)
	h.Solve(together, w, search)
	fmt.Println(alone.Dequantize(), together.Dequantize())
	// Output:
	// [1 2 7] [1 3 7]
}
