package block

import (
	"math"

	"nibble/internal/half"
	"nibble/internal/kernel"
)

// tile is eight runs of weights side by side, each with one scale, and what the searches need of them. Weights of a run are multiplied by a power
// of two that brings the greatest to about 1, what they count by one that all runs of a block have: all numbers here are in these
// units.
type tile struct {
	values   *grid
	lanes    kernel.Lanes
	powers   [8]float32 // the power of two of a run
	counts   [8]float32 // that of what its weights count
	up, down [8]float64 // powers, and what brings the weights back
	mean     [8]float64 // of the weights
	ways     [9]kernel.Way
	best     kernel.Best // what a search found

	upper, floors [mostFactors][8]float32 // ends of a range
}

// grid is the values that codes stand for: the integers from lo to hi or, where these are equal, the levels.
type grid struct{ lo, hi float32 }

// levelled says that codes stand for the levels.
func (v *grid) levelled() bool { return v.lo == v.hi }

// levelTable are the levels for the kernels.
var levelTable = kernel.NewLevels(levels)

// levelOf returns the code of the level that is nearest to t, of the upper one in the middle of two.
func levelOf(t float32) uint8 { return uint8(levelTable.Nearest(t)) }

// power returns the power of two that brings |x| between 1 and 2, or as near as there is one.
func power(x float32) float32 {
	exponent := math.Float32bits(x) >> 23 & 0xff
	return math.Float32frombits((254 - min(exponent, 253)) << 23)
}

// nothing is what weights of a run count in which nothing counts, or less: all alike, and next to nothing beside runs that do.
const nothing = 0x1p-60

// ones are what weights count that count alike.
var ones = func() (c [256]float32) {
	for i := range c {
		c[i] = 1
	}
	return c
}()

// load takes over eight runs of n weights each that follow one another, with the importance of each, nil if all count alike.
func (t *tile) load(n int, w, c []float32) {
	if c == nil {
		c = ones[:]
	}
	t.lanes.N = n
	t.lanes.Load(w, c)
}

// heaviest returns the greatest importance.
func (t *tile) heaviest() (most float32) {
	for _, x := range t.lanes.Heaviest {
		most = max(most, x)
	}
	return most
}

// weigh changes the units, importances of run l by those of most[l].
func (t *tile) weigh(most *[8]float32) {
	x := &t.lanes
	for l := range t.powers {
		t.powers[l], t.counts[l] = power(max(x.Most[l], -x.Least[l])), power(most[l])
		if x.Heaviest[l]*t.counts[l] < nothing {
			for i := l; i < 8*x.N; i += 8 {
				x.C[i] = 1
			}
			t.counts[l] = nothing
		}
		t.up[l] = float64(t.powers[l])
		t.down[l] = 1 / t.up[l]
	}
	x.Weigh(&t.powers, &t.counts)
	for l, sum := range x.SumW {
		t.mean[l] = float64(sum) / float64(x.SumC[l])
	}
}

// loadBlock makes tiles of the sub-blocks of 256 weights, in the memory of tiles that are there already.
func loadBlock(tiles []tile, values *grid, size int, w, c []float32) []tile {
	if tiles == nil {
		tiles = make([]tile, 32/size)
	}
	most := float32(0)
	for i := range tiles {
		t := &tiles[i]
		t.values = values
		if c != nil {
			t.load(size, w[8*size*i:], c[8*size*i:])
		} else {
			t.load(size, w[8*size*i:], nil)
		}
		most = max(most, t.heaviest())
	}
	all := [8]float32{most, most, most, most, most, most, most, most}
	for i := range tiles {
		tiles[i].weigh(&all)
	}
	return tiles
}

// scale returns a scale, and floor a floor, as a way has it. Scales of 0, and numbers beside which the weights have no digits left, are none: all
// sums of such a way are no numbers, and so no better than anything; zeros are as good.
func scale(x float64) float32 {
	if x == 0 {
		return float32(math.NaN())
	}
	return floor(x)
}

func floor(x float64) float32 {
	if x > -0x1p8 && x < 0x1p8 {
		return float32(x)
	}
	return float32(math.NaN())
}

// floors says what the floor of a run can be.
type floors uint8

const (
	none     floors = iota // 0
	positive               // 0 or more
	free
)

// compare encodes all runs in the first n ways, and keeps what is better than the best so far, once fitted to the values.
func (t *tile) compare(n int, f floors) {
	ways := t.ways[:n]
	switch {
	case t.values.levelled():
		t.lanes.Level(ways, levelTable, &t.best)
	case f == none:
		t.lanes.Scale(ways, t.values.lo, t.values.hi, &t.best)
	case f == positive:
		t.lanes.Line(ways, t.values.lo, t.values.hi, 0, &t.best)
	default:
		t.lanes.Line(ways, t.values.lo, t.values.hi, float32(math.Inf(-1)), &t.best)
	}
}

