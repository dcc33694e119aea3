package npu

import (
	"slices"
	"testing"
)

// Places of a cache: in order until they are full, then a ring. Seven tokens in a ring of three: positions 4, 5, 6, each in
// its place modulo 3.
func TestSlot(t *testing.T) {
	for _, c := range []struct {
		base, past int
		want       []int
	}{{0, 3, []int{-1, -1, -1}}, {2, 3, []int{0, 1, -1}}, {3, 3, []int{0, 1, 2}}, {4, 3, []int{3, 1, 2}}, {7, 3, []int{6, 4, 5}}} {
		var got []int
		for place := range c.past {
			got = append(got, slot(place, c.base, c.past))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d tokens in %d places: %v, want %v", c.base, c.past, got, c.want)
		}
	}
}

// Two new tokens at positions 5 and 6, a window of 4, a ring of 3 with positions 3, 4, 2: the first sees 2, 3, 4 and itself,
// the second 3, 4, 5 and itself.
func TestMask(t *testing.T) {
	g := &graph{Tokens: 2, Context: 16}
	got := make([]float32, 10)
	g.mask(got, 5, 3, 4, -9)
	if want := []float32{0, 0, 0, 0, -9, 0, 0, -9, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	clear(got)
	g.mask(got, 1, 3, 0, -9) // without a window, one token before
	if want := []float32{0, -9, -9, 0, -9, 0, -9, -9, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestPast(t *testing.T) {
	g := &graph{Tokens: 8, Context: 24}
	for window, want := range map[int]int{0: 16, 100: 16, 24: 16, 5: 4, 20: 16} {
		if got := g.kept(window); got != want {
			t.Errorf("a window of %d keeps %d, want %d", window, got, want)
		}
	}
}
