package convert_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nibble/build"
	"nibble/convert"
	"nibble/gguf/block"
	"nibble/gguf/mix"
	"nibble/gguf/view"
	"nibble/hf"
	"nibble/internal/kernel"
	"nibble/internal/stage"
	"nibble/internal/testmodel"
	"nibble/quant"
	"nibble/runtime"
	"nibble/safetensors"
)

// toGGUF writes a model as a GGUF file.
func toGGUF(t testing.TB, src *build.Build, s convert.GGUFSettings, out string) *convert.Report {
	t.Helper()
	if s.Threads == 0 {
		s.Threads = 2
	}
	p, err := convert.NewGGUF(src, s, out)
	if err != nil {
		t.Fatal(err)
	}
	r, err := (&convert.GGUFRun{GGUFPlan: p}).Quantize(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range p.Files {
		if info, err := os.Stat(filepath.Join(filepath.Dir(out), f.Name)); err != nil || info.Size() != f.Size {
			t.Fatalf("%s: %v, %v, planned %d bytes", f.Name, info, err, f.Size)
		}
	}
	return r
}

func mixture(t testing.TB, name string) *mix.Mix {
	t.Helper()
	m, err := mix.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// fromGGUF opens a GGUF file.
func fromGGUF(t testing.TB, path string, plain bool) *build.Build {
	t.Helper()
	f, err := view.Folder(path, plain)
	if err != nil {
		t.Fatal(err)
	}
	b, err := build.Open(f, hf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Set.Close() })
	return b
}

// TestGGUFRoundTrip sends every variant through a file of float32 and back: the same values under the same names, and the
// same forward pass.
func TestGGUFRoundTrip(t *testing.T) {
	done := 0
	for _, variant := range testmodel.Variants(t) {
		t.Run(variant, func(t *testing.T) {
			m := testmodel.Golden(t, variant)
			m.Config = strings.Replace(m.Config, `"query_pre_attn_scalar": 24`, `"query_pre_attn_scalar": 16`, 1) // as files take it for
			src := open(t, m.Write(t), hf.Options{})
			out := filepath.Join(t.TempDir(), "m.gguf")
			p, err := convert.NewGGUF(src, convert.GGUFSettings{Mix: mixture(t, "f32")}, out)
			if err != nil {
				t.Logf("not in GGUF: %v", err)
				return
			}
			done++
			for _, kind := range []string{"f32", "bf16"} {
				if kind == "bf16" && src.Config.DType() != "bfloat16" {
					continue
				}
				out := filepath.Join(t.TempDir(), "m.gguf")
				toGGUF(t, src, convert.GGUFSettings{Mix: mixture(t, kind)}, out)
				x, err := convert.NewExpansion(fromGGUF(t, out, true), dtypeOf(src), 0)
				if err != nil {
					t.Fatal(err)
				}
				dir := filepath.Join(t.TempDir(), "back")
				if _, err := x.Run(t.Context(), dir, stage.Fresh, nil); err != nil {
					t.Fatal(err)
				}
				back := open(t, dir, hf.Options{})
				sameTensors(t, back, src)
				tokens := []int32{3, 1, 4, 15, 92, 65, 35, 89, 79, 32}
				if d := apart(logits(t, back, tokens), logits(t, src, tokens)); len(p.Notes) == 0 && !(d < 1e-9) {
					t.Errorf("%s: the logits are %g from the source's", kind, d)
				}
			}
		})
	}
	if done < 22 {
		t.Errorf("%d variants went there and back", done)
	}
}

// dtypeOf is the type of a model's embedding.
func dtypeOf(b *build.Build) safetensors.DType {
	x, _ := b.Set.Lookup(b.Row(hf.Embedding).Source)
	return x.DType
}

// sameTensors holds the tensors of a model that went through a file against those of its source.
func sameTensors(t *testing.T, got, want *build.Build) {
	t.Helper()
	tail := func(x *hf.Tensor) string { // whatever the names' prefix
		parts := strings.Split(x.Name, ".")
		keep := 2
		if x.Layer >= 0 {
			keep = 3
		}
		return fmt.Sprint(x.Role, x.Layer, x.Expert, parts[len(parts)-keep:])
	}
	met := 0
	for i := range want.Tensors {
		w := &want.Tensors[i]
		if w.Role == hf.Buffer || w.Role == hf.Other {
			continue
		}
		j := slices.IndexFunc(got.Tensors, func(x hf.Tensor) bool { return tail(&x) == tail(w) })
		if j < 0 {
			t.Errorf("%s is missing", w.Name)
			continue
		}
		met++
		a, b := floatsOf(t, got, &got.Tensors[j]), floatsOf(t, want, w)
		tolerance := 0.0
		if want.Arch.NormPlusOne && len(w.Shape) == 1 {
			tolerance = 1.2e-7 // 1 was added and taken away again
		}
		for k, x := range b {
			if math.Abs(float64(a[k])-float64(x)) > tolerance*(1+math.Abs(float64(x))) {
				t.Fatalf("%s: element %d is %v, want %v", w.Name, k, a[k], x)
			}
		}
	}
	if met < 5 {
		t.Errorf("%d tensors", met)
	}
}

// floatsOf reads a tensor.
func floatsOf(t *testing.T, b *build.Build, x *hf.Tensor) []float32 {
	t.Helper()
	s, _ := b.Set.Lookup(x.Source)
	raw, v := make([]byte, x.Elements()*int64(s.DType.Bits())/8), make([]float32, x.Elements())
	if err := b.Set.ReadAt(x.Source, raw, x.Offset*int64(s.DType.Bits())/8); err != nil {
		t.Fatal(err)
	}
	quant.DecodeFloats(v, raw, s.DType)
	return v
}

// TestGGUFGoldens runs the fixtures of package runtime from their GGUF form: the reference's logits, as near as there.
func TestGGUFGoldens(t *testing.T) {
	const dir = "../runtime/testdata/golden"
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	for _, e := range entries {
		var g struct {
			Tokens    []int32
			Atol      float64 `json:"suggested_atol"`
			ValuesOf  string  `json:"values_of"`
			WeightsOf string  `json:"weights_of"`
		}
		raw, err := os.ReadFile(filepath.Join(dir, e.Name(), "golden.json"))
		if err != nil {
			continue
		}
		if err := json.Unmarshal(raw, &g); err != nil {
			t.Fatal(err)
		}
		if g.ValuesOf != "" || g.WeightsOf != "" {
			continue // another one's values
		}
		src := open(t, filepath.Join(dir, e.Name()), hf.Options{})
		out := filepath.Join(t.TempDir(), "m.gguf")
		p, err := convert.NewGGUF(src, convert.GGUFSettings{Mix: mixture(t, "f32")}, out)
		if err != nil {
			t.Logf("%s: not in GGUF: %v", e.Name(), err)
			continue
		}
		if slices.ContainsFunc(p.Notes, func(s string) bool {
			return strings.Contains(s, "llama.cpp ignores") || strings.Contains(s, "does not stretch")
		}) {
			continue // beyond some length the file says something else
		}
		done++
		toGGUF(t, src, convert.GGUFSettings{Mix: mixture(t, "f32")}, out)
		want, err := os.ReadFile(filepath.Join(dir, e.Name(), "logits.f32"))
		if err != nil {
			t.Fatal(err)
		}
		got, worst := logits(t, fromGGUF(t, out, false), g.Tokens), 0.0
		for i, x := range got {
			w := math.Float32frombits(binary.LittleEndian.Uint32(want[4*i:]))
			worst = max(worst, math.Abs(float64(x)-float64(w)))
		}
		if !(worst <= g.Atol) || 4*len(got) != len(want) {
			t.Errorf("%s: %d logits, worst %.1e from the reference, allowed %.0e", e.Name(), len(got), worst, g.Atol)
		}
	}
	if done < 10 {
		t.Errorf("%d fixtures were run", done)
	}
}

// wide is a Llama whose rows are whole blocks of every type.
func wide(t testing.TB) *build.Build {
	t.Helper()
	return open(t, wideModel(t).Write(t), hf.Options{})
}

func wideModel(t testing.TB) *testmodel.Model {
	t.Helper()
	m := testmodel.Golden(t, "llama-plain")
	r := strings.NewReplacer(`"hidden_size": 64`, `"hidden_size": 256`, `"intermediate_size": 112`, `"intermediate_size": 512`, `"head_dim": 16`, `"head_dim": 64`)
	m.Config = r.Replace(m.Config)
	c, err := hf.ParseConfig([]byte(m.Config))
	if err != nil {
		t.Fatal(err)
	}
	a, err := hf.Describe(c)
	if err != nil {
		t.Fatal(err)
	}
	var specs []safetensors.Spec
	for _, x := range a.Tensors {
		if x.Role != hf.Buffer && (x.Role != hf.Head || !a.Tied) {
			specs = append(specs, safetensors.Spec{Name: x.Name, DType: safetensors.BF16, Shape: x.Shape})
		}
	}
	m.Shards = [][]safetensors.Spec{specs}
	return m
}

// TestGGUFBlocks writes every mixture and every type. What dequantize writes is the decoder's very values, the runtime
// computes the same from the codes, and the report states the noise that is there.
func TestGGUFBlocks(t *testing.T) {
	src := wide(t)
	tokens := []int32{1, 20, 3, 77, 5, 140, 9, 30}
	want := logits(t, src, tokens)
	kinds := map[string]convert.GGUFSettings{}
	for _, m := range mix.All {
		kinds[m.Name] = convert.GGUFSettings{Mix: &m}
	}
	two := block.Q2_K
	kinds["q2_k"] = convert.GGUFSettings{Mix: mixture(t, "q4_k_m"), Options: mix.Options{Pure: true, Embedding: &two, Output: &two}}
	for name, s := range kinds {
		out := filepath.Join(t.TempDir(), name+".gguf")
		toGGUF(t, src, s, out)
		codes, plain := fromGGUF(t, out, false), fromGGUF(t, out, true)
		a, b := logits(t, codes, tokens), logits(t, plain, tokens)
		if d := apart(a, b); !(d < 1e-9) {
			t.Errorf("%s: logits of codes and of floats are %g apart", name, d)
		}
		if d := apart(b, want); !(d < 0.5) {
			t.Errorf("%s: logits are %g from the source's", name, d)
		}
		for i := range codes.Tensors {
			x := &codes.Tensors[i]
			l := codes.Linears[x.Module()]
			if x.Source != "" || l == nil {
				continue
			}
			n, k := l.Shape()
			m, err := l.Rows(0, n)
			if err != nil {
				t.Fatal(err)
			}
			got, decoded := m.Dequantize(), floatsOf(t, plain, &plain.Tensors[i])
			for j := range got {
				if math.Abs(float64(got[j]-decoded[j])) > 1e-6 {
					t.Fatalf("%s: %s: weight %d of [%d,%d] is %v, the decoder has %v", name, x.Name, j, n, k, got[j], decoded[j])
				}
			}
		}
	}
}

// TestGGUFInt8 demands the same logits of every set of kernels and number of threads where blocks are multiplied by int8,
// near those of the reference.
func TestGGUFInt8(t *testing.T) {
	src := wide(t)
	tokens := []int32{1, 20, 3, 77, 5, 140, 9, 30, 2, 81}
	for _, name := range []string{"q4_k_m", "q5_k_m", "q6_k", "q8_0", "iq4_xs", "iq4_nl"} {
		out := filepath.Join(t.TempDir(), name+".gguf")
		toGGUF(t, src, convert.GGUFSettings{Mix: mixture(t, name)}, out)
		b := fromGGUF(t, out, false)
		exact := logits(t, b, tokens)
		var want []float32
		for _, set := range kernel.Names() {
			kernel.Use(t, set)
			for threads := 1; threads < 4; threads++ {
				got := logitsOf(t, b, tokens, runtime.Config{Mode: runtime.A8, Threads: threads})
				if want == nil {
					want = got
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s: other logits with %s and %d threads", name, set, threads)
				}
			}
		}
		if d := apart(want, exact); !(d < 1e-3) {
			t.Errorf("%s: logits of int8 are %g from the reference", name, d)
		}
	}
}

// TestGGUFDeterminism demands the same bytes of any number of threads, with and without weights of the columns.
func TestGGUFDeterminism(t *testing.T) {
	src := wide(t)
	for _, calibrated := range []bool{false, true} {
		var first []byte
		for _, threads := range []int{1, 3} {
			s := convert.GGUFSettings{Mix: mixture(t, "q4_k_m"), Threads: threads}
			if calibrated {
				s.Calibration = random(src, 4, 16)
			}
			out := filepath.Join(t.TempDir(), "m.gguf")
			toGGUF(t, src, s, out)
			raw, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = raw
			}
			if !slices.Equal(raw, first) {
				t.Errorf("calibrated %v: other bytes with %d threads", calibrated, threads)
			}
		}
	}
}
