package block

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// encoders are the types that search, with weights or always.
var encoders = []Type{Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS}

// bell returns n weights of about a normal distribution, the same on every machine: sums of twelve integers.
func bell(seed uint64, n int, deviation float64) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	w := make([]float32, n)
	for i := range w {
		sum := -6 << 20
		for range 12 {
			sum += r.IntN(1 << 20)
		}
		w[i] = float32(float64(sum) * (deviation / (1 << 20)))
	}
	return w
}

func constant(n int, x float32) []float32 {
	w := make([]float32, n)
	for i := range w {
		w[i] = x
	}
	return w
}

// coded encodes and decodes w.
func coded(t testing.TB, typ Type, w, c []float32) []float32 {
	t.Helper()
	b := make([]byte, len(w)/typ.Size()*typ.Bytes())
	got := make([]float32, len(w))
	if err := errors.Join(typ.Encode(b, w, c), typ.Decode(got, b)); err != nil {
		t.Fatal(err)
	}
	return got
}

// loss returns Σc(ŵ − w)² and Σcw².
func loss(got, w, c []float32) (loss, all float64) {
	for i, x := range w {
		f := 1.0
		if c != nil {
			f = float64(c[i])
		}
		e := float64(got[i]) - float64(x)
		loss += f * e * e
		all += f * float64(x) * float64(x)
	}
	return loss, all
}

// TestLoss holds the relative loss on a bell curve to what was measured when the searches were written, and 1 % more.
func TestLoss(t *testing.T) {
	w := bell(1, 256*64, 0.02)
	c := make([]float32, len(w))
	for i := range c {
		c[i] = float32(1 + i%7*i%5)
	}
	for _, test := range []struct {
		typ                    Type
		plain, alike, weighted float64
	}{
		{Q8_0, 2.817e-05, 2.302e-05, 2.173e-05},
		{Q4_0, 0.007144, 0.006294, 0.006},
		{Q4_1, 0.005871, 0.004632, 0.004275},
		{Q5_0, 0.001763, 0.001555, 0.00148},
		{Q5_1, 0.001402, 0.001111, 0.001026},
		{IQ4_NL, 0.005249, 0.005249, 0.00493},
		{Q2_K, 0.06618, 0.06618, 0.05906},
		{Q3_K, 0.02013, 0.02013, 0.01887},
		{Q4_K, 0.004745, 0.004745, 0.004385},
		{Q5_K, 0.001173, 0.001173, 0.001098},
		{Q6_K, 0.0002732, 0.0002732, 0.0002585},
		{IQ4_XS, 0.005309, 0.005309, 0.005003},
	} {
		t.Run(test.typ.String(), func(t *testing.T) {
			for name, x := range map[string]struct {
				c    []float32
				want float64
			}{"nil": {nil, test.plain}, "ones": {constant(len(w), 1), test.alike}, "weighted": {c, test.weighted}} {
				loss, all := loss(coded(t, test.typ, w, x.c), w, x.c)
				if got := loss / all; !(got <= x.want*1.01) {
					t.Errorf("%s: %.4g, measured %.4g", name, got, x.want)
				}
			}
		})
	}
}

// TestWeightsMatter checks that weights lower what they measure, below the loss of an encoding without them.
func TestWeightsMatter(t *testing.T) {
	w := bell(2, 4096, 1)
	c := make([]float32, len(w))
	for i := range c {
		c[i] = 0.01
		if i%5 == 0 {
			c[i] = 1
		}
	}
	for _, typ := range encoders {
		with, _ := loss(coded(t, typ, w, c), w, c)
		without, _ := loss(coded(t, typ, w, constant(len(w), 1)), w, c)
		if with >= 0.97*without {
			t.Errorf("%s: %.4g with weights, %.4g without", typ, with, without)
		}
	}
}

