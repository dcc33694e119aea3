package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// testLevels are those of the IQ4 types.
var testLevels = NewLevels([16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113})

func TestLanes(t *testing.T) { underEach(t, testLanes) }

// All sets give the bits of the plain loops, at every length and number of ways, with numbers beyond both ends, ties, infinite scales and what is
// no number, and leave alone what a kind of way does not have.
func testLanes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	scales := []float32{0.25, -0.25, 0.1, 3, 1e-38, float32(math.Inf(1)), float32(math.NaN()), 0.031, 0.5, math.SmallestNonzeroFloat32}
	for round := range 60 {
		n := 8 * (1 + round%4)
		var w, c [256]float32
		var up, upC [8]float32
		for i := range w {
			w[i], c[i] = float32(r.NormFloat64()), r.Float32()
			switch r.IntN(12) {
			case 0:
				w[i] = float32(r.IntN(9)-4) / 8 // a tie of scale 1/4
			case 1:
				w[i] = float32(math.Copysign(0, -1))
			case 2:
				w[i] = math.SmallestNonzeroFloat32
			case 3:
				c[i] = 0
			}
			up[i%8], upC[i%8] = float32(math.Ldexp(1, r.IntN(9)-4)), float32(math.Ldexp(1, r.IntN(9)-4))
		}
		got, want := Lanes{N: n}, Lanes{N: n}
		got.Load(w[:], c[:])
		loadLanes(&want, w[:], c[:])
		got.Weigh(&up, &upC)
		weighLanes(&want, &up, &upC)
		if got != want {
			t.Fatalf("runs of %d:\n%v\n%v", n, got, want)
		}
		ways := make([]Way, 1+round%6)
		for k := range ways {
			y := &ways[k]
			for i, row := range y.rows() {
				for l := range row {
					row[l] = float32(100*i + l)
				}
			}
			for l := range 8 {
				y.Scale[l], y.Floor[l] = scales[r.IntN(len(scales))], float32(r.IntN(16))/16
			}
		}
		x := &want
		for _, ends := range [][2]float32{{0, 15}, {-32, 31}, {-127, 127}} {
			bottom := float32(math.Inf(-1))
			if round%2 == 0 {
				bottom = 0
			}
			m := Minima{}
			for l := range 8 {
				m.M[l], m.Unit[l], m.Inverse[l], m.Top[l], m.Mean[l] = float32(r.IntN(16)), 1/float32(16), 16, 15, float32(r.NormFloat64())/8
			}
			first := Best{Loss: [8]float32{1e30, 1e-3, 1e30, -1, 1e30, 1e30, float32(math.Inf(1)), 1e30}, Scale: [8]float32{1, 2, 3}, Way: [8]int32{7}}
			for name, f := range map[string][2]func(ways []Way, best *Best){
				"line":   {func(y []Way, b *Best) { x.Line(y, ends[0], ends[1], bottom, b) }, func(y []Way, b *Best) { lineWays(x, y, ends[0], ends[1], bottom, b) }},
				"scale":  {func(y []Way, b *Best) { x.Scale(y, ends[0], ends[1], b) }, func(y []Way, b *Best) { scaleWays(x, y, ends[0], ends[1], b) }},
				"level":  {func(y []Way, b *Best) { x.Level(y, testLevels, b) }, func(y []Way, b *Best) { levelWays(x, y, testLevels, b) }},
				"errors": {func(y []Way, b *Best) { x.Errors(y, ends[0], ends[1], b) }, func(y []Way, b *Best) { errorWays(x, y, ends[0], ends[1], b) }},
				"minima": {func(y []Way, b *Best) { x.Minima(y, ends[0], ends[1], &m, b) }, func(y []Way, b *Best) { minimaWays(x, y, ends[0], ends[1], &m, b) }},
			} {
				got, want := append([]Way(nil), ways...), append([]Way(nil), ways...)
				gotBest, wantBest := first, first
				f[0](got, &gotBest)
				f[1](want, &wantBest)
				if gotBest != wantBest {
					t.Fatalf("%s of %d weights, %d ways: %v, want %v", name, n, len(ways), gotBest, wantBest)
				}
				for k := range want {
					a, b := got[k].rows(), want[k].rows()
					for i := range a {
						for l, v := range a[i] {
							if u := b[i][l]; math.Float32bits(u) != math.Float32bits(v) && !(u != u && v != v) {
								t.Fatalf("%s of %d weights, way %d of %d, row %d, run %d: %g, want %g", name, n, k, len(ways), i, l, v, u)
							}
						}
					}
				}
			}
		}
	}
}