// fitScale searches the scales of w ≈ scale·q, over those that put a weight of the greatest magnitude on each of the values in reach.
func (t *tile) fitScale(reach []float64) {
	var most [8]float64
	for l, x := range t.lanes.Most {
		most[l] = float64(max(x, -t.lanes.Least[l])) * t.up[l]
	}
	t.best = kernel.Best{Loss: t.lanes.Energy}
	for n := 0; len(reach) > 0; reach = reach[n:] {
		n = min(len(reach), len(t.ways))
		for k, r := range reach[:n] {
			for l, x := range most {
				t.ways[k].Scale[l] = scale(x / r)
			}
		}
		t.compare(n, none)
	}
	t.refine(none)
}

// mostFactors is how many factors there are at most.
const mostFactors = 8

// fitLine searches scales and floors of w ≈ scale·q − floor, q from 0 to top, over ends of the range that are drawn in by
// each two of the factors.
func (t *tile) fitLine(top float32, factors []float32, f floors) {
	var lo, hi, middle [8]float32
	for l := range middle {
		up := float32(t.up[l])
		lo[l], hi[l] = float32(t.lanes.Least[l]*up), float32(t.lanes.Most[l]*up)
		if f == free {
			middle[l] = float32((lo[l] + hi[l]) / 2)
		} else {
			lo[l] = min(lo[l], 0)
		}
		t.best.Scale[l], t.best.Floor[l], t.best.Loss[l] = 0, float32(-t.mean[l]), float32(math.Inf(1)) // what is left if all are equal
		if hi[l] == lo[l] {
			t.best.Loss[l] = float32(math.Inf(-1))
		}
	}
	for k, factor := range factors {
		for l, m := range middle {
			t.upper[k][l], t.floors[k][l] = m+float32((hi[l]-m)*factor), -(m + float32((lo[l]-m)*factor))
		}
	}
	n := 0
	for p := range factors {
		for r := range factors {
			kernel.Ends(&t.ways[n], &t.upper[p], &t.floors[r], top)
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

// refine encodes with the best parameters so far and fits them to the new codes. More than one such step gains less than a thousandth.
func (t *tile) refine(f floors) {
	for l, x := range t.best.Scale {
		t.ways[0].Scale[l], t.ways[0].Floor[l] = scale(float64(x)), floor(float64(t.best.Floor[l]))
	}
	t.compare(1, f)
}

// found returns the scale and floor that a search found for run l, in the weights' units.
func (t *tile) found(l int) (scale, floor float64) {
	return float64(t.best.Scale[l]) * t.down[l], float64(t.best.Floor[l]) * t.down[l]
}

// faint reports whether what counts in run l is small beside the greatest weight. Sums in float32 may then have lost it.
func (t *tile) faint(l int) bool { return t.lanes.Energy[l] < t.lanes.SumC[l]/64 }

// worse reports whether w ≈ scale·q − floor, with these codes of run l, loses more than zeros do.
func (t *tile) worse(l int, codes []uint8, scale, floor float64) bool {
	x, up := &t.lanes, t.up[l]
	scale, floor = scale*up, float64(floor*up)
	var loss, zeros float64
	for i, code := range codes {
		w, c, q := float64(x.W[8*i+l]), float64(x.C[8*i+l]), float64(t.values.lo)+float64(code)
		if t.values.levelled() {
			q = float64(levels[code])
		}
		e := float64(scale*q) - floor - w
		loss += float64(c * float64(e*e))
		zeros += float64(c * float64(w*w))
	}
	return loss > zeros
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
func (v *grid) codes(codes []uint8, w []float32, scale, floor float32) {
	w = w[:len(codes)]
	switch {
	case v.levelled():
		inverse := float32(0)
		if scale != 0 {
			inverse = 1 / scale
		}
		for i, x := range w {
			codes[i] = levelOf(float32(x * inverse))
		}
	case scale == 0:
		for i := range codes {
			codes[i] = uint8(-v.lo)
		}
	default:
		g := kernel.Grid{Scale: scale, Sub: -floor, Lo: v.lo, Hi: v.hi}
		g.Encode(codes, w)
	}
}

var noFloors [16]float32

// runs sets the codes of runs of so many weights each for w ≈ scale·q.
func (v *grid) runs(codes []uint8, w []float32, size int, scales []float32) {
	if !v.levelled() {
		kernel.EncodeRuns(codes, w, size, scales, noFloors[:], v.lo, v.hi)
		return
	}
	for j, scale := range scales {
		v.codes(codes[j*size:][:size], w[j*size:], scale, 0)
	}
}