// TestCorners encodes what searches could stumble over: every result is finite, and no worse than zeros.
func TestCorners(t *testing.T) {
	outlier := bell(3, 512, 1e-3)
	outlier[300] = 50
	positive := bell(4, 512, 1)
	for i, x := range positive {
		positive[i] = abs(x) + 3
	}
	oneSub := make([]float32, 512)
	copy(oneSub[64:], bell(5, 16, 1))
	for name, w := range map[string][]float32{
		"zeros": constant(512, 0), "negative zeros": constant(512, float32(math.Copysign(0, -1))), "alike": constant(512, 0.3),
		"alike and negative": constant(512, -0.3), "outlier": outlier, "positive": positive, "one sub-block": oneSub,
		"below float16": bell(6, 512, 1e-12), "subnormal": bell(7, 512, 1e-41), "least": constant(512, math.SmallestNonzeroFloat32),
		"at the edge of float16": bell(8, 512, 3e-8), "large": bell(9, 512, 1e9), "greatest": constant(512, math.MaxFloat32),
		"greatest and least": append(constant(256, math.MaxFloat32), constant(256, -math.MaxFloat32)...),
	} {
		for _, c := range [][]float32{constant(512, 1), constant(512, 0), constant(512, math.MaxFloat32),
			constant(512, math.SmallestNonzeroFloat32), append(constant(300, 0), constant(212, 2)...)} {
			for _, typ := range encoders {
				got := coded(t, typ, w, c)
				for i, x := range got {
					if x-x != 0 {
						t.Fatalf("%s, %s: weight %d is %v", typ, name, i, x)
					}
				}
				if l, all := loss(got, w, c); l > all*1.0001 {
					t.Errorf("%s, %s: loss %.4g of %.4g, importance %v", typ, name, l, all, c[0])
				}
			}
		}
	}
}

// TestPlainBound checks that plain rounding leaves every weight within a step, half a step where no end is in the way.
func TestPlainBound(t *testing.T) {
	w := bell(10, 4096, 0.1)
	for typ, steps := range map[Type]float32{Q8_0: 127, Q4_0: 8, Q4_1: 15, Q5_0: 16, Q5_1: 31, Q8_K: 127} {
		got := coded(t, typ, w, nil)
		size := typ.Size()
		for i := 0; i < len(w); i += size {
			lo, hi := w[i], w[i]
			for _, x := range w[i : i+size] {
				lo, hi = min(lo, x), max(hi, x)
			}
			bound := max(-lo, hi) / steps * 1.01
			if typ == Q4_1 || typ == Q5_1 {
				bound = (hi - lo) / steps * 0.51
			}
			for j := i; j < i+size; j++ {
				if abs(got[j]-w[j]) > bound+1e-4 { // m is a float16
					t.Fatalf("%s: %v became %v, more than %v away", typ, w[j], got[j], bound)
				}
			}
		}
	}
}

// TestSameBytes encodes a fixed input and compares with the bytes of another machine: amd64 and arm64 must agree.
func TestSameBytes(t *testing.T) {
	w, h := bell(11, 256*24, 0.05), sha256.New()
	c := bell(12, len(w), 1)
	for i, x := range c {
		c[i] = x * x
	}
	for _, typ := range append([]Type{Q8_K}, encoders...) {
		for _, c := range [][]float32{nil, c} {
			b := make([]byte, len(w)/typ.Size()*typ.Bytes())
			if err := typ.Encode(b, w, c); err != nil {
				t.Fatal(err)
			}
			h.Write(b)
		}
	}
	const want = "9e120008664cb3c2"
	if got := hex.EncodeToString(h.Sum(nil)[:8]); got != want {
		t.Errorf("the bytes changed: %s, were %s", got, want)
	}
}

func TestRefusals(t *testing.T) {
	w := constant(256, 1)
	nan, inf := constant(256, 1), constant(256, 1)
	nan[17], inf[255] = float32(math.NaN()), float32(math.Inf(-1))
	bytes := make([]byte, 1024)
	for _, test := range []struct {
		name string
		err  error
		want string
		is   error
	}{
		{"codebook", IQ2_XS.Decode(w, bytes[:74]), "IQ2_XS: codebook types are not supported", ErrUnsupported},
		{"encoding a codebook", IQ3_S.Encode(bytes[:110], w, nil), "IQ3_S: codebook types are not supported", ErrUnsupported},
		{"integers", I32.Decode(w, bytes), "I32: being decoded is not supported", ErrUnsupported},
		{"no encoder", MXFP4.Encode(bytes[:136], w, nil), "MXFP4: being encoded is not supported", ErrUnsupported},
		{"unknown", Type(99).Decode(w, bytes), "type 99: being decoded is not supported", ErrUnsupported},
		{"unknown to Swap", IQ1_S.Swap(bytes[:50]), "IQ1_S: codebook types are not supported", ErrUnsupported},
		{"half a block", Q4_K.Decode(w[:128], bytes[:72]), "128 weights are not a multiple of 256", nil},
		{"short source", Q4_K.Decode(w, bytes[:143]), "256 weights take 144 bytes, not 143", nil},
		{"long destination", Q4_K.Encode(bytes[:145], w, nil), "256 weights take 144 bytes, not 145", nil},
		{"importance of another length", Q4_K.Encode(bytes[:144], w, w[:255]), "255 importances for 256 weights", nil},
		{"negative importance", Q4_K.Encode(bytes[:144], w, constant(256, -1)), "importance 0 is -1", nil},
		{"infinite importance", Q4_K.Encode(bytes[:144], w, inf), "importance 255 is -Inf", nil},
		{"NaN", Q4_K.Encode(bytes[:144], nan, nil), "weight 17 is NaN", ErrNotFinite},
		{"infinity", Q8_0.Encode(bytes[:272], inf, nil), "weight 255 is -Inf", ErrNotFinite},
		{"swapping half a block", Q4_K.Swap(bytes[:143]), "143 bytes are not a multiple of 144", nil},
	} {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) || test.is != nil && !errors.Is(test.err, test.is) {
			t.Errorf("%s: error %v, want %q", test.name, test.err, test.want)
		}
	}
	if err := F16.Encode(bytes[:512], nan, nil); err != nil {
		t.Errorf("a float type refused a NaN: %v", err)
	}
}

