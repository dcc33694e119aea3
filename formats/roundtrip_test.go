package formats

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"nibble/formats/formattest"
	"nibble/internal/half"
	"nibble/quant"
	"nibble/safetensors"
)

// specs are all that can be written, with the group size and the method left open.
var specs = []struct {
	format string
	spec   quant.Spec
}{
	{"gptq", quant.Spec{Bits: 4}},
	{"gptq", quant.Spec{Bits: 8}},
	{"awq", quant.Spec{Bits: 4, Zero: quant.Integer}},
	{"awq", quant.Spec{Bits: 4}},
	{"compressed-tensors", quant.Spec{Bits: 4}},
	{"compressed-tensors", quant.Spec{Bits: 4, Zero: quant.Integer}},
	{"compressed-tensors", quant.Spec{Bits: 8}},
	{"compressed-tensors", quant.Spec{Bits: 8, Int8: true}},
	{"cpu_int4", quant.Spec{Bits: 4, Zero: quant.Float}},
}

func TestRoundTrip(t *testing.T) {
	for _, c := range specs {
		t.Run(fmt.Sprintf("%s/%s/%t", c.format, c.spec, c.spec.Int8), func(t *testing.T) {
			f, err := ByName(c.format)
			if err != nil {
				t.Fatal(err)
			}
			rapid.Check(t, func(t *rapid.T) { roundTrip(t, f, c.spec) })
		})
	}
}

func roundTrip(t *rapid.T, f quant.Format, s quant.Spec) {
	s.Group = rapid.SampledFrom([]int{8, 16, 24, 32}).Draw(t, "group")
	k := s.Group * rapid.IntRange(1, 5).Draw(t, "groups")
	if s.Int8 || s.Zero != quant.Float && rapid.Bool().Draw(t, "per row") {
		s.Group = -1
	}
	n := 16 * rapid.IntRange(1, 7).Draw(t, "rows/16")
	s.Scale = safetensors.BF16
	if s.Zero != quant.Float {
		s.Scale = rapid.SampledFrom([]safetensors.DType{safetensors.BF16, safetensors.F16, safetensors.F32}).Draw(t, "type")
	}
	o := quant.Options{Version: "test"}
	if f.Name() == "gptq" {
		o.CheckpointFormat = rapid.SampledFrom([]string{"gptq", "gptq_v2"}).Draw(t, "format")
	}
	if err := f.CheckShape(s, n, k); err != nil {
		t.Fatal(err)
	}
	m := randomMatrix(t, s, n, k)
	src := formattest.Write(t, f, s, o, m, n)
	strips := formattest.Write(t, f, s, o, m, 32)
	for name := range src {
		if !slices.Equal(src[name].Data, strips[name].Data) {
			t.Fatalf("%s differs when it is written in strips", name)
		}
	}

	config, err := f.Config([]quant.Module{{Name: formattest.Module, N: n, K: k, Class: "Linear", Spec: &s}}, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	for name := range src {
		if got := r.Module(name, src); got != formattest.Module {
			t.Fatalf("%s belongs to module %q", name, got)
		}
	}
	l, err := r.Open(formattest.Module, src)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Tensors()) != len(src) {
		t.Fatalf("tensors %v of %d", l.Tensors(), len(src))
	}
	e, got := r.Expect(formattest.Module), l.Spec()
	if e == nil || e.Bits != s.Bits || e.Group != s.Group || e.Zero != s.Zero || e.Int8 != s.Int8 {
		t.Fatalf("config says %v, want %v", e, s)
	}
	if got != (quant.Spec{Bits: s.Bits, Group: s.Group, Zero: s.Zero, Scale: s.Scale, Int8: s.Int8}) {
		t.Fatalf("tensors say %+v, want %+v", got, s)
	}
	equal(t, formattest.Read(t, l, n), m)
	equal(t, formattest.Read(t, l, 32), m)
}

// Widths that are read but not written: the layouts are the same, so the writers are asked for them all the same.
func TestOtherWidths(t *testing.T) {
	for format, config := range map[string]string{
		"gptq": `{"quant_method":"gptq","checkpoint_format":"gptq_v2","bits":%d,"group_size":16,"sym":false}`,
		"compressed-tensors": `{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{"targets":["Linear"],
			"weights":{"num_bits":%d,"strategy":"group","group_size":16,"symmetric":false}}}}`,
	} {
		f, err := ByName(format)
		if err != nil {
			t.Fatal(err)
		}
		for bits := 2; bits <= 8; bits++ {
			t.Run(fmt.Sprintf("%s/%d", format, bits), func(t *testing.T) {
				r, err := Open(fmt.Appendf(nil, config, bits))
				if err != nil {
					t.Fatal(err)
				}
				rapid.Check(t, func(t *rapid.T) {
					n, k := 32*rapid.IntRange(1, 4).Draw(t, "rows/32"), 32*rapid.IntRange(1, 4).Draw(t, "columns/32")
					s := quant.Spec{Bits: bits, Group: 16, Zero: quant.Integer, Scale: safetensors.F16}
					m := randomMatrix(t, s, n, k)
					src := formattest.Write(t, f, s, quant.Options{CheckpointFormat: "gptq_v2"}, m, 32)
					l, err := r.Open(formattest.Module, src)
					if err != nil {
						t.Fatal(err)
					}
					if l.Spec() != s {
						t.Fatalf("tensors say %+v, want %+v", l.Spec(), s)
					}
					equal(t, formattest.Read(t, l, 64), m)
				})
			})
		}
	}
}

