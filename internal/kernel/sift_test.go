package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// group returns weights of a group: usual ones, ones far from 0, few different values, extremes of range.
func group(r *rand.Rand, n int) []float32 {
	w := tame(r, n)
	switch r.IntN(4) {
	case 0:
		for i := range w {
			w[i] = 1 + float32(r.NormFloat64())*0.001
		}
	case 1:
		s := float32(math.Exp2(float64(r.IntN(240) - 120)))
		for i := range w {
			w[i] = s * float32(r.NormFloat64())
		}
	case 2:
		for i := range w {
			w[i] = float32(r.NormFloat64()) * 0.02
		}
	}
	return w
}

// trials returns candidates as the searches have them, of either kind.
func trials(r *rand.Rand, w, d []float32) (*Trials, []Grid, float32) {
	t := new(Trials)
	lo, hi := Extremes(w)
	most := max(hi, -lo)
	top := []float32{15, 255}[r.IntN(2)]
	var grids []Grid
	for range 1 + r.IntN(MaxTrials) {
		g := Grid{Hi: top, Add: float32(r.IntN(int(top) + 1))}
		g.Off = g.Add
		g.Scale = max(most/(g.Hi-g.Off+0.5), 0x1p-126) * (0.7 + 0.5*r.Float32())
		if r.IntN(4) == 0 {
			g.Scale = -g.Scale
		}
		if top == 15 && len(grids)%2 == 1 {
			g = Grid{Scale: max((hi-lo)/15, 0x1p-126) * (0.7 + 0.5*r.Float32()), Lo: -8, Hi: 7}
			g.Sub = lo + 8*g.Scale
			g.Bias = g.Sub
		}
		if len(grids) > 0 && r.IntN(8) == 0 {
			g = grids[r.IntN(len(grids))] // a tie
		}
		grids = append(grids, g)
		t.Add(g.Scale, g.Sub, g.Add, g.Lo, g.Hi)
	}
	t.Sift(w, d, most, top+1)
	return t, grids, most
}

// The first of the candidates with the smallest error is never sifted out, and usually most others are.
func TestSift(t *testing.T) { underEach(t, testSift) }

func testSift(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	tried, all := 0, 0
	for range 3000 {
		w := group(r, 1+r.IntN(200))
		var d []float32 // of a few sizes, one of which is nothing, or as searches without text have it
		switch r.IntN(3) {
		case 0:
			d = make([]float32, len(w))
			for i := range d {
				d[i] = float32(math.Ldexp(r.Float64(), 10*r.IntN(4)-20)) * float32(r.IntN(4)/3)
			}
		case 1:
			d = make([]float32, len(w))
			for i, x := range w {
				d[i] = 0.01 + abs(x)
			}
		}
		c, grids, _ := trials(r, w, d)
		best, least := 0, math.Inf(1)
		for i := range grids {
			if e := GridError(&grids[i], w, d); e < least {
				best, least = i, e
			}
			if c.Next(i) == i {
				tried++
			}
			all++
		}
		if c.Next(best) != best {
			t.Fatalf("%v of %d weights is sifted out, the best of %d, with an error of %v", grids[best], len(w), len(grids), least)
		}
	}
	if tried*3 > all {
		t.Errorf("%d of %d candidates are worth a trial", tried, all)
	}
}

// The measurements have the bits of plain Go for any number of candidates and of weights.
func TestCoarse(t *testing.T) { underEach(t, testCoarse) }

