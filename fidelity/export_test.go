package fidelity

// For tests that need package convert, which imports this one.
var (
	LoadModel  = load
	Evaluation = evaluation
)
