package block

import (
	"math"

	"nibble/internal/half"
	"nibble/internal/kernel"
)

// tile is eight runs of weights side by side, each with one scale, the importance of each weight, and what the searches need of them. Weights
// of a run are multiplied by a power of two that brings the greatest between 1 and 2, and importances by one that all runs of a block have:
// all numbers here are in these units, but those of down.
type tile struct {
	values      *grid
	lanes       kernel.Lanes
	down        [8]float64 // what brings weights of a run back
	sumC, sumCW [8]float64
	energy      [8]float64 // Σcw²
	least, most [8]float64 // extremes of w
	ways        [9]kernel.Way
	best        [8]fit // what a search found
}

// fit is parameters, w ≈ scale·q − floor, with the loss Σc(ŵ − w)² that they have.
type fit struct{ scale, floor, loss float64 }

// grid is the values that codes stand for: the integers from lo to hi or, where these are equal, the levels.
type grid struct{ lo, hi float64 }

// levelled says that codes stand for the levels.
func (v *grid) levelled() bool { return v.lo == v.hi }

// levelTable are the levels for the kernels.
var levelTable = kernel.NewLevels(levels)

// levelOf returns the code of the level that is nearest to t, of the upper one in the middle of two.
func levelOf(t float64) uint8 { return uint8(levelTable.Nearest(float32(t))) }

// power returns the power of two that brings |x| between 1 and 2, of 0 and infinity 1.
func power(x float64) float64 {
	exponent := math.Float64bits(x) >> 52 & 0x7ff
	if exponent == 0 || exponent == 0x7ff {
		return 1
	}
	return math.Float64frombits((2046 - exponent) << 52)
}

// greatest returns the greatest importance.
func greatest(c []float32) float64 {
	most := float32(0)
	for _, x := range c {
		if x > most {
			most = x
		}
	}
	return float64(most)
}

// nothing is what weights of a run count in which nothing counts: all alike, and next to nothing beside runs that do.
const nothing = 0x1p-60

// load takes over the weights of run l, at most 32, with the importance of each, nil if all count alike. upC is the power of two of
// the importances.
func (t *tile) load(l int, w, c []float32, upC float64) {
	t.lanes.N = len(w)
	least, most := w[0], w[0]
	for _, x := range w {
		if x < least {
			least = x
		}
		if x > most {
			most = x
		}
	}
	up := power(max(float64(most), -float64(least)))
	t.down[l], t.least[l], t.most[l] = 1/up, float64(least)*up, float64(most)*up
	if t.place(l, w, c, up, upC); t.sumC[l] < nothing {
		t.place(l, w, nil, up, nothing)
	}
}

// loadBlock makes tiles of the sub-blocks of 256 weights, in the memory of tiles that are there already.
func loadBlock(tiles []tile, values *grid, size int, w, c []float32) []tile {
	if tiles == nil {
		tiles = make([]tile, 32/size)
	}
	up := 1.0
	if c != nil {
		up = power(greatest(c))
	}
	for i := range tiles {
		tiles[i].values = values
		for l := range 8 {
			at := (8*i + l) * size
			var cl []float32
			if c != nil {
				cl = c[at:][:size]
			}
			tiles[i].load(l, w[at:][:size], cl, up)
		}
	}
	return tiles
}

// place fills run l and its sums.
func (t *tile) place(l int, w, c []float32, up, upC float64) {
	var sumC, sumCW, energy float64
	alike := float32(upC)
	to, from := t.lanes.W[l:], t.lanes.C[l:]
	for i, x := range w {
		y := float32(float64(x) * up)
		z := alike
		if c != nil {
			z = float32(float64(c[i]) * upC)
		}
		to[8*i], from[8*i] = y, z
		cw := float64(z) * float64(y) // exact
		sumC += float64(z)
		sumCW += cw
		energy += float64(cw * float64(y))
	}
	t.sumC[l], t.sumCW[l], t.energy[l] = sumC, sumCW, energy
}

// empty fills run l, of which there are no weights, with n zeros.
func (t *tile) empty(l, n int) {
	for i := range n {
		t.lanes.W[8*i+l], t.lanes.C[8*i+l] = 0, 0
	}
	t.down[l], t.sumC[l], t.sumCW[l], t.energy[l], t.least[l], t.most[l] = 1, 1, 0, 0, 0, 0
}

// set makes parameters those of run l in way k. A scale of 0, and numbers beside which the weights have no digits left, become a scale whose
// sums are no numbers and so no better than anything: zeros are as good.
func (t *tile) set(k, l int, scale, floor float64) {
	if !(scale != 0 && math.Abs(scale) < 0x1p8 && math.Abs(floor) < 0x1p8) {
		scale = math.NaN()
	}
	t.ways[k].Scale[l], t.ways[k].Floor[l] = float32(scale), float32(floor)
}

// run encodes all runs in the first n ways; floors says that there are some.
func (t *tile) run(n int, floors bool) {
	switch ways := t.ways[:n]; {
	case t.values.levelled():
		t.lanes.Level(ways, levelTable)
	case floors:
		t.lanes.Line(ways, float32(t.values.lo), float32(t.values.hi))
	default:
		t.lanes.Scale(ways, float32(t.values.lo), float32(t.values.hi))
	}
}

// floors says what the floor of a run can be.
type floors uint8

const (
	none     floors = iota // 0
	positive               // 0 or more
	free
)