func testCoarse(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	for n := range 120 {
		outer, inner := group(r, n), make([]float32, r.IntN(40))
		outerD, innerD := make([]float32, len(outer)), make([]float32, len(inner))
		for _, d := range [][]float32{outerD, innerD} {
			for i := range d {
				d[i] = r.Float32()
			}
		}
		for i := range inner {
			inner[i] = float32(r.NormFloat64())
		}
		size := 8 * r.IntN(7)
		var in [4][]float32
		for i := range in {
			in[i] = make([]float32, size)
			for j := range in[i] {
				in[i][j] = float32(r.NormFloat64())
			}
		}
		inverse, lo, hi, sub := in[0], in[1], in[2], in[3]
		for i := range lo {
			lo[i] = float32(-r.IntN(256))
			hi[i] = lo[i] + 15
		}
		got, want := make([]float32, size), make([]float32, size)
		active.coarse(got, inverse, lo, hi, inner, outer, innerD, outerD)
		coarse(want, inverse, lo, hi, inner, outer, innerD, outerD)
		sameBits(t, "coarse", n, got, want)
		active.shifted(got, inverse, lo, hi, sub, inner, outer, innerD, outerD)
		shifted(want, inverse, lo, hi, sub, inner, outer, innerD, outerD)
		sameBits(t, "shifted", n, got, want)
	}
}

// The four squares of 1/4, and one of two steps behind the last code, that counts half or in full, are summed.
func TestCoarseValue(t *testing.T) { underEach(t, testCoarseValue) }

func testCoarseValue(t *testing.T) {
	one := func(x float32) []float32 {
		v := make([]float32, 8)
		for i := range v {
			v[i] = x
		}
		return v
	}
	sums, ones := one(0), one(1)
	active.coarse(sums, one(2), one(-8), one(7), []float32{0.125, 0.375, -1.125, 2.625}, []float32{4.5}, []float32{1, 1, 1, 1}, []float32{0.5})
	for _, s := range sums {
		if s != 2.25 {
			t.Fatalf("%v, want 2.25", sums)
		}
	}
	active.shifted(sums, one(2), one(-8), one(7), one(1), []float32{1.125, 1.375, -0.125, 3.625}, []float32{5.5}, ones[:4], ones[:1])
	if sums[7] != 4.25 {
		t.Errorf("shifted: %v, want 4.25", sums)
	}
}

// Weights that are measured without clamping would not be clamped by any candidate, and most are such weights.
func TestDivide(t *testing.T) { underEach(t, testDivideTrials) }

func testDivideTrials(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 18))
	free, all := 0, 0
	for i := range 3000 {
		w := group(r, 1+r.IntN(200))
		low, high := Extremes(w)
		c, _, most := trials(r, w, nil)
		if i%2 == 0 {
			rule := NewRule(1+r.IntN(MaxTrials), func(int) (p, q, den float32) { return 0.75 + 0.25*r.Float32(), 0.75 + 0.25*r.Float32(), 15 })
			x := Range{U: high, V: low, Most: 15, Hi: 15}
			if i%4 == 0 {
				x = Range{Base: high/2 + low/2, U: high/2 - low/2, V: low/2 - high/2, Keep: 1, Shift: 8, Lo: -8, Hi: 7}
			}
			if !c.Fill(rule, &x, most) {
				continue
			}
			c.Sift(w, nil, most, 16)
		}
		d := make([]float32, len(w))
		for i := range d {
			d[i] = float32(i)
		}
		m := c.divide(w, d, (c.n+15)&^15)
		inner, outer, innerD, outerD := c.inner[:m], c.outer[:len(w)-m], c.innerD[:m], c.outerD[:len(w)-m]
		for _, x := range inner {
			for l := range c.n {
				y := float32((x - c.sub[l]) * c.inverse[l])
				if q := Nearest(y, c.lowest[l], c.highest[l]); q != Nearest(y, -1<<22, 1<<22) {
					t.Fatalf("%v at candidate %d, from %v to %v: clamped", y, l, c.lowest[l], c.highest[l])
				}
			}
		}
		a, b := 0, 0
		for i, x := range w { // each is in one of both, in order, with its d
			switch {
			case a < len(inner) && inner[a] == x && innerD[a] == d[i]:
				a++
			case b < len(outer) && outer[b] == x && outerD[b] == d[i]:
				b++
			default:
				t.Fatalf("%v of %v is lost in %v and %v", x, w, inner, outer)
			}
		}
		if i%2 == 0 {
			free, all = free+len(inner), all+a+b
		}
	}
	if free*3 < all*2 {
		t.Errorf("%d of %d weights of rules are between all first and last codes", free, all)
	}
}

