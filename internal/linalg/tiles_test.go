package linalg

import (
	"math"
	"math/rand/v2"
	"testing"

	"nibble/internal/half"
	"nibble/internal/kernel"
)

// tileMoment is the definition of a moment on tiles: of each 32 rows even and odd ones apart, each product fused with its sum, then both, then
// that to the sum of 128 rows, then those to the sum of the chunk, all in float32.
func tileMoment(x []float32, k, n int) []float64 {
	sum := make([]float64, k*k)
	for first := 0; first < n; first += MomentChunk {
		last := min(n, first+MomentChunk)
		for i := range k {
			for j := range i + 1 {
				var y float32
				for block := first; block < last; block += 128 {
					var s float32
					for tile := block; tile < min(block+128, last); tile += 32 {
						var parts [2]float32
						for t := tile; t < min(tile+32, last); t++ {
							p := &parts[t&1] // 16 bits of a product and 24: no double rounding
							*p = float32(float64(float64(x[t*k+i])*float64(x[t*k+j])) + float64(*p))
						}
						s += parts[0] + parts[1]
					}
					y += s
				}
				sum[i*k+j] += float64(y)
			}
		}
	}
	return sum
}

// Where there are tiles of bfloat16, moments on them have the bits of their definition, with any number of rows, columns and threads.
func TestMomentOnTiles(t *testing.T) {
	if usable, _ := kernel.AMX(); !usable {
		if kernel.Select("amxbf16") == nil {
			t.Error("tiles are used that cannot be")
		}
		return
	}
	kernel.Use(t, "amxbf16")
	r := rand.New(rand.NewPCG(8, 8))
	for i, k := range []int{1, 31, 32, 33, 64, 70} {
		n := []int{1, 2, 7, 100, MomentChunk, MomentChunk + 331}[i]
		x := numbers[float32](r, n*k, false)
		for j := range x {
			x[j] = half.RoundBF16(x[j])
		}
		want, m, cross := tileMoment(x, k, n), NewMoment(k), NewCross(k)
		for at := 0; at < n; {
			rows := min(n-at, 1+r.IntN(300))
			raw := bytesOfBF16(x[at*k : (at+rows)*k])
			m.AddBF16(raw, 2*k, rows, nil, 1+i%3)
			cross.AddCross(raw, raw, 2*k, rows, nil, 1+i%3)
			at += rows
		}
		all := cross.Sum(1)
		for j, v := range m.Sum(2) {
			if math.Float64bits(v) != math.Float64bits(want[j]) {
				t.Fatalf("k %d, n %d: element %d is %v, want %v", k, n, j, v, want[j])
			}
			if row, column := j/k, j%k; column <= row && (all[j] != v || all[column*k+row] != v) {
				t.Fatalf("k %d, n %d: element %d of the cross moment is %v, across %v, want %v", k, n, j, all[j], all[column*k+row], v)
			}
		}
	}
}
