package npu

import "math"

// decibels is 10·log10(signal/noise).
func decibels(signal, noise float64) float64 { return 10 * math.Log10(signal/noise) }
