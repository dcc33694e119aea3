package quant

import (
	"math"
	"testing"
)

// Figures worked out by hand: w² = 1 + 4 + 9 + 16 + 25 = 55, errors .5, 0, −1, 0, .25.
func TestNoise(t *testing.T) {
	var n Noise
	n.Add([]float32{1, -2, 3, -4, 5}, []float32{1.5, -2, 2, -4, 5.25})
	if n.Signal != 55 || n.Error != 0.25+1+0.0625 || n.Max != 1 || n.Count != 5 {
		t.Errorf("%+v", n)
	}
	if got, want := n.SQNR(), 10*math.Log10(55/1.3125); got != want {
		t.Errorf("SQNR %v, want %v", got, want)
	}
	var whole, parts, strip Noise
	rows := [][]float32{{1, 2}, {3, 4}, {5, 6}}
	for _, r := range rows {
		whole.Add(r, []float32{0, 0})
	}
	parts.Add(rows[0], []float32{0, 0})
	strip.Add(rows[1], []float32{0, 0})
	strip.Add(rows[2], []float32{0, 0})
	parts.Merge(strip)
	if parts != whole {
		t.Errorf("in strips %+v, as a whole %+v", parts, whole)
	}
	if same := (Noise{Signal: 1}); !math.IsInf(same.SQNR(), 1) {
		t.Errorf("without noise: %v dB", same.SQNR())
	}
}

// The three formulas of the package comment, and a map of channels to groups.
func TestDequantize(t *testing.T) {
	m := NewMatrix(1, 4, 4, 2, Symmetric)
	copy(m.Codes, []uint8{0, 15, 8, 9})
	copy(m.Scales, []float32{0.5, -2})
	check := func(name string, want ...float32) {
		t.Helper()
		if err := m.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i, got := range m.Dequantize() {
			if got != want[i] {
				t.Errorf("%s: weight %d is %v, want %v", name, i, got, want[i])
			}
		}
	}
	check("symmetric", -4, 3.5, 0, -2)
	m.Zero, m.Zeros = Integer, []uint8{0, 9}
	check("integer zero", 0, 7.5, 2, 0)
	m.GroupOf = []int32{1, 0, 0, 1}
	check("integer zero, mapped", 18, 7.5, 4, 0)
	m.Zero, m.Zeros, m.Bias = Float, nil, []float32{0.25, 10}
	check("float zero, mapped", 26, 3.75, 0.25, 8)
	m.GroupOf = nil
	check("float zero", -3.75, 3.75, 10, 8)
	for _, spoilt := range []*Matrix{
		{N: 1, K: 2, Bits: 4, Group: 2, Codes: []uint8{16, 0}, Scales: []float32{1}},
		{N: 1, K: 2, Bits: 4, Group: 1, Codes: []uint8{1, 0}, Scales: []float32{1}},
		{N: 1, K: 2, Bits: 4, Group: 1, Codes: []uint8{1, 0}, Scales: []float32{1, 1}, GroupOf: []int32{0, 2}},
		{N: 1, K: 2, Bits: 9, Group: 1, Codes: []uint8{1, 0}, Scales: []float32{1, 1}},
		{N: 1, K: 2, Bits: 4, Group: 1, Zero: Integer, Codes: []uint8{1, 0}, Scales: []float32{1, 1}},
	} {
		if spoilt.Check() == nil {
			t.Errorf("%+v passed", *spoilt)
		}
	}
}
