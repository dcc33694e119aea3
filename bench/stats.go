package bench

import (
	"math"
	"slices"
)

// meanStddev returns the mean and the standard deviation of a sample, with n−1; 0 for a single value.
func meanStddev(x []float64) (mean, stddev float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	if len(x) < 2 {
		return mean, 0
	}
	var squares float64
	for _, v := range x {
		squares += float64((v - mean) * (v - mean))
	}
	return mean, math.Sqrt(squares / float64(len(x)-1))
}

// Median returns the middle value, or the mean of the two; 0 of nothing.
func Median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