func randomMatrix(t *rapid.T, s quant.Spec, n, k int) *quant.Matrix {
	m := quant.NewMatrix(n, k, s.Bits, s.GroupSize(k), s.Zero)
	seed := rapid.Uint32().Draw(t, "seed")
	next := func() uint32 {
		seed = seed*1664525 + 1013904223
		return seed >> 16
	}
	for i := range m.Codes {
		m.Codes[i] = uint8(next()) & uint8(1<<s.Bits-1)
	}
	for i := range m.Scales {
		m.Scales[i] = quant.RoundScale((float32(next())-32768)/8192, s.Scale)
	}
	for i := range m.Zeros {
		m.Zeros[i] = uint8(next()) & uint8(1<<s.Bits-1)
	}
	for i := range m.Bias {
		m.Bias[i] = half.RoundBF16((float32(next()) - 32768) / 4096)
	}
	if m.Zeros != nil {
		m.Zeros[0] = 3 // so that not all of them are 8 by chance, which reads as symmetric
	}
	return m
}

// methods of a kind of zero.
func methods(z quant.Zero) []string {
	if z == quant.Float {
		return []string{quant.RTN, quant.Shrink, quant.Search}
	}
	return []string{quant.RTN, quant.Search}
}

// groups that have made quantizers fail. A bound is on |ŵ − w| over the group's range.
var groupsToFear = []struct {
	name string
	w    func(i int) float32
	huge bool // near the limits of a stored type: only finiteness is asked
}{
	{"zero", func(int) float32 { return 0 }, false},
	{"constant", func(int) float32 { return 0.375 }, false},
	{"negative constant", func(int) float32 { return -0.375 }, false},
	{"positive", func(i int) float32 { return 0.25 + float32(i)/64 }, false},
	{"negative", func(i int) float32 { return -0.25 - float32(i)/64 }, false},
	{"one outlier", func(i int) float32 { return float32(i&^7) / 7 * float32(1-i&^7) }, false},
	{"denormal", func(i int) float32 { return math.Float32frombits(uint32(i) | uint32(i&1)<<31) }, true},
	{"tiny", func(i int) float32 { return float32(i-8) * 1e-9 }, true},
	{"beyond f16", func(i int) float32 { return float32(i-8) * 1e5 }, true},
	{"far beyond f16", func(i int) float32 { return float32(i-8) * 1e9 }, true},
	{"near the end of bf16", func(i int) float32 { return float32(i-8) / 8 * 0x1.fep127 }, true},
	{"largest", func(i int) float32 { return float32(2*(i&1)-1) * math.MaxFloat32 }, true},
}

func TestDegenerateGroups(t *testing.T) {
	const k = 16
	for _, c := range specs {
		for _, method := range methods(c.spec.Zero) {
			for _, scale := range []safetensors.DType{safetensors.BF16, safetensors.F16, safetensors.F32} {
				s := c.spec
				s.Method, s.Scale, s.Signed, s.Group = method, scale, s.Zero == quant.Symmetric, k
				if s.Int8 {
					s.Group = -1
				}
				f, _ := ByName(c.format)
				solve, err := f.Solver(s)
				if err != nil {
					continue // cpu_int4 has BF16 scales only
				}
				for _, group := range groupsToFear {
					w := make([]float32, k)
					for i := range w {
						w[i] = group.w(i)
					}
					m := quant.NewMatrix(1, k, s.Bits, k, s.Zero)
					solve(m, w, nil)
					checkGroup(t, fmt.Sprintf("%s/%s/%s/%s/%s", c.format, s, method, scale, group.name), m, w, s, group.huge)
				}
			}
		}
	}
}

func checkGroup(t *testing.T, name string, m *quant.Matrix, w []float32, s quant.Spec, huge bool) {
	t.Helper()
	if err := m.Check(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if sc := m.Scales[0]; sc == 0 || quant.Round(sc, s.Scale) != sc || quant.NonFinite(m.Scales) >= 0 {
		t.Errorf("%s: scale %v", name, sc)
	}
	if m.Bias != nil && (quant.Round(m.Bias[0], s.Scale) != m.Bias[0] || quant.NonFinite(m.Bias) >= 0) {
		t.Errorf("%s: zero %v", name, m.Bias[0])
	}
	if huge {
		return
	}
	// Half a step of the range, and as much again for the rounding of scale and zero: BF16 keeps eight bits, and the
	// far end of the grid is fifteen steps from its zero.
	lo, hi := min(slices.Min(w), 0), max(slices.Max(w), 0)
	bound := float64(max(-lo, hi)) / 8
	for i, x := range m.Dequantize() {
		if e := math.Abs(float64(x - w[i])); e > bound {
			t.Errorf("%s: weight %v became %v", name, w[i], x)
			return
		}
	}
}

// Search never loses to rounding: its candidates contain (nearly) the same grid.
func TestSearchBeatsRounding(t *testing.T) {
	p := newProblem()
	for _, c := range specs {
		errors := map[string]float64{}
		for _, method := range methods(c.spec.Zero) {
			s := c.spec
			s.Group, s.Scale, s.Method, s.Signed = group, safetensors.BF16, method, true
			if s.Int8 {
				s.Group = -1
			}
			f, _ := ByName(c.format)
			solve, err := f.Solver(s)
			if err != nil {
				t.Fatal(err)
			}
			m := quant.NewMatrix(rows, cols, s.Bits, s.GroupSize(cols), s.Zero)
			solve(m, p.w, nil)
			var noise quant.Noise
			noise.Add(p.w, m.Dequantize())
			errors[method] = noise.Error
		}
		if errors[quant.Search] >= errors[quant.RTN] || errors[quant.Shrink] > errors[quant.RTN] {
			t.Errorf("%s, %s: squared errors %v", c.format, c.spec, errors)
		}
	}
}
