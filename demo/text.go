package demo

import _ "embed"

//go:embed evaluation.txt
var evaluation string

//go:embed calibration.txt
var calibration string

// Evaluation returns the text on which the demo is measured.
func Evaluation() string { return evaluation }

// Calibration returns another text, for what looks at text before anything is measured.
func Calibration() string { return calibration }
