package kernel

// ways are what the searches of blocks of codes do over and over.
type ways struct {
	line, scale func(x *Lanes, ways []Way, lo, hi float32)
	level       func(x *Lanes, ways []Way, levels *Levels)
}

var waysGeneric = ways{lineWays, scaleWays, levelWays}

// Lanes are eight runs of up to 32 weights side by side: weight i of run l, and how much its squared error counts, at 8i + l.
type Lanes struct {
	N    int // weights of a run
	W, C [8 * 32]float32
}

// Way is a way to encode every run of Lanes, w ≈ Scale·q − Floor with values q, and what is left of it: t = (w + Floor)·(1/Scale)
// is q + r. All is float32, each operation rounded, sums in the order of the weights. Sums of what is left, not of w, lose no digits where codes
// are fine.
type Way struct {
	Scale, Floor [8]float32
	Q, QQ        [8]float32 // Σ c·q and Σ (c·q)·q
	R, QR, RR    [8]float32 // Σ c·r, Σ (c·q)·r and Σ (c·r)·r
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

// Line fills the sums of ways whose values are the integers from lo to hi, between −2²² and 2²². That nearest to t is the even one of two, and
// lo for a NaN.
func (x *Lanes) Line(ways []Way, lo, hi float32) { active.line(x, ways, lo, hi) }

// Scale is Line for ways without a floor: Floor, Q and R are neither read nor filled.
func (x *Lanes) Scale(ways []Way, lo, hi float32) { active.scale(x, ways, lo, hi) }

// Level is Scale for values that are levels.
func (x *Lanes) Level(ways []Way, levels *Levels) { active.level(x, ways, levels) }

// integral moves a float32 to where neighbours are 1 apart, which rounds it, ties to even.
const integral = 3 << 22

// nearest returns the integer from lo to hi that is nearest to t.
func nearest(t, lo, hi float32) float32 {
	q := lo
	if t > lo {
		q = t
	}
	if q > hi {
		q = hi
	}
	return q + integral - integral
}

func lineWays(x *Lanes, ways []Way, lo, hi float32) {
	for k := range ways {
		y := &ways[k]
		for l := range 8 {
			inverse := 1 / y.Scale[l]
			var sq, sqq, sr, sqr, srr float32
			for i := l; i < 8*x.N; i += 8 {
				t := float32((x.W[i] + y.Floor[l]) * inverse)
				q := nearest(t, lo, hi)
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
	}
}

func scaleWays(x *Lanes, ways []Way, lo, hi float32) {
	scaleSums(x, ways, func(t float32) float32 { return nearest(t, lo, hi) })
}

func levelWays(x *Lanes, ways []Way, levels *Levels) {
	scaleSums(x, ways, func(t float32) float32 { return levels.values[levels.Nearest(t)] })
}

// scaleSums fills the sums of ways without floors, given the value for every t.
func scaleSums(x *Lanes, ways []Way, value func(t float32) float32) {
	for k := range ways {
		y := &ways[k]
		for l := range 8 {
			inverse := 1 / y.Scale[l]
			var sqq, sqr, srr float32
			for i := l; i < 8*x.N; i += 8 {
				t := float32(x.W[i] * inverse)
				q := value(t)
				r, cq := t-q, float32(x.C[i]*q)
				sqq += float32(cq * q)
				sqr += float32(cq * r)
				srr += float32(float32(x.C[i]*r) * r)
			}
			y.QQ[l], y.QR[l], y.RR[l] = sqq, sqr, srr
		}
	}
}
