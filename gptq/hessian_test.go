package gptq_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"nibble/asym"
	"nibble/awq"
	"nibble/gptq"
	"nibble/quant"
	"nibble/safetensors"
)

// The vectors: 8 rows of 64 columns in groups of 16, made by a congruential stream, with the second moment of 128 inputs from
// the same stream. Two independent implementations, float32 by columns and float64 by loops, agree on every digit below; the
// seed was chosen so that no decision is near a tie.
const (
	vectorN, vectorK, vectorGroup = 8, 64, 16
	vectorLambda                  = 0.01
)

type stream uint32

func (s *stream) next(m uint32) float64 {
	*s = (1103515245**s + 12345) & (1<<31 - 1)
	return float64(uint32(*s>>16) % m)
}

func vectors() (w []float32, h []float64) {
	s := stream(9)
	w = make([]float32, vectorN*vectorK)
	for i := range w {
		a := s.next(999) + s.next(999) + s.next(999) - 1497
		w[i] = float32(a * float64(1+i%vectorK%3) / 8192)
	}
	h = make([]float64, vectorK*vectorK)
	for range 128 {
		f := s.next(17) - 8
		var x [vectorK]float64
		for k := range x {
			if x[k] = s.next(9) - 4; k%4 == 0 {
				x[k] += f
			}
			x[k] *= float64(1 + k%5)
		}
		for i := range x {
			for j := range i + 1 {
				h[i*vectorK+j] += x[i] * x[j] / 128
			}
		}
	}
	return w, h
}

// checksum weighs every code by its place.
func checksum(codes []uint8) int {
	sum := 0
	for i, q := range codes {
		sum += int(q) * (i%97 + 1)
	}
	return sum
}

// spec is that of a vector: 4 bits, scales in F16 of either sign, or in BF16 with a float zero.
func spec(zero quant.Zero) quant.Spec {
	s := quant.Spec{Bits: 4, Group: vectorGroup, Zero: zero, Method: quant.Search, Scale: safetensors.F16, Signed: zero == quant.Symmetric}
	if zero == quant.Float {
		s.Scale = safetensors.BF16
	}
	return s
}

