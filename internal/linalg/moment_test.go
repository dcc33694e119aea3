package linalg

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
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
				scaled[i] = float32(math.Inf(1))
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

// A moment has the bits of its definition, however its rows are cut.
func TestMoment(t *testing.T) { underEach(t, testMoment) }

func testMoment(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for i, k := range []int{1, 2, 7, 8, 15, 16, 17, 33, 47, 48, 49, 64, 100, 1, 5, 97} {
		n := []int{1, 2, 3, 100, MomentChunk, MomentChunk + 1, 2*MomentChunk + 37}[i%7]
		x := numbers[float32](r, n*k, i >= 13)
		for j := range x {
			x[j] = half.RoundBF16(x[j])
		}
		var w []float32
		if i%2 == 1 {
			for range n {
				w = append(w, float32(r.ExpFloat64()))
			}
		}
		for _, bf16 := range []bool{false, true} {
			want := naiveMoment(x, k, n, w, bf16)
			m, raw := NewMoment32(k), bytesOfBF16(x)
			if bf16 {
				m = NewMoment(k)
			}
			for t := 0; t < n; {
				rows := min(n-t, 1+r.IntN(700))
				var weights []float32
				if w != nil {
					weights = w[t:]
				}
				if bf16 {
					m.AddBF16(raw[2*t*k:], 2*k, rows, weights, 1+i%3)
				} else {
					m.Add32(x[t*k:], k, rows, weights, 1+i%3)
				}
				t += rows
			}
			for j, v := range m.Sum(1 + i%3) {
				if !same(v, want[j]) {
					t.Fatalf("bfloat16 %v, k %d, n %d: element %d is %v, want %v", bf16, k, n, j, v, want[j])
				}
			}
		}
	}
}

func BenchmarkMoment(b *testing.B) {
	const n = 8192
	for _, k := range []int{576, 1536} {
		r := rand.New(rand.NewPCG(2, 2))
		x := numbers[float32](r, n*k, false)
		raw := bytesOfBF16(x)
		for _, bf16 := range []bool{true, false} {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("bf16=%v/k=%d/threads=%d", bf16, k, threads), func(b *testing.B) {
					m := NewMoment32(k)
					if bf16 {
						m = NewMoment(k)
					}
					for b.Loop() {
						if bf16 {
							m.AddBF16(raw, 2*k, n, nil, threads)
						} else {
							m.Add32(x, k, n, nil, threads)
						}
					}
					b.ReportMetric(float64(n)*float64(k*(k+1)/2)*float64(b.N)/1e9/b.Elapsed().Seconds(), "GMAC/s")
				})
			}
		}
	}
}
