package block

import (
	"math"

	"nibble/internal/half"
	"nibble/internal/kernel"
)

// group is a run of weights with one scale, the importance of each, and what the searches need of them.
type group struct {
	w, c, cw     []float64 // weights, importance, product
	sumC, sumCW  float64
	least, most  float64 // extremes of w
	memory       [3][32]float64
	values       *grid
	scale, floor float64 // what a search found: w ≈ scale·q − floor
	tries        tries
}

// load takes over the weights of a group, at most 32, with the importance of each, nil if all count alike.
func (g *group) load(values *grid, w, c []float32) {
	n := len(w)
	g.w, g.c, g.cw, g.values = g.memory[0][:n], g.memory[1][:n], g.memory[2][:n], values
	g.least, g.most, g.sumC, g.sumCW = float64(w[0]), float64(w[0]), 0, 0
	for i, x := range w {
		g.w[i], g.c[i] = float64(x), 1
		if c != nil {
			g.c[i] = float64(c[i])
		}
		g.sumC += g.c[i]
		g.least, g.most = min(g.least, g.w[i]), max(g.most, g.w[i])
	}
	if g.sumC == 0 { // all alike, and next to nothing beside groups that count
		for i := range g.c {
			g.c[i] = 0x1p-100
		}
		g.sumC = float64(n) * 0x1p-100
	}
	for i, x := range g.w {
		g.cw[i] = float64(g.c[i] * x)
		g.sumCW += g.cw[i]
	}
}

// grid is the values that codes stand for: the integers from lo to hi or, where these are equal, the levels.
type grid struct{ lo, hi float64 }

// magic moves a float64 to where neighbours are 1 apart, which rounds it, ties to even.
const magic = 3 << 51

// levelled says that codes stand for the levels.
func (v *grid) levelled() bool { return v.lo == v.hi }

// halfSteps has the code of the nearest level for every t of −127, −126.5, … 113. All the middles between levels are
// among them.
var halfSteps = func() (codes [481]uint8) {
	for i := range codes {
		q := 0
		for q < 15 && i-254 >= int(levels[q])+int(levels[q+1]) {
			q++
		}
		codes[i] = uint8(q)
	}
	return codes
}()

// levelOf returns the code of the level that is nearest to t, of the upper one in the middle of two.
func levelOf(t float64) uint8 {
	switch {
	case t >= 113:
		return 15
	case t > -127:
		return halfSteps[int(2*t+254)]
	}
	return 0
}

// sums are Σcq, Σcq² and Σcqw of a group, for the values q that its weights get.
type sums struct{ q, qq, qw float64 }

// sums encodes the group by w ≈ scale·q − floor.
func (g *group) sums(scale, floor float64) (s sums) {
	inverse := 1 / scale
	c, cw := g.c[:len(g.w)], g.cw[:len(g.w)]
	if g.values.levelled() {
		for i, w := range g.w {
			q := float64(levels[levelOf(float64(w*inverse))])
			cq := float64(c[i] * q)
			s.qq += float64(cq * q)
			s.qw += float64(cw[i] * q)
		}
		return s
	}
	lo, hi := g.values.lo, g.values.hi
	for i, w := range g.w {
		t := float64((w + floor) * inverse)
		q := t + magic - magic
		if t > hi {
			q = hi
		}
		if t < lo {
			q = lo
		}
		cq := float64(c[i] * q)
		s.q += cq
		s.qq += float64(cq * q)
		s.qw += float64(cw[i] * q)
	}
	return s
}

// tries are ways to encode a group that are compared: up to eight at a time.
type tries struct {
	lines        kernel.Lines
	n            int
	scale, floor [8]float64
	list         [8]sums
}

// add adds a way, and reports whether there is room for no more.
func (t *tries) add(scale, floor float64) (full bool) {
	t.lines.Set(t.n, scale, floor)
	t.scale[t.n], t.floor[t.n] = scale, floor
	t.n++
	return t.n == len(t.list)
}

// empty encodes a group in every way, and forgets them; their sums are in the order in which they came.
func (t *tries) empty(g *group) []sums {
	list := t.list[:t.n]
	if t.n == 1 || g.values.levelled() {
		for i := range list {
			list[i] = g.sums(t.scale[i], t.floor[i])
		}
	} else if t.n > 1 {
		t.lines.Sums(g.w, g.c, g.cw, g.values.lo, g.values.hi)
		for i := range list {
			s := &list[i]
			s.q, s.qq, s.qw = t.lines.At(i)
		}
	}
	t.n = 0
	return list
}

