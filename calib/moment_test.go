package calib

import (
	"math"
	"math/rand/v2"
	"testing"

	"nibble/internal/half"
)

// What a moment and its drift become for inputs divided by s is what the divided inputs give, computed anew: to the last bit where
// s are powers of two, since divisions by them are exact. Behind rows that were divided, x comes divided and y does not.
func TestScaled(t *testing.T) {
	const k, rows = 24, 2500
	r := rand.New(rand.NewPCG(1, 2))
	s := make([]float32, k)
	for i := range s {
		s[i] = float32(math.Ldexp(1, r.IntN(5)-2))
	}
	encode := func(x []float32, s []float32) []byte {
		v, raw := make([]float32, len(x)), make([]byte, 2*len(x))
		for i := range x {
			v[i] = x[i] / s[i%k]
		}
		half.EncodeBF16(raw, v)
		return raw
	}
	one := make([]float32, k)
	for i := range one {
		one[i] = 1
	}
	x, y := make([]float32, rows*k), make([]float32, rows*k)
	for i := range x {
		x[i] = half.RoundBF16(float32(r.NormFloat64()))
		y[i] = half.RoundBF16(x[i] + float32(r.NormFloat64())/8)
	}
	drifting := func(y, x []byte) *Moment {
		m := moment(x, k, nil, true, 2)
		m.drift(y, x, nil, 2)
		return m
	}
	want := drifting(encode(y, s), encode(x, s))
	for name, got := range map[string]*Moment{
		"Scaled":       drifting(encode(y, one), encode(x, one)).Scaled(s),
		"ScaledTarget": drifting(encode(y, one), encode(x, s)).ScaledTarget(s),
	} {
		for i := range k {
			for j := range k {
				tolerance := 0.0
				if name == "ScaledTarget" { // the drift is a difference of what was summed up in float32
					tolerance = 1e-5 * math.Sqrt(want.Diag[i]*want.Diag[j])
				}
				if d := got.Drift[i*k+j] - want.Drift[i*k+j]; !(math.Abs(d) <= tolerance) {
					t.Fatalf("%s: drift [%d,%d] is %g, want %g", name, i, j, got.Drift[i*k+j], want.Drift[i*k+j])
				}
				if j <= i && got.Second[i*k+j] != want.Second[i*k+j] {
					t.Fatalf("%s: second moment [%d,%d] is %g, want %g", name, i, j, got.Second[i*k+j], want.Second[i*k+j])
				}
			}
			if got.Diag[i] != want.Diag[i] {
				t.Fatalf("%s: variance %d is %g, want %g", name, i, got.Diag[i], want.Diag[i])
			}
		}
	}
}
