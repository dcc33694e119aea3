package kernel

import "math"

// ways are what the searches of blocks of codes do over and over.
type ways struct {
	lay    func(x *Lanes, w, c []float32)
	scaled func(x *Lanes, up, upC *[8]float32)
	line   func(x *Lanes, ways []Way, lo, hi, bottom float32, best *Best)
	scale  func(x *Lanes, ways []Way, lo, hi float32, best *Best)
	level  func(x *Lanes, ways []Way, levels *Levels, best *Best)
	errors func(x *Lanes, ways []Way, lo, hi float32, best *Best)
	minima func(x *Lanes, ways []Way, lo, hi float32, m *Minima, best *Best)
	steps  func(dst *[3][8]float32, integers, unit *[8]float64, share, lo, hi, not float64)
	ends   func(y *Way, upper, floor *[8]float32, top float32)
	flat   func(x *Lanes, mean, up, down *[8]float64, unit, inverse, top float64, best *Best)
}

var waysGeneric = ways{loadLanes, weighLanes, lineWays, scaleWays, levelWays, errorWays, minimaWays, steps, ends, flat}

// Lanes are eight runs of weights side by side: weight i of run l, and how much its squared error counts, at 8i + l. Here and in Way all is
// float32, each operation rounded, and sums go in the order of the weights.
type Lanes struct {
	N                  int // weights of a run: 8, 16, 24 or 32
	W, C               [8 * 32]float32
	Least, Most        [8]float32 // extremes of w
	Heaviest           [8]float32 // the greatest c
	SumC, SumW, Energy [8]float32 // Σ c, Σ c·w, Σ (c·w)·w
}

// Way is a way to encode every run of Lanes, w ≈ Scale·q − Floor with values q, and what is left of it: t = (w + Floor)·(1/Scale)
// is q + r. Sums of what is left, not of w, lose no digits where codes are fine.
type Way struct {
	Scale, Floor [8]float32
	Q, QQ        [8]float32 // Σ c·q, Σ (c·q)·q
	R, QR, RR    [8]float32 // Σ c·r, Σ (c·q)·r, Σ (c·r)·r
}

// Best is what was best for every run. A way takes the place of another whose loss Σ c·(ŵ − w)² is greater, not of one that is no number or
// equal.
type Best struct {
	Loss, Scale, Floor [8]float32
	Way                [8]int32 // its number in the last call that changed something
}

// Minima says how floors of runs are integers: Floor = Unit·m.
type Minima struct {
	M, Unit, Inverse, Top [8]float32 // m of the ways, its unit, 1/Unit or 0, the greatest m
	Mean                  [8]float32 // Σ c·w / Σ c
}

// Levels are 16 ascending values that codes stand for, and the middles between neighbours, of which the upper value is the nearest.
type Levels struct{ values, middles [16]float32 }

// NewLevels returns levels of the values.
func NewLevels(values [16]int8) *Levels {
	x := &Levels{}
	for i, v := range values {
		x.values[i] = float32(v)
		if i < 15 {
			x.middles[i] = float32(int(v)+int(values[i+1])) / 2
		}
	}
	return x
}

// Nearest returns the number of the level that is nearest to t, 0 for a NaN.
func (x *Levels) Nearest(t float32) (code int) {
	for step := 8; step > 0; step /= 2 {
		if t >= x.middles[code+step-1] {
			code += step
		}
	}
	return code
}

// Load takes the first N weights and what they count of each of eight runs that follow one another, and finds extremes.
func (x *Lanes) Load(w, c []float32) { active.lay(x, w[:8*x.N], c[:8*x.N]) }

// Weigh multiplies the weights of every run by up, what they count by upC, and fills the sums.
func (x *Lanes) Weigh(up, upC *[8]float32) { active.scaled(x, up, upC) }