// loss returns Σc(ŵ − w)² of a group for w ≈ scale·q − floor, less Σcw², for any scale and floor.
func (s *sums) loss(g *group, scale, floor float64) float64 {
	return float64(scale*(float64(scale*s.qq)-2*s.qw)) + float64(floor*(float64(floor*g.sumC)+2*g.sumCW-float64(2*scale*s.q)))
}

// floors says what the floor of a group can be.
type floors uint8

const (
	none     floors = iota // 0
	positive               // 0 or more
	free
)

// fit returns the best scale and floor for given values, and how much less the loss is with them than with zeros.
func (s *sums) fit(g *group, f floors) (gain, scale, floor float64) {
	if det := float64(g.sumC*s.qq) - float64(s.q*s.q); f != none && det > 1e-7*g.sumC*s.qq {
		scale = (float64(g.sumC*s.qw) - float64(s.q*g.sumCW)) / det
		floor = (float64(s.q*s.qw) - float64(s.qq*g.sumCW)) / det
		if scale > 0 && (f == free || floor >= 0) {
			return float64(scale*s.qw) - float64(floor*g.sumCW), scale, floor
		}
	}
	if s.qq == 0 {
		return 0, 0, 0
	}
	scale = s.qw / s.qq
	return float64(scale * s.qw), scale, 0
}

// fitScale searches the scale of w ≈ scale·q, over the scales that put a weight of the greatest magnitude on each of the
// values in reach.
func (g *group) fitScale(reach []float64) {
	g.scale, g.floor = 0, 0
	most, best := max(g.most, -g.least), 0.0
	if most == 0 {
		return
	}
	t := &g.tries
	compare := func() {
		for _, s := range t.empty(g) {
			if gain, scale, _ := s.fit(g, none); gain > best {
				best, g.scale = gain, scale
			}
		}
	}
	for _, r := range reach {
		if t.add(most/r, 0) {
			compare()
		}
	}
	compare()
	g.refine(none, best)
}

// fitLine searches scale and floor of w ≈ scale·q − floor, q from 0 to top, over ends of the range that are drawn in by
// each two of the factors.
func (g *group) fitLine(top float64, factors []float64, f floors) {
	lo, hi, middle := g.least, g.most, 0.0
	if f == free {
		middle = (lo + hi) / 2
	} else {
		lo = min(lo, 0)
	}
	g.scale, g.floor = 0, -g.sumCW/g.sumC // what is left if all are equal
	if hi == lo {
		return
	}
	best := math.Inf(-1)
	t := &g.tries
	compare := func() {
		for _, s := range t.empty(g) {
			if gain, scale, floor := s.fit(g, f); gain > best && scale > 0 {
				best, g.scale, g.floor = gain, scale, floor
			}
		}
	}
	for _, p := range factors {
		for _, r := range factors {
			low := middle + float64((lo-middle)*r)
			step := (middle + float64((hi-middle)*p) - low) / top
			if step <= 0 {
				continue
			}
			if t.add(step, -low) {
				compare()
			}
		}
	}
	compare()
	g.refine(f, best)
}

// refine encodes with the best parameters so far and fits them to the new codes, as long as that helps, three times at most.
func (g *group) refine(f floors, best float64) {
	for range 3 {
		if g.scale == 0 {
			return
		}
		s := g.sums(g.scale, g.floor)
		gain, scale, floor := s.fit(g, f)
		if !(gain > best) {
			return
		}
		best, g.scale, g.floor = gain, scale, floor
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

// codes sets the codes of the group for w ≈ scale·q − floor, counted from the least value of the grid.
func (g *group) codes(codes []uint8, scale, floor float64) {
	inverse := 0.0
	if scale != 0 {
		inverse = 1 / scale
	}
	for i, w := range g.w {
		t := float64((w + floor) * inverse)
		if g.values.levelled() {
			codes[i] = levelOf(t)
		} else {
			codes[i] = uint8(min(max(math.RoundToEven(t), g.values.lo), g.values.hi) - g.values.lo)
		}
	}
}
