//go:build unix

package kernel

import (
	"math"
	"testing"
	"unsafe"
)

// placed returns a value of memory that touches a page which must not be touched, in front of it or behind it.
func placed[T any](t *testing.T, atEnd bool) *T {
	var x T
	return (*T)(unsafe.Pointer(unsafe.SliceData(guarded(t, int(unsafe.Sizeof(x)), atEnd))))
}

// Searches of blocks touch no byte outside the runs, the ways and what they fill: it would be the end of the test.
func TestGuardPagesOfLanes(t *testing.T) { underEach(t, testGuardPagesOfLanes) }

func testGuardPagesOfLanes(t *testing.T) {
	for _, atEnd := range []bool{true, false} {
		x, best, m, levels := placed[Lanes](t, atEnd), placed[Best](t, atEnd), placed[Minima](t, atEnd), placed[Levels](t, atEnd)
		up, upC, memory := placed[[8]float32](t, atEnd), placed[[8]float32](t, atEnd), placed[[9]Way](t, atEnd)
		steps, doubles, unit := placed[[3][8]float32](t, atEnd), placed[[8]float64](t, atEnd), placed[[8]float64](t, atEnd)
		w, c := floatsOf(guarded(t, 4*8*32, atEnd)), floatsOf(guarded(t, 4*8*32, atEnd))
		*levels = *testLevels
		for l := range up {
			up[l], upC[l], unit[l] = 1, 1, 1
			m.Unit[l], m.Inverse[l], m.Top[l] = 1, 1, 15
		}
		for x.N = 8; x.N <= 32; x.N += 8 {
			n := 8 * x.N
			runs, counts := w[:n], c[:n]
			if atEnd {
				runs, counts = w[len(w)-n:], c[len(c)-n:]
			}
			for i := range runs {
				runs[i], counts[i] = float32(i%16), 1
			}
			x.Load(runs, counts)
			x.Weigh(up, upC)
			for l, sum := range x.SumW {
				m.Mean[l] = sum / x.SumC[l]
			}
			if Steps(steps, doubles, unit, 1, 0, 15, 0); steps[2] != *up {
				t.Fatalf("integers beside 0: %v", steps)
			}
			if Ends(&memory[8], up, upC, 2); memory[8].Scale != *up {
				t.Fatalf("ends 2 apart: scales %v", memory[8].Scale)
			}
			if x.Flat(doubles, unit, unit, 1, 1, 15, best); best.Loss != x.Energy {
				t.Fatalf("zeros leave %v of %v", best.Loss, x.Energy)
			}
			for count := 1; count <= len(memory); count++ {
				ways := memory[:count]
				if atEnd {
					ways = memory[len(memory)-count:]
				}
				for i := range ways {
					for l := range up {
						ways[i].Scale[l], ways[i].Floor[l] = 1, 0
					}
				}
				for name, search := range map[string]func(){
					"line":   func() { x.Line(ways, 0, 15, 0, best) },
					"scale":  func() { x.Scale(ways, 0, 15, best) },
					"errors": func() { x.Errors(ways, 0, 15, best) },
					"minima": func() { x.Minima(ways, 0, 15, m, best) },
				} {
					*best = Best{Loss: [8]float32{1, 1, 1, 1, 1, 1, 1, 1}, Way: [8]int32{-1, -1, -1, -1, -1, -1, -1, -1}}
					if search(); best.Loss != [8]float32{} || best.Way != [8]int32{} {
						t.Fatalf("%s, %d weights, %d ways: exact codes lose %v, way %v", name, x.N, count, best.Loss, best.Way)
					}
				}
				if x.Level(ways, levels, best); math.IsNaN(float64(ways[count-1].RR[7])) {
					t.Fatalf("levels, %d weights, %d ways: %v", x.N, count, ways[count-1])
				}
			}
		}
	}
}