// TestTable checks the sizes against the bits that a weight takes, as the formats' names and authors state them.
func TestTable(t *testing.T) {
	for typ, bits := range map[Type]float64{F32: 32, F16: 16, BF16: 16, Q8_0: 8.5, Q4_0: 4.5, Q4_1: 5, Q5_0: 5.5, Q5_1: 6, IQ4_NL: 4.5,
		MXFP4: 4.25, NVFP4: 4.5, Q2_K: 2.625, Q3_K: 3.4375, Q4_K: 4.5, Q5_K: 5.5, Q6_K: 6.5625, IQ4_XS: 4.25, Q8_K: 9.125, TQ1_0: 1.6875,
		TQ2_0: 2.0625, IQ2_XXS: 2.0625, IQ2_XS: 2.3125, IQ2_S: 2.5625, IQ3_XXS: 3.0625, IQ3_S: 3.4375, IQ1_S: 1.5625, IQ1_M: 1.75,
		Q1_0: 1.125, I8: 8, I16: 16, I32: 32, I64: 64, F64: 64} {
		if got := float64(8*typ.Bytes()) / float64(typ.Size()); got != bits {
			t.Errorf("%s: %v bits, want %v", typ, got, bits)
		}
		if back, ok := Parse(typ.String()); !ok || back != typ {
			t.Errorf("%s: Parse says %v, %v", typ, back, ok)
		}
		if end := typ.of().fields; len(end) > 0 {
			if f := end[len(end)-1]; f.at+f.width*f.count > typ.Bytes() {
				t.Errorf("%s: a number ends behind the block", typ)
			}
		}
	}
	if _, ok := Parse("type 4"); ok || Type(4).Known() || Type(1<<31).Known() {
		t.Error("a type that is not there is known")
	}
}

// TestImportance has the weights of 34 columns by hand: the first 32 are 3 and −4 in turns, with σ² = 12.5.
func TestImportance(t *testing.T) {
	w, c := make([]float32, 34), make([]float32, 34)
	for i := range 32 {
		w[i] = []float32{3, -4}[i%2]
	}
	w[33] = 2
	Importance(c, w)
	for i, want := range map[int]float64{0: 3 + math.Sqrt(12.5), 31: 4 + math.Sqrt(12.5), 32: math.Sqrt2, 33: 2 + math.Sqrt2} {
		if math.Abs(float64(c[i])-want) > 1e-6 {
			t.Errorf("column %d counts %v, want %v", i, c[i], want)
		}
	}
}

// TestRowsAlike encodes rows together, with the importances of one row for all, and one by one: rows of 1 to 11 blocks of 32 leave
// every number of runs over.
func TestRowsAlike(t *testing.T) {
	for _, typ := range encoders {
		for blocks := 1; blocks <= 11; blocks += 1 + 2*(typ.Size()/256) {
			k, rows := blocks*typ.Size(), 3
			w, c := bell(uint64(blocks), rows*k, 0.1), bell(20, k, 1)
			for i, x := range c {
				c[i] = abs(x)
			}
			size := blocks * typ.Bytes()
			got, want := make([]byte, rows*size), make([]byte, rows*size)
			err := typ.Encode(got, w, c)
			for i := range rows {
				err = errors.Join(err, typ.Encode(want[i*size:][:size], w[i*k:][:k], c))
			}
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s, rows of %d: together %x, one by one %x, %v", typ, k, got, want, err)
			}
		}
	}
}
