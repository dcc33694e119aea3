package awq_test

import (
	"fmt"

	"nibble/awq"
	"nibble/quant"
	"nibble/safetensors"
)

// Columns whose inputs are large are scaled up before they are quantized, and the norm before them down: candidates are powers of what
// the inputs are like, and the one with the least error of outputs is taken.
func Example() {
	variance := []float64{100, 1, 1, 1} // of the inputs, one column ten times as large as the others
	w := []float32{0.03, -0.9, 0.5, 0.8}
	search, err := awq.NewSolver(quant.Spec{Bits: 4, Group: 4, Zero: quant.Integer, Method: quant.RTN, Scale: safetensors.F32})
	if err != nil {
		fmt.Println(err)
		return
	}
	moment := make([]float64, 16) // E[x xᵀ], [K, K]
	for i, v := range variance {
		moment[5*i] = v
	}
	p := awq.NewProblem(moment, 4, 1)
	m := quant.NewMatrix(1, 4, 4, 4, quant.Integer)
	losses := make([]float64, awq.Steps)
	for i := range losses {
		losses[i] = p.Loss(m, w, awq.Candidate(variance, i), search)
	}
	best := awq.Least(losses)
	s := awq.Candidate(variance, best)
	fmt.Println("the first candidate:", awq.Candidate(variance, 0))
	fmt.Println("a better one is found:", losses[best] < losses[0], "it scales the first column up:", s[0] > s[1])
	// Output:
	// the first candidate: [1 1 1 1]
	// a better one is found: true it scales the first column up: true
}
