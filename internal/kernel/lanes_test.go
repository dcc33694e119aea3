package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// testLevels are those of the IQ4 types.
var testLevels = NewLevels([16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113})

func TestLanes(t *testing.T) { underEach(t, testLanes) }

// All sets give the bits of the plain loop, at every length and number of ways, with numbers beyond both ends, ties, infinite scales and what is
// no number, and leave alone what a kind of way does not have.
func testLanes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	scales := []float32{0.25, -0.25, 0.1, 3, 1e-38, float32(math.Inf(1)), float32(math.NaN()), 0.031, 0.5, math.SmallestNonzeroFloat32}
	for n := range 33 {
		x := Lanes{N: n}
		for i := range x.W {
			x.W[i], x.C[i] = float32(r.NormFloat64()), r.Float32()
			switch r.IntN(12) {
			case 0:
				x.W[i] = float32(r.IntN(9)-4) / 8 // a tie of scale 1/4
			case 1:
				x.W[i] = float32(math.Copysign(0, -1))
			case 2:
				x.W[i] = math.SmallestNonzeroFloat32
			}
		}
		ways := make([]Way, 1+n%6)
		for k := range ways {
			for l := range 8 {
				ways[k] = Way{ways[k].Scale, ways[k].Floor, [8]float32{1, 2, 3}, [8]float32{4}, [8]float32{5, 6}, [8]float32{7}, [8]float32{8}}
				ways[k].Scale[l], ways[k].Floor[l] = scales[r.IntN(len(scales))], float32(r.IntN(16))/16
			}
		}
		for _, ends := range [][2]float32{{0, 15}, {-32, 31}, {-127, 127}} {
			for name, f := range map[string][2]func(ways []Way){
				"line":  {func(y []Way) { x.Line(y, ends[0], ends[1]) }, func(y []Way) { lineWays(&x, y, ends[0], ends[1]) }},
				"scale": {func(y []Way) { x.Scale(y, ends[0], ends[1]) }, func(y []Way) { scaleWays(&x, y, ends[0], ends[1]) }},
				"level": {func(y []Way) { x.Level(y, testLevels) }, func(y []Way) { levelWays(&x, y, testLevels) }},
			} {
				got, want := append([]Way(nil), ways...), append([]Way(nil), ways...)
				f[0](got)
				f[1](want)
				for k := range want {
					if a, b := wayBits(&got[k]), wayBits(&want[k]); a != b {
						t.Fatalf("%s of %d weights, way %d of %d:\n%x\n%x", name, n, k, len(ways), a, b)
					}
				}
			}
		}
	}
}

// wayBits are those of a way, one pattern for all that are no number.
func wayBits(y *Way) (all [7][8]uint32) {
	for i, row := range [][8]float32{y.Scale, y.Floor, y.Q, y.QQ, y.R, y.QR, y.RR} {
		for l, v := range row {
			if all[i][l] = math.Float32bits(v); v != v {
				all[i][l] = 0x7fc00000
			}
		}
	}
	return all
}

// Three weights by hand: scale 1/2 and floor 1 make t of −1, 0.25 and 9 to 0, 2.5 and 20, which is 0, 2 (a tie) and 15 with 0, 0.5 and 5 left.
func TestWayByHand(t *testing.T) {
	underEach(t, func(t *testing.T) {
		x, y := Lanes{N: 3}, make([]Way, 1)
		for l := range 8 {
			y[0].Scale[l], y[0].Floor[l] = 0.5, 1
			for i, w := range []float32{-1, 0.25, 9} {
				x.W[8*i+l], x.C[8*i+l] = w, []float32{1, 2, 1}[i]
			}
		}
		x.Line(y, 0, 15)
		if got, want := [5]float32{y[0].Q[7], y[0].QQ[7], y[0].R[7], y[0].QR[7], y[0].RR[7]}, [5]float32{19, 233, 6, 77, 25.5}; got != want {
			t.Errorf("%v, want %v", got, want)
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