// rows are all numbers of a way.
func (y *Way) rows() [7]*[8]float32 {
	return [7]*[8]float32{&y.Scale, &y.Floor, &y.Q, &y.QQ, &y.R, &y.QR, &y.RR}
}

// Eight weights by hand, five of which do not count: scale 1/2 and floor 1 make t of −1, 0.25 and 9 to 0, 2.5 and 20, which is 0, 2 (a tie)
// and 15 with 0, 0.5 and 5 left. With c of 1, 2, 1 the normal equations are 233·a − 19·b = 77 and −19·a + 4·b = −6: a = 194/571, b =
// 65/571, in halves; what is left of 25.5 is 25.5 − 77·a + 6·b, in quarters.
func TestWayByHand(t *testing.T) {
	underEach(t, func(t *testing.T) {
		var w, c [256]float32
		one := [8]float32{1, 1, 1, 1, 1, 1, 1, 1}
		x, y := Lanes{N: 8}, make([]Way, 1)
		for l := range 8 {
			y[0].Scale[l], y[0].Floor[l] = 0.5, 1
			copy(w[8*l:], []float32{-1, 0.25, 9, 7, 7})
			copy(c[8*l:], []float32{1, 2, 1})
		}
		x.Load(w[:], c[:])
		x.Weigh(&one, &one)
		if got, want := [6]float32{x.Least[7], x.Most[7], x.Heaviest[7], x.SumC[7], x.SumW[7], x.Energy[7]}, [6]float32{-1, 9, 2, 4, 8.5, 82.125}; got != want {
			t.Errorf("%v, want %v", got, want)
		}
		best := Best{Loss: [8]float32{7: 100}}
		x.Line(y, 0, 15, 0, &best)
		if got, want := [5]float32{y[0].Q[7], y[0].QQ[7], y[0].R[7], y[0].QR[7], y[0].RR[7]}, [5]float32{19, 233, 6, 77, 25.5}; got != want {
			t.Errorf("%v, want %v", got, want)
		}
		for i, want := range map[float32]float64{
			best.Scale[7]: 0.5 + 0.5*194/571, best.Floor[7]: 1 + 0.5*65.0/571, best.Loss[7]: 0.25 * (25.5 - 77*194.0/571 + 6*65.0/571)} {
			if math.Abs(float64(i)-want) > 1e-6 {
				t.Errorf("%v, want %v", i, want)
			}
		}
		// Floors of m/2, of which this is m = 2: the mean of scale·q is 19/8, that of w 17/8, so m is 1/4 and 1/2 of a unit nearer to 0,
		// of a tie the even one is 0, with which 1/2·r − 1 is left.
		m := Minima{M: [8]float32{7: 2}, Unit: [8]float32{7: 0.5}, Inverse: [8]float32{7: 2}, Top: [8]float32{7: 15}, Mean: [8]float32{7: 17.0 / 8}}
		best = Best{Loss: [8]float32{7: 100}}
		x.Minima(y, 0, 15, &m, &best)
		if got, want := [3]float32{best.Loss[7], best.Scale[7], best.Floor[7]}, [3]float32{0.25*25.5 - 6 + 4, 0.5, 0}; got != want {
			t.Errorf("%v, want %v", got, want)
		}
		x.Errors(y, 0, 15, &best)
		if best.Loss[7] != 0.25*25.5-6+4 {
			t.Error("a greater loss took the place of the best")
		}
	})
}

// Every half step from −130 to 120: the nearest level by comparing distances, the upper one of two.
func TestNearestLevel(t *testing.T) {
	for x := float32(-130); x < 120; x += 0.5 {
		want := 0
		for i, v := range testLevels.values {
			if abs(x-v) <= abs(x-testLevels.values[want]) {
				want = i
			}
		}
		if got := testLevels.Nearest(x); got != want {
			t.Errorf("%g: level %d, want %d", x, got, want)
		}
	}
}
