package linalg

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"nibble/internal/half"
)

// naiveMoment is the definition of a moment of rows of float32, in chunks of MomentChunk rows.
func naiveMoment(x []float32, k, n int, w []float32, bf16 bool) []float64 {
	sum := make([]float64, k*k)
	scaled := make([]float32, len(x))
	for i, v := range x {
		s := float32(1)
		if w != nil {
			s = float32(math.Sqrt(float64(w[i/k])))
		}
		scaled[i] = v * s
		if bf16 {
			scaled[i] = half.RoundBF16(v * s)
			if m := math.Abs(float64(scaled[i])); m < math.Exp2(-56) {
				scaled[i] = 0
			} else if m >= math.Exp2(64) {
				scaled[i] = float32(math.NaN())
			}
		}
	}
	for first := 0; first < n; first += MomentChunk {
		last := min(n, first+MomentChunk)
		for i := range k {
			for j := range i + 1 {
				var s float32
				for t := first; t < last; t++ {
					row := t
					if bf16 && t^1 < last {
						row = t ^ 1
					}
					s += float32(scaled[row*k+i] * scaled[row*k+j])
				}
				sum[i*k+j] += float64(s)
			}
		}
	}
	return sum
}

// bytesOfBF16 returns values that are bfloat16 as bytes.
func bytesOfBF16(x []float32) []byte {
	b := make([]byte, 2*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint16(b[2*i:], half.BF16(v))
	}
	return b
}

// A moment has the bits of its definition, however its rows are cut and whoever computes it.
func TestMoment(t *testing.T) { underEach(t, testMoment) }

func testMoment(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for i, k := range []int{1, 2, 7, 8, 15, 16, 17, 33, 47, 48, 49, 64, 70, 1, 5, 97} {
		n := []int{1, 2, 3, 100, MomentChunk, MomentChunk + 1, 2*MomentChunk + 37}[i%7]
		x := numbers[float32](r, n*k, i >= 13)
		for j := range x {
			if i >= 13 && r.IntN(3) == 0 { // about the bounds of what is kept, and sums that overflow
				x[j] *= float32(math.Exp2(float64(r.IntN(150) - 75)))
			}
			x[j] = half.RoundBF16(x[j])
		}
		var w []float32
		if i%2 == 1 {
			for range n {
				w = append(w, float32(r.ExpFloat64()))
			}
		}
		threads := []int{1, 2, 5}[i%3]
		for _, bf16 := range []bool{false, true} {
			want := naiveMoment(x, k, n, w, bf16)
			m, raw := NewMoment32(k), bytesOfBF16(x)
			if bf16 {
				m = NewMoment(k)
			}
			for t := 0; t < n; {
				rows, weights := min(n-t, 1+r.IntN(700)), w
				if w != nil {
					weights = w[t:]
				}
				if bf16 {
					m.AddBF16(raw[2*t*k:], 2*k, rows, weights, threads)
				} else {
					m.Add32(x[t*k:], k, rows, weights, threads)
				}
				t += rows
			}
			for j, v := range m.Sum(threads) {
				if !same(v, want[j]) {
					t.Fatalf("bfloat16 %v, k %d, n %d: element %d is %v, want %v", bf16, k, n, j, v, want[j])
				}
			}
		}
	}
}

// Sum ends a chunk and more may follow; weights that have no root spoil the sum, and rows apart are not read between.
func TestMomentSum(t *testing.T) { underEach(t, testMomentSum) }

func testMomentSum(t *testing.T) {
	m := NewMoment(2)
	x := bytesOfBF16([]float32{1, 2, 99, 3, 4, 99, 5, 6})
	m.AddBF16(x, 6, 1, nil, 1)
	if got, want := m.Sum(1), []float64{1, 0, 2, 4}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	m.AddBF16(x[6:], 6, 2, []float32{4, 1}, 1)
	if got, want := m.Sum(1), []float64{1 + 4*9 + 25, 0, 2 + 4*12 + 30, 4 + 4*16 + 36}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, w := range []float32{-1, math.Float32frombits(0x7fffffff)} {
		m.AddBF16(x, 6, 1, []float32{w}, 1)
		if got := m.Sum(1); got[0] == got[0] || got[1] != 0 || got[3] == got[3] {
			t.Errorf("weight %v: %v", w, got)
		}
	}
}

// A cross moment is the sum of products, exact for small integers; of rows with themselves it is all of their moment.
func TestCross(t *testing.T) { underEach(t, testCross) }

func testCross(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for i, k := range []int{1, 7, 16, 33, 48, 97} {
		n := []int{1, 3, 100, MomentChunk + 1, 2*MomentChunk + 37, 333}[i]
		x, y := make([]float32, n*k), make([]float32, n*k)
		for j := range x {
			x[j], y[j] = float32(r.IntN(33)-16), float32(r.IntN(33)-16)
		}
		var w []float32
		if i%2 == 1 {
			for range n {
				w = append(w, float32(int(1)<<(2*r.IntN(3)))) // roots are integers
			}
		}
		want := make([]float64, k*k)
		for t := range n {
			weight := 1.0
			if w != nil {
				weight = float64(w[t])
			}
			for i := range k {
				for j := range k {
					want[i*k+j] += weight * float64(y[t*k+i]) * float64(x[t*k+j])
				}
			}
		}
		cross, self, moment := NewCross(k), NewCross(k), NewMoment(k)
		rawX, rawY := bytesOfBF16(x), bytesOfBF16(y)
		for t := 0; t < n; {
			rows, weights := min(n-t, 1+r.IntN(300)), w
			if w != nil {
				weights = w[t:]
			}
			cross.AddCross(rawY[2*t*k:], rawX[2*t*k:], 2*k, rows, weights, 1+i%3)
			self.AddCross(rawX[2*t*k:], rawX[2*t*k:], 2*k, rows, weights, 1)
			moment.AddBF16(rawX[2*t*k:], 2*k, rows, weights, 2)
			t += rows
		}
		if got := cross.Sum(2); !slices.Equal(got, want) {
			t.Fatalf("k %d, n %d: %v, want %v", k, n, got, want)
		}
		half, whole := moment.Sum(1), self.Sum(2)
		for i := range k {
			for j := range k {
				if got, want := whole[i*k+j], half[max(i, j)*k+min(i, j)]; got != want {
					t.Fatalf("k %d, n %d: element %d, %d of itself is %v, of the moment %v", k, n, i, j, got, want)
				}
			}
		}
	}
}
