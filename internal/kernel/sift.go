package kernel

import (
	"math"
	"math/bits"
)

// lanes has a number for every candidate.
type lanes = [MaxTrials]float32

// Trials are the candidates of a search for the grid of one group, at most MaxTrials. Off is Add and Bias is Sub in all.
type Trials struct {
	n                                    int
	shifted                              bool   // one has a Sub
	filled                               bool   // by a rule
	worth                                uint64 // a bit for each
	scale, inverse, sub, lowest, highest lanes
	squares, low                         lanes
	inner, outer                         []float32 // the weights, divided
	innerD, outerD                       []float32 // and their d
	ones                                 []float32
}

// MaxTrials is the room for candidates.
const MaxTrials = 48

// Reset forgets the candidates.
func (t *Trials) Reset() { t.n, t.shifted, t.filled = 0, false, false }

// Add appends a candidate.
func (t *Trials) Add(scale, sub, add, lo, hi float32) {
	i := t.n
	t.n++
	t.shifted = t.shifted || sub != 0
	t.scale[i], t.inverse[i], t.sub[i], t.lowest[i], t.highest[i] = scale, 1/scale, sub, lo-add, hi-add
}

// At returns the scale of candidate i, its Sub and its Lo − Add.
func (t *Trials) At(i int) (scale, sub, lowest float32) { return t.scale[i], t.sub[i], t.lowest[i] }

// Next returns the first candidate from i on whose error, as GridError has it, can be the smallest or equal to it, or -1.
func (t *Trials) Next(i int) int {
	if rest := t.worth >> i << i; rest != 0 {
		return bits.TrailingZeros64(rest)
	}
	return -1
}

// Sift prepares Next for the weights w of the group, of which the largest magnitude is most, and their d, from 0 on, nil for ones. steps is the
// number of codes.
//
// The error of every candidate is taken once in units of its step, roughly: E/s² ≈ A = Σ d·(q − y)² with y = (x − Sub)·(1/s),
// float32 throughout. Both this and the arithmetic of GridError are within a few roundings of the real numbers, each at most
// 2^-24 of the largest in sight, B = (most + |Sub|)/s + steps; and where they choose different codes, these are equally near
// but for such roundings. Of one term without its d the roots therefore differ by less than 2^-19·B, and by the triangle inequality those
// of the sums by less than √Σd·2^-19·B, besides the rounding of the sum itself, in any order (n+3)·2^-24 of A, half as much of its root. The
// roundings on the way to the bounds are less than the other half and thirteen more.
func (t *Trials) Sift(w, d []float32, most, steps float32) {
	all := uint64(1)<<t.n - 1
	if d == nil {
		for len(t.ones) < len(w) {
			t.ones = append(t.ones, 1)
		}
		d = t.ones[:len(w)]
	}
	var weight float64
	for _, x := range d {
		weight += float64(x)
	}
	// Nothing may be so large or small that roundings are not relative.
	if t.worth = all; !(weight >= 0x1p-40 && weight <= 0x1p40 && most >= 0x1p-40 && most <= 0x1p40) || len(w) > 1<<16 {
		return
	}
	n, rows := (t.n+15)&^15, (t.n+7)&^7
	for i := t.n; i < n; i++ { // lanes of nothing: no bound is as low as theirs, NaN
		t.scale[i], t.inverse[i], t.sub[i], t.lowest[i], t.highest[i] = float32(math.Inf(1)), 0, 0, 0, 0
		t.squares[i] = 0
	}
	m := t.divide(w, d, n)
	inner, outer, innerD, outerD := t.inner[:m], t.outer[:len(w)-m], t.innerD[:m], t.outerD[:len(w)-m]
	if t.shifted {
		active.shifted(t.squares[:rows], t.inverse[:rows], t.lowest[:rows], t.highest[:rows], t.sub[:rows], inner, outer, innerD, outerD)
	} else {
		active.coarse(t.squares[:rows], t.inverse[:rows], t.lowest[:rows], t.highest[:rows], inner, outer, innerD, outerD)
	}
	root, rounding := float32(math.Sqrt(weight))*0x1p-19, float32(len(w)+16)*0x1p-24
	least := active.sieve([4]float32{rounding, root, most, steps}, t.squares[:n], t.scale[:n], t.sub[:n], t.low[:n])
	t.worth = all &^ active.above(t.low[:n], least)
}

// divide returns the weights that every candidate has between its first and its last code, and the others.
//
// Between means: of a rounded x − Sub, times a rounded 1/s, no more than a few roundings are missing to be in the range from
// Lo − Add to Hi − Add, integers of at most 2^21: less than half a step where the ends of the range themselves are as
// precise. They are products where Sub is 0. Where it is not they can be off by 2^-23·(|Sub| + |s|·steps), which after Fill is
// less than a sixteenth of a step, as |Sub| is less than 2^19 steps; of candidates that were added one by one nothing is
// known, and all weights are others.
func (t *Trials) divide(w, d []float32, lanes int) (inside int) {
	if len(t.inner) < len(w) {
		t.inner, t.outer = make([]float32, len(w)), make([]float32, len(w))
		t.innerD, t.outerD = make([]float32, len(w)), make([]float32, len(w))
	}
	if t.shifted && !t.filled {
		copy(t.outer, w)
		copy(t.outerD, d)
		return 0
	}
	low, high := active.span(t.scale[:lanes], t.lowest[:lanes], t.highest[:lanes], t.sub[:lanes])
	whole := len(w) &^ 15
	n := active.split(t.inner[:whole], t.outer[:whole], t.innerD[:whole], t.outerD[:whole], w[:whole], d[:whole], low, high)
	rest := len(w) - whole
	more := split(t.inner[n:n+rest], t.outer[whole-n:], t.innerD[n:n+rest], t.outerD[whole-n:], w[whole:], d[whole:], low, high)
	return n + more
}

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// span returns what the candidates' ranges, Sub + Scale·lo to Sub + Scale·hi, have in common. A candidate whose ends are NaN
// does not count. The length is a multiple of 16.
func span(scale, lo, hi, sub []float32) (low, high float32) {
	low, high = float32(math.Inf(-1)), float32(math.Inf(1))
	for i, s := range scale {
		a, b := float32(s*lo[i])+sub[i], float32(s*hi[i])+sub[i]
		if a > b {
			a, b = b, a
		}
		if a > low {
			low = a
		}
		if b < high {
			high = b
		}
	}
	return low, high
}