// compare encodes all runs in the first n ways, fits scales and floors to the values, and keeps what is better than the best so far.
func (t *tile) compare(n int, f floors) (better bool) {
	t.run(n, f != none)
	for k := range t.ways[:n] {
		y := &t.ways[k]
		for l := range t.best {
			var x fit
			if f == none {
				x = scaleOf(y, l)
			} else {
				x = t.lineOf(y, l, f)
			}
			if x.loss < t.best[l].loss {
				t.best[l], better = x, true
			}
		}
	}
	return better
}

// scaleOf returns the best scale for the values of a way.
func scaleOf(y *kernel.Way, l int) fit {
	s, a := float64(y.Scale[l]), float64(y.QR[l])/float64(y.QQ[l])
	return fit{s + float64(s*a), 0, float64(s * s * (float64(y.RR[l]) - float64(a*float64(y.QR[l]))))}
}

// lineOf returns the best scale, which is positive, and floor for the values of a way.
func (t *tile) lineOf(y *kernel.Way, l int, f floors) fit {
	s, floor, c := float64(y.Scale[l]), float64(y.Floor[l]), t.sumC[l]
	q, qq, r, qr := float64(y.Q[l]), float64(y.QQ[l]), float64(y.R[l]), float64(y.QR[l])
	if det := float64(c*qq) - float64(q*q); det > 1e-5*c*qq {
		inverse := 1 / det
		a := float64((float64(c*qr) - float64(q*r)) * inverse)
		b := float64((float64(q*qr) - float64(qq*r)) * inverse)
		x := fit{s + float64(s*a), floor + float64(s*b), float64(s * s * (float64(y.RR[l]) - float64(a*qr) + float64(b*r)))}
		if x.scale > 0 && (f == free || x.floor >= 0) {
			return x
		}
	}
	qw := float64(s*(qq+qr)) - float64(floor*q) // Σcqw
	if !(qw > 0 && qq > 0) {
		return fit{loss: math.NaN()}
	}
	return fit{qw / qq, 0, t.energy[l] - float64(qw*qw/qq)}
}

// fitScale searches the scales of w ≈ scale·q, over those that put a weight of the greatest magnitude on each of the values in reach.
func (t *tile) fitScale(reach []float64) {
	for l := range t.best {
		t.best[l] = fit{loss: t.energy[l]}
	}
	for n := 0; len(reach) > 0; reach = reach[n:] {
		n = min(len(reach), len(t.ways))
		for k, r := range reach[:n] {
			for l := range t.best {
				t.set(k, l, max(t.most[l], -t.least[l])/r, 0)
			}
		}
		t.compare(n, none)
	}
	t.refine(none)
}

// fitLine searches scales and floors of w ≈ scale·q − floor, q from 0 to top, over ends of the range that are drawn in by
// each two of the factors.
func (t *tile) fitLine(top float64, factors []float64, f floors) {
	var lo, hi, middle [8]float64
	for l := range t.best {
		lo[l], hi[l] = t.least[l], t.most[l]
		if f == free {
			middle[l] = (lo[l] + hi[l]) / 2
		} else {
			lo[l] = min(lo[l], 0)
		}
		t.best[l] = fit{0, -t.sumCW[l] / t.sumC[l], math.Inf(1)} // what is left if all are equal
		if hi[l] == lo[l] {
			t.best[l].loss = math.Inf(-1)
		}
	}
	n := 0
	for _, p := range factors {
		for _, r := range factors {
			for l := range t.best {
				low := middle[l] + float64((lo[l]-middle[l])*r)
				t.set(n, l, max(middle[l]+float64((hi[l]-middle[l])*p)-low, 0)/top, -low)
			}
			if n++; n == len(t.ways) {
				t.compare(n, f)
				n = 0
			}
		}
	}
	if n > 0 {
		t.compare(n, f)
	}
	t.refine(f)
}

// refine encodes with the best parameters so far and fits them to the new codes, as long as that helps, three times at most.
func (t *tile) refine(f floors) {
	for range 3 {
		for l := range t.best {
			t.set(0, l, t.best[l].scale, t.best[l].floor)
		}
		if !t.compare(1, f) {
			return
		}
	}
}

// roundHalf returns the float16 nearest to x, but no infinity.
func roundHalf(x float64) float64 {
	return min(max(float64(half.RoundF16(float32(x))), -65504), 65504)
}

// roundScale is roundHalf for a scale that is multiplied by integers: it is not 0 unless x is.
func roundScale(x float64) float64 {
	if x == 0 {
		return 0
	}
	return math.Copysign(max(math.Abs(roundHalf(x)), 0x1p-24), x)
}

// codes sets the codes of weights for w ≈ scale·q − floor, counted from the least value of the grid.
func (v *grid) codes(codes []uint8, w []float32, scale, floor float64) {
	inverse := 0.0
	if scale != 0 {
		inverse = 1 / scale
	}
	if v.levelled() {
		for i, x := range w[:len(codes)] {
			codes[i] = levelOf(float64(x) * inverse)
		}
		return
	}
	for i, x := range w[:len(codes)] {
		t := float64((float64(x) + floor) * inverse)
		if !(t > v.lo) {
			t = v.lo
		}
		if t > v.hi {
			t = v.hi
		}
		codes[i] = uint8(int(t + magic - magic - v.lo))
	}
}

// magic moves a float64 to where neighbours are 1 apart, which rounds it, ties to even.
const magic = 3 << 51