// Line fills ways whose values are the integers from lo to hi, between −2²² and 2²². That nearest to t is the even one of two, and lo for a NaN. Best
// are the scale, which is positive, and the floor, bottom or more or else 0, that suit the values best.
func (x *Lanes) Line(ways []Way, lo, hi, bottom float32, best *Best) {
	active.line(x, ways, lo, hi, bottom, best)
}

// Scale is Line for ways without a floor, and with scales of any sign: Floor, Q and R are neither read nor filled.
func (x *Lanes) Scale(ways []Way, lo, hi float32, best *Best) { active.scale(x, ways, lo, hi, best) }

// Level is Scale for values that are levels.
func (x *Lanes) Level(ways []Way, levels *Levels, best *Best) { active.level(x, ways, levels, best) }

// Errors fills RR as Line does. Best are the scale and floor of a way.
func (x *Lanes) Errors(ways []Way, lo, hi float32, best *Best) { active.errors(x, ways, lo, hi, best) }

// Minima fills ways as Line does. Best are the scale of a way and as the floor the integer, from 0 to Top, that suits the values best.
func (x *Lanes) Minima(ways []Way, lo, hi float32, m *Minima, best *Best) {
	active.minima(x, ways, lo, hi, m, best)
}

// compare puts a way in the place of the best if its loss is smaller.
func (b *Best) compare(k, l int, loss, scale, floor float32) {
	if loss < b.Loss[l] {
		b.Loss[l], b.Scale[l], b.Floor[l], b.Way[l] = loss, scale, floor, int32(k)
	}
}

func loadLanes(x *Lanes, w, c []float32) {
	for l := range 8 {
		run, counts := w[l*x.N:][:x.N], c[l*x.N:]
		least, most := float32(math.Inf(1)), float32(math.Inf(-1))
		heaviest := most
		for i, v := range run {
			x.W[8*i+l], x.C[8*i+l] = v, counts[i]
			if !(least < v) {
				least = v
			}
			if !(most > v) {
				most = v
			}
			if !(heaviest > counts[i]) {
				heaviest = counts[i]
			}
		}
		x.Least[l], x.Most[l], x.Heaviest[l] = least, most, heaviest
	}
}

func weighLanes(x *Lanes, up, upC *[8]float32) {
	for l := range 8 {
		var sumC, sumW, energy float32
		for i := l; i < 8*x.N; i += 8 {
			w, c := float32(x.W[i]*up[l]), float32(x.C[i]*upC[l])
			cw := float32(c * w)
			x.W[i], x.C[i] = w, c
			sumC += c
			sumW += cw
			energy += float32(cw * w)
		}
		x.SumC[l], x.SumW[l], x.Energy[l] = sumC, sumW, energy
	}
}

// shift moves a float32 to where neighbours are 1 apart, which rounds it, ties to even.
const shift = 3 << 22

// integer returns the integer from lo to hi that is nearest to t.
func integer(t, lo, hi float32) float32 {
	q := lo
	if t > lo {
		q = t
	}
	if q > hi {
		q = hi
	}
	return q + shift - shift
}

// sums fills way k's sums of what integers leave in run l.
func (y *Way) sums(x *Lanes, l int, lo, hi float32) {
	inverse := 1 / y.Scale[l]
	var sq, sqq, sr, sqr, srr float32
	for i := l; i < 8*x.N; i += 8 {
		t := float32((x.W[i] + y.Floor[l]) * inverse)
		q := integer(t, lo, hi)
		r, cq := t-q, float32(x.C[i]*q)
		cr := float32(x.C[i] * r)
		sq += cq
		sqq += float32(cq * q)
		sr += cr
		sqr += float32(cq * r)
		srr += float32(cr * r)
	}
	y.Q[l], y.QQ[l], y.R[l], y.QR[l], y.RR[l] = sq, sqq, sr, sqr, srr
}

func lineWays(x *Lanes, ways []Way, lo, hi, bottom float32, best *Best) {
	for k := range ways {
		for l := range 8 {
			ways[k].sums(x, l, lo, hi)
			scale, floor, loss := ways[k].fitLine(l, x.SumC[l], x.Energy[l], bottom)
			best.compare(k, l, loss, scale, floor)
		}
	}
}

