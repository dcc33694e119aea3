package demo

import _ "embed"

//go:embed evaluation.txt
var evaluation string

// Evaluation returns the text on which the demo is measured.
func Evaluation() string { return evaluation }
