package quant

import (
	"math"
	"testing"
)

// The middle between 10 and 21 is 15.5, which belongs to the upper one.
func TestLevels(t *testing.T) {
	l := NewLevels(10, 21, 200)
	for q, want := range map[float32]float32{-3: 10, 0: 10, 15.4: 10, 15.5: 21, 110.4: 21, 110.5: 200, 255: 200, 1e9: 200,
		float32(math.Inf(-1)): 10, float32(math.Inf(1)): 200} {
		if got := l.Nearest(q); got != want {
			t.Errorf("%v is nearest to %v, not %v", q, want, got)
		}
	}
	if got := l.Nearest(float32(math.NaN())); got != 10 {
		t.Errorf("a NaN is %v", got)
	}
}

// A part has the blocks of its rows.
func TestBlockParts(t *testing.T) {
	m := NewMatrix(3, 64, 4, 16, Float)
	m.Blocks = NewBlocks(3, 64, 32, 5, nil)
	for i := range m.Blocks.Raw {
		m.Blocks.Raw[i] = byte(i)
	}
	p := m.Part(1, 2)
	if p.Unit() != 32 || len(p.Blocks.Raw) != 20 || p.Blocks.Raw[0] != 10 {
		t.Errorf("rows 1 and 2 have blocks %v of %d columns", p.Blocks.Raw, p.Unit())
	}
	if x := m.Like(2, 32); len(x.Blocks.Raw) != 10 || x.Groups() != 2 || x.Zero != Float {
		t.Errorf("the like of 2 rows of 32 columns is %+v", x)
	}
}
