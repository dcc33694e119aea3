package awq_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"nibble/awq"
	"nibble/gptq"
	"nibble/internal/half"
	"nibble/quant"
	"nibble/safetensors"
)

// The candidates of four columns with m = 4, 1, 1/4 and 0: α = 0 is no scaling, α = 1/2 gives roots of m between their inverse
// extremes. A silent column counts as a thousandth of the most active one.
func TestCandidate(t *testing.T) {
	variance := []float64{16, 1, 1. / 16, 0}
	if s := awq.Candidate(variance, 0); !slices.Equal(s, []float32{1, 1, 1, 1}) {
		t.Errorf("α = 0: %v", s)
	}
	s := awq.Candidate(variance, 10)
	for i, m := range []float64{4, 1, 0.25, 0.004} {
		want := math.Sqrt(m) / math.Sqrt(math.Sqrt(4*0.004))
		if math.Abs(float64(s[i])/want-1) > 1./256 {
			t.Errorf("column %d: %v, want %v", i, s[i], want)
		}
		if s[i] != half.RoundBF16(s[i]) {
			t.Errorf("column %d: %v is not of bfloat16", i, s[i])
		}
	}
	if s := awq.Candidate([]float64{0, 0}, 5); !slices.Equal(s, []float32{1, 1}) {
		t.Errorf("silent inputs: %v", s)
	}
}

// A folded norm times its scale is the norm it was, for norms of either kind in every type, to a rounding of float32; the
// scale is near the one asked for where the type is fine enough. What cannot be divided stays.
func TestFold(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, d := range []safetensors.DType{safetensors.BF16, safetensors.F16, safetensors.F32} {
		for _, plusOne := range []bool{false, true} {
			w, s := make([]float32, 500), make([]float32, 500)
			var one float32
			if plusOne {
				one = 1
			}
			for i := range w {
				w[i], s[i] = quant.Round(float32(r.NormFloat64()), d), half.RoundBF16(float32(math.Exp(r.NormFloat64())))
			}
			w[0], w[1], w[2] = -one, float32(math.Inf(1)), float32(math.NaN()) // zero, infinite, no number
			w[3], s[3] = quant.Round(6e-8-one, d), 32                          // rounds to zero in F16
			folded, exact := awq.Fold(w, s, plusOne, d)
			for i := range w {
				if quant.Round(folded[i], d) != folded[i] && i > 2 {
					t.Fatalf("%s, 1+w %t: %v is not of the type", d, plusOne, folded[i])
				}
				if i < 3 || i == 3 && d == safetensors.F16 {
					if exact[i] != 1 || math.Float32bits(folded[i]) != math.Float32bits(w[i]) {
						t.Errorf("%s, 1+w %t: weight %v became %v with scale %v", d, plusOne, w[i], folded[i], exact[i])
					}
					continue
				}
				was, is := float64(one+w[i]), float64(exact[i])*float64(one+folded[i])
				if math.Abs(is-was) > math.Abs(was)*0x1p-23 {
					t.Errorf("%s, 1+w %t: %v stands for %v", d, plusOne, is, was)
				}
				if q := exact[i] / s[i]; !plusOne && i > 3 && (q < 0.996 || q > 1.004) {
					t.Errorf("%s: scale %v instead of %v", d, exact[i], s[i])
				}
			}
		}
	}
}

// Query heads 0, 1 and 2, 3 share a head of two channels each.
func TestShare(t *testing.T) {
	shared := awq.Share([]float64{1, 10, 3, 30, 5, 50, 7, 70}, 2, 2)
	if !slices.Equal(shared, []float64{2, 20, 6, 60}) {
		t.Errorf("shared %v", shared)
	}
	if s := awq.Spread([]float32{1, 2, 3, 4}, 4, 2, 2); !slices.Equal(s, []float32{1, 2, 1, 2, 3, 4, 3, 4}) {
		t.Errorf("spread %v", s)
	}
}

const rows, columns, group = 24, 64, 32

// problem is random rows, and the moment of random inputs of which some channels are large by the factor.
func problem(large float64) (w []float32, moment []float64) {
	r := rand.New(rand.NewPCG(7, 7))
	w = make([]float32, rows*columns)
	for i := range w {
		w[i] = float32(r.NormFloat64())
	}
	moment = make([]float64, columns*columns)
	x := make([]float64, columns)
	for range 400 {
		for i := range x {
			x[i] = r.NormFloat64()
			if i%21 == 0 {
				x[i] *= large
			}
		}
		for i := range x {
			for j := range i + 1 {
				moment[i*columns+j] += x[i] * x[j] / 400
			}
		}
	}
	return w, moment
}