func minimaWays(x *Lanes, ways []Way, lo, hi float32, m *Minima, best *Best) {
	for k := range ways {
		y := &ways[k]
		for l := range 8 {
			y.sums(x, l, lo, hi)
			s := y.Scale[l]
			mean := float32(s*y.Q[l]) / x.SumC[l] // of scale·q
			better := integer(float32((mean-m.Mean[l])*m.Inverse[l]), 0, m.Top[l])
			b := float32((better - m.M[l]) * m.Unit[l]) // w − ŵ is s·r + b
			loss := float32(s*(float32(s*y.RR[l])+float32(float32(b+b)*y.R[l]))) + float32(float32(b*b)*x.SumC[l])
			best.compare(k, l, loss, s, better)
		}
	}
}

// alike is the part of c·Σcq² that the determinant of both unknowns, scale and floor, must be: with less, values are too much alike.
const alike = 1e-5

// fitLine finds the best scale and floor. In units of s, what is left is r − a·q + b.
func (y *Way) fitLine(l int, c, energy, bottom float32) (scale, floor, loss float32) {
	s, f, q, qq, r, qr, rr := y.Scale[l], y.Floor[l], y.Q[l], y.QQ[l], y.R[l], y.QR[l], y.RR[l]
	cqq := float32(c * qq)
	det := cqq - float32(q*q)
	a := (float32(c*qr) - float32(q*r)) / det
	b := (float32(q*qr) - float32(qq*r)) / det
	scale, floor = s+float32(s*a), f+float32(s*b)
	loss = float32(float32(s*s) * (rr - float32(a*qr) + float32(b*r)))
	if !(det > float32(alike*cqq) && scale > 0 && floor >= bottom) {
		qw := float32(s*(qq+qr)) - float32(f*q) // Σ c·q·w
		scale, floor = qw/qq, 0
		loss = energy - float32(qw*scale)
		if !(scale > 0) {
			loss = float32(math.NaN())
		}
	}
	return scale, floor, loss
}

func scaleWays(x *Lanes, ways []Way, lo, hi float32, best *Best) {
	fitScales(x, ways, func(t float32) float32 { return integer(t, lo, hi) }, best)
}

func levelWays(x *Lanes, ways []Way, levels *Levels, best *Best) {
	fitScales(x, ways, func(t float32) float32 { return levels.values[levels.Nearest(t)] }, best)
}

// fitScales fills ways without floors, given the value for every t.
func fitScales(x *Lanes, ways []Way, value func(t float32) float32, best *Best) {
	for k := range ways {
		y := &ways[k]
		for l := range 8 {
			s := y.Scale[l]
			inverse := 1 / s
			var sqq, sqr, srr float32
			for i := l; i < 8*x.N; i += 8 {
				t := float32(x.W[i] * inverse)
				q := value(t)
				r, cq := t-q, float32(x.C[i]*q)
				sqq += float32(cq * q)
				sqr += float32(cq * r)
				srr += float32(float32(x.C[i]*r) * r)
			}
			a := sqr / sqq
			y.QQ[l], y.QR[l], y.RR[l] = sqq, sqr, srr
			best.compare(k, l, float32(float32(s*s)*(srr-float32(a*sqr))), s+float32(s*a), 0)
		}
	}
}

func errorWays(x *Lanes, ways []Way, lo, hi float32, best *Best) {
	for k := range ways {
		y := &ways[k]
		for l := range 8 {
			s := y.Scale[l]
			inverse := 1 / s
			var srr float32
			for i := l; i < 8*x.N; i += 8 {
				t := float32((x.W[i] + y.Floor[l]) * inverse)
				r := t - integer(t, lo, hi)
				srr += float32(float32(x.C[i]*r) * r)
			}
			y.RR[l] = srr
			best.compare(k, l, float32(float32(s*s)*srr), s, y.Floor[l])
		}
	}
}