// split moves the elements of w from low to high to inner and the others to outer, in their order, and d likewise, and returns how many
// are in inner. All have the same length, in assembly a multiple of 16; what is behind the last element is undefined.
func split(inner, outer, innerD, outerD, w, d []float32, low, high float32) (n int) {
	for i, x := range w {
		if x >= low && x <= high {
			inner[n], innerD[n] = x, d[i]
			n++
		} else {
			outer[i-n], outerD[i-n] = x, d[i]
		}
	}
	return n
}

// coarse sets sums[c] = Σ d·(q − y)² for 8 candidates or a multiple: y = x·inverse[c], q = rint(clamp(y, lo[c], hi[c])).
// Everything is float32, rounded at each step, first for inner and then for outer: four terms are added up in their order
// and their sum to that of all before, and what is left in the end goes one by one. In inner no y is so far out that
// clamping would change q.
func coarse(sums, inverse, lo, hi, inner, outer, innerD, outerD []float32) {
	for c := range sums {
		sums[c] = misses(inverse[c], lo[c], hi[c], 0, inner, outer, innerD, outerD)
	}
}

// shifted is coarse with y = (x − sub[c])·inverse[c].
func shifted(sums, inverse, lo, hi, sub, inner, outer, innerD, outerD []float32) {
	for c := range sums {
		sums[c] = misses(inverse[c], lo[c], hi[c], sub[c], inner, outer, innerD, outerD)
	}
}

func misses(inverse, lo, hi, sub float32, inner, outer, innerD, outerD []float32) (sum float32) {
	sum = missesOf(0, inverse, -1<<22, 1<<22, sub, inner, innerD)
	return missesOf(sum, inverse, lo, hi, sub, outer, outerD)
}

func missesOf(sum, inverse, lo, hi, sub float32, w, d []float32) float32 {
	i := 0
	for ; i+4 <= len(w); i += 4 {
		four := miss(float32((w[i]-sub)*inverse), lo, hi, d[i])
		for j := i + 1; j < i+4; j++ {
			four += miss(float32((w[j]-sub)*inverse), lo, hi, d[j])
		}
		sum += four
	}
	for ; i < len(w); i++ {
		sum += miss(float32((w[i]-sub)*inverse), lo, hi, d[i])
	}
	return sum
}

// miss returns d·(q − y)², q = rint(clamp(y, lo, hi)).
func miss(y, lo, hi, d float32) float32 {
	e := Nearest(y, lo, hi) - y
	return float32(d * float32(e*e))
}

// Sums returns, over the codes q that the grid chooses, Σ a, Σ a², Σ w and Σ w·a with a = q − Off, and whether they are
// exact, so that their order is of no matter. Without that they are good for nothing. most is the largest magnitude in w.
func (g *Grid) Sums(w []float32, most float32) (a, aa, x, xa float64, exact bool) {
	if !exactSums(w, most, g.Hi-g.Lo) {
		return 0, 0, 0, 0, false
	}
	n := len(w) &^ 15
	s := active.codeSums(g.fields(), w[:n])
	if n < len(w) {
		for i, v := range codeSums(g.fields(), w[n:]) {
			s[i] += v
		}
	}
	return s[0], s[1], s[2], s[3], true
}

// exactSums reports whether float64 holds every sum of products of w and integers up to twice top.
func exactSums(w []float32, most, top float32) bool {
	n := len(w) &^ 15
	all, least := active.survey(w[:n])
	if n < len(w) {
		a, l := survey(w[n:])
		all, least = all|a, min(least, l)
	}
	// least+1 is the smallest magnitude but zero; every weight is a multiple of 2^(its exponent + zeros behind all − 150).
	zeros := bits.TrailingZeros32(all | 1<<23)
	low, high := int((least+1)>>23), int(math.Float32bits(most)>>23)
	if low == 0 {
		return least == math.MaxUint32 // zeros alone
	}
	return bits.Len(uint(len(w)))+bits.Len(uint(top))+1+high-low <= 29+zeros
}

// survey returns all bits that are set in an element, and the smallest magnitude but zero, less 1, in bits: MaxUint32 if
// there is none.
func survey(w []float32) (all, least uint32) {
	least = math.MaxUint32
	for _, x := range w {
		b := math.Float32bits(x)
		all |= b
		least = min(least, b&^(1<<31)-1)
	}
	return all, least
}

// codeSums returns the sums of Grid.Sums in any order.
func codeSums(fields [7]float32, w []float32) (s [4]float64) {
	g := gridOf(fields)
	for _, x := range w {
		a := float64(g.code(x) - g.Off)
		s[0] += a
		s[1] += float64(a * a)
		s[2] += float64(x)
		s[3] += float64(float64(x) * a)
	}
	return s
}
