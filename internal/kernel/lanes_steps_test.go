package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// none is no number.
var none = math.NaN()

// A scale of 1/4 in units of 2 and of 1000: the neighbours of 0 and of the greatest integer that there are, and no number where 512 is left
// behind, or 0 where that is not wanted.
func TestStepsByHand(t *testing.T) {
	underEach(t, func(t *testing.T) {
		var got [3][8]float32
		integers, unit := [8]float64{0, 1, 15, 14, 1, 3, 0, -1}, [8]float64{2, 2, 2, 2, 1000, 1000, 2, 2}
		Steps(&got, &integers, &unit, 0.25, 0, 15, 0)
		for j, want := range [3][8]float64{
			{none, none, 7, 6.5, none, none, none, none},
			{none, 0.5, 7.5, 7, 250, none, none, none},
			{0.5, 1, none, 7.5, none, none, 0.5, none},
		} {
			for l, x := range want {
				if x := float32(x); math.Float32bits(got[j][l]) != math.Float32bits(x) && x == x || x != x && got[j][l] == got[j][l] {
					t.Errorf("candidate %d of run %d: %v, want %v", j, l, got[j][l], x)
				}
			}
		}
		Steps(&got, &integers, &unit, 0.25, 0, 15, none)
		if got[0][1] != 0 || got[1][0] != 0 || got[1][7] == got[1][7] {
			t.Errorf("with zeros: %v", got)
		}
	})
}

// One weight of −3 that counts 2, in units of 2: the floor 4 of the integers from 0 to 2 leaves 2, the nearest that there is, 4·(4·2 − 12) off the energy of 18.
func TestFlatByHand(t *testing.T) {
	underEach(t, func(t *testing.T) {
		x, best := Lanes{}, Best{}
		var mean, up, down [8]float64
		for l := range up {
			mean[l], up[l], down[l] = -3, 2, 0.5
			x.Energy[l], x.SumC[l], x.SumW[l] = 18, 2, -6
		}
		mean[7], x.SumW[7] = 3, 6
		mean[6] = none
		x.Flat(&mean, &up, &down, 1, 1, 2, &best)
		if want := (Best{Loss: [8]float32{2, 2, 2, 2, 2, 2, 18, 18}, Floor: [8]float32{2, 2, 2, 2, 2, 2, 0, 0}, Way: [8]int32{-1, -1, -1, -1, -1, -1, -1, -1}}); best != want {
			t.Errorf("%v, want %v", best, want)
		}
		x.Flat(&mean, &up, &down, 0.125, 8, 2, &best)
		if want := [3]float32{0.5*(0.5*2-12) + 18, 2, 18}; want != [3]float32{best.Loss[0], best.Floor[0], best.Loss[7]} {
			t.Errorf("beyond the greatest: %v, want %v", best, want)
		}
	})
}

// Every set has the bits of the definition.
func TestSteps(t *testing.T) { underEach(t, testSteps) }

func testSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 2))
	number := func() float64 {
		switch r.IntN(12) {
		case 0:
			return 0
		case 1:
			return math.Inf(1 - 2*r.IntN(2))
		case 2:
			return none
		case 3:
			return math.Ldexp(r.NormFloat64(), r.IntN(600)-300)
		}
		return r.NormFloat64() * 20
	}
	for range 20000 {
		var integers, unit, mean, down [8]float64
		x := &Lanes{}
		for l := range 8 {
			integers[l], unit[l], mean[l], down[l] = float64(r.IntN(70)-2), number(), number(), number()
			x.Energy[l], x.SumC[l], x.SumW[l] = float32(r.ExpFloat64()), float32(r.ExpFloat64()), float32(r.NormFloat64())
		}
		share, not, top := number(), []float64{0, none}[r.IntN(2)], float64(r.IntN(64))
		var got, want [3][8]float32
		Steps(&got, &integers, &unit, share, -top, top, not)
		steps(&want, &integers, &unit, share, -top, top, not)
		for j := range got {
			sameBits(t, "Steps", j, got[j][:], want[j][:])
		}
		var y, z Way
		for l := range y.Q {
			y.R[l], y.Q[l] = float32(number()), float32(number())
		}
		z = y
		Ends(&y, &y.R, &y.Q, float32(top))
		ends(&z, &z.R, &z.Q, float32(top))
		sameBits(t, "the scales of Ends", 8, y.Scale[:], z.Scale[:])
		sameBits(t, "the floors of Ends", 8, y.Floor[:], z.Floor[:])
		var best, plain Best
		inverse := number()
		x.Flat(&mean, &unit, &down, share, inverse, top, &best)
		flat(x, &mean, &unit, &down, share, inverse, top, &plain)
		sameBits(t, "the losses of Flat", 8, best.Loss[:], plain.Loss[:])
		sameBits(t, "the floors of Flat", 8, best.Floor[:], plain.Floor[:])
		if best.Way != plain.Way {
			t.Fatalf("Flat: ways %v", best.Way)
		}
	}
}