// Sums that are called exact are those in the order of the weights, and those of weights in bfloat16 usually are.
func TestSums(t *testing.T) { underEach(t, testSums) }

func testSums(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 13))
	exact := 0
	for range 3000 {
		w := group(r, 1+r.IntN(200))
		if r.IntN(2) == 0 {
			for i, x := range w {
				w[i] = math.Float32frombits(math.Float32bits(x) &^ 0xffff)
			}
		}
		lo, hi := Extremes(w)
		g := Grid{Scale: max(hi-lo, 0x1p-120) / 12, Add: 7, Hi: 15, Off: 7}
		if r.IntN(2) == 0 {
			g = Grid{Scale: g.Scale, Sub: lo + 8*g.Scale, Lo: -8, Hi: 7, Off: -8, Bias: lo + 8*g.Scale}
		}
		var want [4]float64
		for _, x := range w {
			a := float64(g.code(x) - g.Off)
			want[0] += a
			want[1] += a * a
			want[2] += float64(x)
			want[3] += float64(x) * a
		}
		a, aa, x, xa, ok := g.Sums(w, max(hi, -lo))
		if got := [4]float64{a, aa, x, xa}; ok && got != want {
			t.Fatalf("%v, want %v", got, want)
		}
		if ok {
			exact++
		}
	}
	if exact < 1500 {
		t.Errorf("%d of 3000 sums are exact", exact)
	}
}

// An order that matters is not called exact: 2^30 + 2^-30 and two of the smaller that make a difference together.
func TestSumsInexact(t *testing.T) { underEach(t, testSumsInexact) }

func testSumsInexact(t *testing.T) {
	w := []float32{0x1p30, 0x1p-24, 0x1p-24, -0x1p30}
	g := Grid{Scale: 1, Add: 7, Hi: 15, Off: 7}
	if _, _, _, _, ok := g.Sums(w, 0x1p30); ok {
		t.Error("called exact")
	}
}

func FuzzSift(f *testing.F) {
	f.Add(uint64(1), uint16(128))
	f.Fuzz(func(t *testing.T, seed uint64, n uint16) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := group(r, 1+int(n)%500)
		d := make([]float32, len(w))
		for i := range d {
			d[i] = r.Float32()
		}
		c, grids, _ := trials(r, w, d)
		best, least := 0, math.Inf(1)
		for i := range grids {
			if e := GridError(&grids[i], w, d); e < least {
				best, least = i, e
			}
		}
		if c.Next(best) != best {
			t.Fatalf("%v is sifted out", grids[best])
		}
	})
}

func BenchmarkSift(b *testing.B) {
	r := rand.New(rand.NewPCG(14, 14))
	w := make([]float32, 128)
	for i := range w {
		w[i] = math.Float32frombits(math.Float32bits(float32(r.NormFloat64()*0.02)) &^ 0xffff)
	}
	lo, hi := Extremes(w)
	most, g := max(hi, -lo), Grid{Scale: max(hi, -lo) / 7.5, Add: 8, Hi: 15, Off: 8}
	run := func(name string, f func()) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(4 * len(w)))
			for b.Loop() {
				f()
			}
		})
	}
	t := new(Trials)
	run("36 candidates", func() {
		t.Reset()
		for i := range 36 {
			t.Add(g.Scale*(1-float32(i)/100), 0, 8, 0, 15)
		}
		t.Sift(w, nil, most, 16)
	})
	run("sums", func() { g.Sums(w, most) })
	run("error", func() { GridError(&g, w, nil) })
}