func loss(t *testing.T, w []float32, moment []float64, s []float32) float64 {
	t.Helper()
	solve, err := gptq.NewSolver(quant.Spec{Bits: 4, Group: group, Method: quant.Search, Scale: safetensors.F32})
	if err != nil {
		t.Fatal(err)
	}
	return awq.NewProblem(moment, columns, 1).Loss(quant.NewMatrix(rows, columns, 4, group, quant.Symmetric), w, s, solve)
}

func candidate(moment []float64, i int) []float32 {
	variance := make([]float64, columns)
	for k := range variance {
		variance[k] = moment[k*columns+k]
	}
	return awq.Candidate(variance, i)
}

// The loss without scales is Σ e H eᵀ of a plain search, summed here in another order.
func TestLossWithoutScales(t *testing.T) {
	w, moment := problem(3)
	solve, err := gptq.NewSolver(quant.Spec{Bits: 4, Group: group, Method: quant.Search, Scale: safetensors.F32})
	if err != nil {
		t.Fatal(err)
	}
	d, e := make([]float32, columns), make([]float32, columns)
	for k := range d {
		d[k] = float32(moment[k*columns+k])
	}
	m := quant.NewMatrix(rows, columns, 4, group, quant.Symmetric)
	solve(m, w, d)
	var want float64
	for r := range rows {
		m.DequantizeRow(e, r)
		for i := range e {
			for j := range e {
				want += float64(w[r*columns+i]-e[i]) * float64(w[r*columns+j]-e[j]) * moment[max(i, j)*columns+min(i, j)]
			}
		}
	}
	if got := loss(t, w, moment, candidate(moment, 0)); math.Abs(got/want-1) > 1e-5 {
		t.Errorf("loss %v, want %v", got, want)
	}
}

// Without correlations the variances are the prices.
func TestPriced(t *testing.T) {
	w, moment := problem(3)
	prices := make([]float64, columns)
	for k := range prices {
		prices[k] = moment[k*columns+k]
	}
	clear(moment)
	for k, v := range prices {
		moment[k*columns+k] = v
	}
	s := awq.Candidate(prices, 7)
	solve, err := gptq.NewSolver(quant.Spec{Bits: 4, Group: group, Method: quant.Search, Scale: safetensors.F32})
	if err != nil {
		t.Fatal(err)
	}
	got := awq.NewPriced(prices).Loss(quant.NewMatrix(rows, columns, 4, group, quant.Symmetric), w, s, solve)
	if want := loss(t, w, moment, s); math.Abs(got/want-1) > 1e-6 {
		t.Errorf("loss %v, want %v", got, want)
	}
}

// Inputs divided by powers of two, weights multiplied by them and scales divided by them are the same problem, bit for bit.
func TestLossIsInvariant(t *testing.T) {
	w, moment := problem(3)
	s := candidate(moment, 9)
	c := make([]float32, columns)
	for k := range c {
		c[k] = float32(math.Ldexp(1, k%7-3))
	}
	w2, s2, moment2 := slices.Clone(w), slices.Clone(s), slices.Clone(moment)
	for i := range w2 {
		w2[i] *= c[i%columns]
	}
	for i := range columns {
		s2[i] /= c[i]
		for j := range i + 1 {
			moment2[i*columns+j] /= float64(c[i]) * float64(c[j])
		}
	}
	if a, b := loss(t, w, moment, s), loss(t, w2, moment2, s2); a != b {
		t.Errorf("loss %v became %v", a, b)
	}
}

// With a few channels that are 30 times as large as the others, scales win against a search that only knows what errors
// weigh, by more than a fifth; with equal channels the best ones are small.
func TestScalesWin(t *testing.T) {
	w, moment := problem(30)
	losses := make([]float64, awq.Steps)
	for i := range losses {
		losses[i] = loss(t, w, moment, candidate(moment, i))
	}
	best := awq.Least(losses)
	if gain := losses[best] / losses[0]; best == 0 || gain > 0.8 {
		t.Errorf("candidate %d has %.3f of the loss without scales", best, gain)
	}
	if i := awq.Least([]float64{3, 2, 2, math.NaN()}); i != 1 {
		t.Errorf("the least of 3, 2, 2, NaN is number %d", i)
	}
	w, moment = problem(1)
	for i := range losses {
		losses[i] = loss(t, w, moment, candidate(moment, i))
	}
	if best := awq.Least(losses); losses[best] < losses[0]*0.95 {
		t.Errorf("equal channels: candidate %d has %.3f of the loss without scales", best, losses[best]/losses[0])
	}
}
