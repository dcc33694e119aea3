package kernel

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"
)

// hex is a float32 by its bits, or a bfloat16 by its four digits.
type hex float32

func (h *hex) UnmarshalJSON(raw []byte) error {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	bits, err := strconv.ParseUint(s, 16, 32)
	if len(s) == 4 {
		bits <<= 16
	} else if len(s) != 8 {
		err = fmt.Errorf("%q is neither float32 nor bfloat16", s)
	}
	*h = hex(math.Float32frombits(uint32(bits)))
	return err
}

func floats(h []hex) []float32 {
	x := make([]float32, len(h))
	for i, v := range h {
		x[i] = float32(v)
	}
	return x
}

func read(t *testing.T, name string, v any) {
	t.Helper()
	raw, err := os.ReadFile("testdata/numerics/" + name + ".json")
	if err == nil {
		err = json.Unmarshal(raw, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ulp is the relative distance of float32 values.
const ulp = 1.0 / (1 << 23)

// near compares within tol·max(1, |want|), NaN with NaN.
func near(t *testing.T, name string, x any, got float32, want hex, tol float64) {
	t.Helper()
	g, w := float64(got), float64(want)
	if g == w || math.IsNaN(g) && math.IsNaN(w) {
		return
	}
	if !(math.Abs(g-w) <= tol*max(1, math.Abs(w))) {
		t.Errorf("%s of %v is %v, want %v", name, x, got, float32(want))
	}
}

// The scalar functions are a few roundings from the exact values; TestCurveErrors has the bounds.
func TestScalars(t *testing.T) {
	for name, f := range map[string]func(float32) float32{"gelu_erf": GELU, "gelu_tanh": GELUTanh, "silu": SiLU, "sigmoid": Sigmoid} {
		var file struct{ F32, BF16 []struct{ X, Exact hex } }
		read(t, name, &file)
		if len(file.F32) < 100 || len(file.BF16) < 100 {
			t.Fatalf("%s: %d and %d cases", name, len(file.F32), len(file.BF16))
		}
		for _, c := range file.F32 {
			near(t, name, float32(c.X), f(float32(c.X)), c.Exact, 1.5*ulp)
		}
		for _, c := range file.BF16 { // the results are rounded to 8 bits
			near(t, name, float32(c.X), f(float32(c.X)), c.Exact, 1.0/256)
		}
	}
}

// Probabilities are a few roundings from the exact ones, of which that of the difference from the largest score, up to half
// an ulp of it, counts as much in the result; masked scores are exact zeros.
func TestSoftmax(t *testing.T) { underEach(t, testSoftmax) }

func testSoftmax(t *testing.T) {
	var file struct{ Cases []struct{ X, Exact []hex } }
	read(t, "softmax", &file)
	for n, c := range file.Cases {
		x := floats(c.X)
		Softmax(x)
		var sum float64
		most := slices.Max(c.X)
		for i, v := range x {
			sum += float64(v)
			tol := ulp * (2.5 + float64(most-c.X[i])/2)
			if want := float64(c.Exact[i]); math.Abs(float64(v)-want) > tol*want+math.SmallestNonzeroFloat32 {
				t.Errorf("case %d: softmax of %v is %v, want %v", n, float32(c.X[i]), v, want)
			}
		}
		if math.Abs(sum-1) > 2*ulp {
			t.Errorf("case %d: the sum is %v", n, sum)
		}
	}
	if len(file.Cases) < 10 {
		t.Fatal("too few cases")
	}
	bad := []float32{1, nan}
	Softmax(bad)
	if bad[0] == bad[0] || bad[1] == bad[1] {
		t.Errorf("softmax with a NaN is %v", bad)
	}
	Softmax(nil)
}

func TestLayerNorm(t *testing.T) {
	var file struct {
		Cases []struct {
			Eps            float64
			X, W, B, Exact []hex
		}
	}
	read(t, "layernorm_f32", &file)
	for _, c := range file.Cases {
		x := floats(c.X)
		LayerNorm(x, x, floats(c.W), floats(c.B), float32(c.Eps))
		for i, v := range x { // three roundings, of numbers up to the largest involved
			near(t, "layernorm", c.X, v, c.Exact[i], 3*ulp)
		}
	}
	if len(file.Cases) < 3 {
		t.Fatal("too few cases")
	}
}

// The norm in float32 is a few roundings from torch's in float32, and rounds to its bfloat16 where the product with the
// weight comes before the only rounding.
func TestRMSNorm(t *testing.T) {
	var file struct {
		Cases []struct {
			Eps           float64
			X, W          []hex
			F32           []hex `json:"f32_of_same"`
			MultiplyFirst []hex `json:"multiply_first"`
			GemmaW        []hex `json:"gemma_w"`
			Gemma         []hex `json:"gemma_one_plus_w"`
		}
	}
	read(t, "rmsnorm_bf16", &file)
	for _, c := range file.Cases {
		x, dst := floats(c.X), make([]float32, len(c.X))
		RMSNorm(dst, x, floats(c.W), float32(c.Eps), false)
		for i, v := range dst {
			near(t, "rmsnorm", i, v, c.F32[i], 4*ulp)
			near(t, "rmsnorm, bfloat16", i, v, c.MultiplyFirst[i], 1.0/256)
		}
		RMSNorm(x, x, floats(c.GemmaW), float32(c.Eps), true)
		for i, v := range x {
			near(t, "gemma's rmsnorm, bfloat16", i, v, c.Gemma[i], 1.0/256)
		}
	}
	if len(file.Cases) < 6 {
		t.Fatal("too few cases")
	}
}
