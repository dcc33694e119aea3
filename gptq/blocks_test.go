package gptq_test

import (
	"math"
	"slices"
	"testing"

	"nibble/gptq"
	"nibble/internal/kernel"
	"nibble/quant"
)

// uneven are codes of 8 bits, the 128 of zero not among them.
var uneven = []uint8{1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241}

// inBlocks is a matrix of the vectors' shape: groups of 16 in blocks of 32, of which a byte is stored.
func inBlocks() *quant.Matrix {
	m := quant.NewMatrix(vectorN, vectorK, 8, vectorGroup, quant.Symmetric)
	m.Blocks = quant.NewBlocks(vectorN, vectorK, 32, 1, quant.NewLevels(uneven...))
	return m
}

// search puts the extreme of a group on the outermost level, and stores how many columns of a block are positive.
func search(m *quant.Matrix, w, d []float32) {
	m.EachGroup(w, d, func(slot int, w, _ []float32, codes []uint8) {
		lo, hi := kernel.Extremes(w)
		m.Scales[slot] = max(hi, -lo) / 120
		for i, x := range w {
			codes[i] = uint8(m.Blocks.Levels.Nearest(x/m.Scales[slot] + 128))
		}
	})
	for i := range m.Blocks.Raw {
		m.Blocks.Raw[i] = 0
		for _, x := range w[i*32 : (i+1)*32] {
			if x > 0 {
				m.Blocks.Raw[i]++
			}
		}
	}
}

// Errors are passed on through the groups of a block and from block to block, codes are levels only, and what the search stored
// of a block stands where the block is, whatever the order of columns.
func TestBlocks(t *testing.T) {
	w, h := vectors()
	x, err := gptq.NewHessian(h, vectorK, 32, vectorLambda, 2)
	if err != nil {
		t.Fatal(err)
	}
	plain, fed := inBlocks(), inBlocks()
	search(plain, w, nil)
	x.Solve(fed, w, search)
	before, d := x.Descend(plain, w).Objective(), x.Descend(fed, w)
	after := d.Objective()
	d.Sweep(4)
	if swept := d.Objective(); !(after < before) || !(swept < after) {
		t.Errorf("e H' eᵀ is %v by search, %v with feedback, %v after sweeps", before, after, swept)
	}
	for i, q := range fed.Codes {
		if !slices.Contains(uneven, q) {
			t.Fatalf("code %d is %d", i, q)
		}
	}
	apart := 0.0 // the corrected weights have about as many positive ones as the weights
	for i, n := range fed.Blocks.Raw {
		apart += math.Abs(float64(n) - float64(plain.Blocks.Raw[i]))
	}
	if shifted := moved(plain.Blocks.Raw); !(apart < shifted/2) {
		t.Errorf("stored counts are %v from those of the weights, neighbours' %v", apart, shifted)
	}
}

// moved sums up how far counts are from those of the block of the next row.
func moved(raw []byte) (sum float64) {
	for i := range raw {
		sum += math.Abs(float64(raw[i]) - float64(raw[(i+vectorK/32)%len(raw)]))
	}
	return sum
}

// A group with a scale of 0 has one weight: its codes are 0, and no sweep moves them.
func TestScaleOfZero(t *testing.T) {
	w, h := vectors()
	x := prepare(t, h)
	m := quant.NewMatrix(vectorN, vectorK, 4, vectorGroup, quant.Float)
	x.Solve(m, w, func(m *quant.Matrix, _, _ []float32) {
		for i := range m.Bias {
			m.Bias[i] = 0.5
		}
	})
	d := x.Descend(m, w)
	d.Sweep(2)
	if slices.Max(m.Codes) != 0 || math.IsNaN(d.Objective()) {
		t.Errorf("codes up to %d, e H' eᵀ is %v", slices.Max(m.Codes), d.Objective())
	}
}