func solver(t *testing.T, zero quant.Zero) quant.Solver {
	make := map[quant.Zero]func(quant.Spec) (quant.Solver, error){quant.Symmetric: gptq.NewSolver, quant.Integer: awq.NewSolver, quant.Float: asym.NewSolver}
	s, err := make[zero](spec(zero))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func prepare(t *testing.T, h []float64) *gptq.Hessian {
	x, err := gptq.NewHessian(h, vectorK, vectorGroup, vectorLambda, 2)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func newMatrix(zero quant.Zero) *quant.Matrix {
	return quant.NewMatrix(vectorN, vectorK, 4, vectorGroup, zero)
}

// expect compares an objective, to six decimals, and the checksum of the codes.
func expect(t *testing.T, stage string, s *gptq.Descent, m *quant.Matrix, damped, plain float64, sum int) {
	t.Helper()
	if got := s.Objective(); math.Abs(got-damped) > 2e-6 {
		t.Errorf("%s: e H' eᵀ is %.6f, want %.6f", stage, got, damped)
	}
	if got := s.Loss(); math.Abs(got-plain) > 2e-6 {
		t.Errorf("%s: e H eᵀ is %.6f, want %.6f", stage, got, plain)
	}
	if got := checksum(m.Codes); got != sum {
		t.Errorf("%s: codes sum up to %d, want %d", stage, got, sum)
	}
}

func TestVectors(t *testing.T) {
	w, h := vectors()
	x := prepare(t, h)
	search := solver(t, quant.Symmetric)

	m := newMatrix(quant.Symmetric)
	search(m, w, slices.Repeat([]float32{1}, vectorK))
	expect(t, "search, d = 1", x.Descend(m, w), m, 5.610756, 5.540351, 176737)
	d := make([]float32, vectorK)
	for i := range d {
		d[i] = float32(h[i*vectorK+i])
	}
	search(m, w, d)
	expect(t, "search, d = diag H", x.Descend(m, w), m, 5.186687, 5.093402, 177672)
}

// Feedback by groups of falling energy, then four sweeps, on the three grids.
func TestVectorsFeedback(t *testing.T) {
	for _, c := range []struct {
		zero          quant.Zero
		before, after float64
		sum, swept    int
	}{
		{quant.Symmetric, 2.861732, 2.645687, 177222, 177090},
		{quant.Integer, 2.123892, 1.991950, 191383, 191578},
		{quant.Float, 1.534497, 1.485095, 187795, 187435},
	} {
		t.Run(fmt.Sprint(c.zero), func(t *testing.T) {
			w, h := vectors()
			x := prepare(t, h)
			m := newMatrix(c.zero)
			x.Solve(m, w, solver(t, c.zero))
			s := x.Descend(m, w)
			if got := s.Objective(); math.Abs(got-c.before) > 2e-6 {
				t.Errorf("feedback: %.6f, want %.6f", got, c.before)
			}
			if got := checksum(m.Codes); got != c.sum {
				t.Errorf("feedback: codes sum up to %d, want %d", got, c.sum)
			}
			s.Sweep(4)
			if got := s.Objective(); math.Abs(got-c.after) > 2e-6 {
				t.Errorf("four sweeps: %.6f, want %.6f", got, c.after)
			}
			if got := checksum(m.Codes); got != c.swept {
				t.Errorf("four sweeps: codes sum up to %d, want %d", got, c.swept)
			}
		})
	}
}

// Columns in file order: feedback and sweeps.
func TestVectorsFileOrder(t *testing.T) {
	w, h := vectors()
	x, err := gptq.NewOrdered(h, vectorK, vectorGroup, vectorLambda)
	if err != nil {
		t.Fatal(err)
	}
	m := newMatrix(quant.Symmetric)
	x.Solve(m, w, solver(t, quant.Symmetric))
	s := x.Descend(m, w)
	expect(t, "feedback", s, m, 2.780414, 2.650390, 176918)
	scales := []float32{0.04568481, 0.02256775, 0.04187012, 0.04992676}
	for i, want := range scales {
		if got := m.Scales[i]; math.Abs(float64(got-want)) > 1e-8 {
			t.Errorf("scale %d of row 0 is %v, want %v", i, got, want)
		}
	}
	codes := []uint8{6, 6, 0, 9, 7, 8, 6, 6, 8, 10, 8, 8, 8, 2, 0, 9, 6, 13, 10, 12, 13, 10, 5, 12, 13, 13, 11, 7, 0, 5, 7, 4,
		2, 11, 4, 12, 7, 4, 10, 7, 8, 0, 7, 11, 8, 9, 9, 0, 9, 6, 3, 5, 8, 5, 7, 4, 0, 8, 7, 6, 6, 4, 5, 10}
	if !slices.Equal(m.Codes[:vectorK], codes) {
		t.Errorf("codes of row 0 are %v", m.Codes[:vectorK])
	}
	s.Sweep(1)
	expect(t, "one sweep", s, m, 2.537597, 2.378496, 176346)

	x.Solve(m, w, solver(t, quant.Symmetric))
	s = x.Descend(m, w)
	s.Sweep(4)
	expect(t, "four sweeps", s, m, 2.517272, 2.361096, 176503)
}

// Groups of falling energy, and falling energy inside them.
func TestOrder(t *testing.T) {
	_, h := vectors()
	want := []int{4, 8, 12, 9, 14, 13, 3, 7, 2, 0, 11, 6, 1, 10, 5, 15, 24, 28, 19, 29, 16, 23, 18, 22, 27, 17, 20, 26, 21, 31, 30, 25,
		44, 32, 34, 39, 36, 33, 38, 43, 42, 47, 37, 40, 46, 41, 45, 35, 48, 52, 54, 49, 59, 56, 58, 63, 53, 57, 62, 60, 61, 51, 55, 50}
	if got := prepare(t, h).Order(); !slices.Equal(got, want) {
		t.Errorf("order %v", got)
	}
}

// The target for drifted inputs: Δ from a stream of its own, α = 1.
func TestVectorsShift(t *testing.T) {
	w, h := vectors()
	s := stream(4242)
	delta := make([]float64, vectorK*vectorK)
	for i := range delta {
		delta[i] = (s.next(9) - 4) / 64
	}
	shift, err := gptq.NewShift(h, delta, vectorK, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	got := shift.Target(w, vectorN, vectorK)
	var moved float64
	for i, v := range got {
		d := float64(v - w[i])
		moved += d * d
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"W*[0][0]", float64(got[0]), -0.10347223},
		{"W*[7][63]", float64(got[len(got)-1]), -0.02378264},
		{"‖W* − W‖²", moved, 0.01143460},
	} {
		if math.Abs(c.got-c.want) > 2e-8 {
			t.Errorf("%s is %.8f, want %.8f", c.name, c.got, c.want)
		}
	}
}

// Of H = (4 1; 1 2) column 0 goes first: its error costs 4 − 1²/2 once column 1 has made up for it, that of column 1 costs 2.
func TestPrices(t *testing.T) {
	x, err := gptq.NewHessian([]float64{4, 0, 1, 2}, 2, 2, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if d := x.Prices(); d[0] != 3.5 || d[1] != 2 {
		t.Errorf("prices %v", d)
	}
}
