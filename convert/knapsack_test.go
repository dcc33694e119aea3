package convert

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// optimum is the least cost of all choices that fit, by trying every one.
func optimum(units []unit, room int64) float64 {
	if room < 0 {
		return math.Inf(1)
	}
	if len(units) == 0 {
		return 0
	}
	best := math.Inf(1)
	for _, o := range units[0].options {
		best = min(best, o.cost+optimum(units[1:], room-o.bytes))
	}
	return best
}

// randomUnits returns units with sizes and costs like those of matrices: costs fall by half with every option, more or less.
func randomUnits(r *rand.Rand, n, most, scale int) (units []unit, least, largest int64) {
	units = make([]unit, n)
	for i := range units {
		bytes, cost := int64(1+r.IntN(50*scale)), math.Exp(3*r.NormFloat64())
		var options []option
		for range 1 + r.IntN(most) {
			options = append(options, option{bytes: bytes, cost: cost})
			bytes += int64(1 + r.IntN(40*scale))
			cost *= 0.2 + 0.9*r.Float64() // now and then a larger one is no better
		}
		units[i].options = arrange(options)
		least += units[i].options[0].bytes
		largest += units[i].options[len(units[i].options)-1].bytes
	}
	return units, least, largest
}

func cost(units []unit) (sum float64) {
	for i := range units {
		sum += units[i].now().cost
	}
	return sum
}

// Choices of few units fit, and cost what the best do.
func TestChoose(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		units, least, most := randomUnits(r, 1+r.IntN(7), 5, 1)
		for range 4 {
			room := least + r.Int64N(most-least+5)
			choose(units, room)
			if got, best := cost(units), optimum(units, room); chosenBytes(units) > room || got > best*(1+1e-12) {
				t.Errorf("%d units: %d bytes of %d, cost %v, the best is %v", len(units), chosenBytes(units), room, got, best)
			}
		}
	}
}

// bound is the least cost when parts of steps along the convex hull may be taken: no choice costs less.
func bound(units []unit, room int64) float64 {
	type step struct{ bytes, saved float64 }
	var steps []step
	sum, left := 0.0, float64(room)
	for i := range units {
		o := units[i].options
		sum, left = sum+o[0].cost, left-float64(o[0].bytes)
		for at := 0; at < len(o)-1; {
			to, rate := 0, -1.0
			for k := at + 1; k < len(o); k++ {
				if x := (o[at].cost - o[k].cost) / float64(o[k].bytes-o[at].bytes); x > rate {
					to, rate = k, x
				}
			}
			steps = append(steps, step{float64(o[to].bytes - o[at].bytes), o[at].cost - o[to].cost})
			at = to
		}
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(b.saved/b.bytes, a.saved/a.bytes) })
	for _, s := range steps {
		share := min(1, left/s.bytes)
		sum, left = sum-share*s.saved, left-share*s.bytes
		if left <= 0 {
			break
		}
	}
	return sum
}

// Choices of as many units as large models have come within 0.5 % of what is possible, and take all but a thousandth of the room.
func TestChooseMany(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{60, 240} {
		units, least, most := randomUnits(r, n, 9, 100_000)
		for _, share := range []float64{0.1, 0.3, 0.7} {
			room := least + int64(share*float64(most-least))
			choose(units, room)
			got, best, taken := cost(units), bound(units, room), chosenBytes(units)
			if taken > room || float64(taken) < 0.999*float64(room) || got > 1.005*best {
				t.Errorf("%d units: %d bytes of %d, cost %v, the bound is %v", n, taken, room, got, best)
			}
		}
	}
}

// Of options of one size the cheapest stays, and none that costs no less than a smaller one.
func TestArrange(t *testing.T) {
	got := arrange([]option{{1, 30, 2}, {2, 10, 5}, {3, 20, 5}, {4, 20, 4}, {float, 40, 2}, {5, 40, 1}})
	want := []option{{2, 10, 5}, {4, 20, 4}, {1, 30, 2}, {5, 40, 1}}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: %v, want %v", i, got[i], want[i])
		}
	}
}
