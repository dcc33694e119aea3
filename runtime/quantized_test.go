package runtime

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"nibble/build"
	"nibble/formats"
	"nibble/hf"
	"nibble/internal/kernel"
	"nibble/quant"
	"nibble/safetensors"
)

// families has one variant of every architecture that can be quantized differently from the others: separate, fused and
// transposed matrices, biases, mixtures, tied and own heads.
var families = []string{"llama-linear-bias", "llama-llama3", "qwen2", "qwen3", "qwen3moe", "mixtral-fused", "gemma2", "gemma3-multimodal",
	"phi3-window", "smollm3", "granite", "olmo2", "gpt2", "spark2_5"}

// Converters write builds and expand them. Package convert, which needs this one, fills them in.
var Converters struct {
	Quantize func(b *build.Build, format quant.Format, group int, out string) error
	Expand   func(b *build.Build, out string) error
}

// quantize writes a build of a variant: 4 bits in the format's own grid, what does not fit kept in float.
func quantize(t testing.TB, g *golden, format quant.Format, group int) *build.Build {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	if err := Converters.Quantize(open(t, g.files(t)), format, group, out); err != nil {
		t.Fatal(err)
	}
	b := open(t, os.DirFS(out))
	if len(b.Linears) == 0 {
		t.Fatal("nothing is quantized")
	}
	return b
}

// expand opens the plain float32 checkpoint that a build stands for.
func expand(t testing.TB, b *build.Build) *build.Build {
	t.Helper()
	out := filepath.Join(t.TempDir(), "plain")
	if err := Converters.Expand(b, out); err != nil {
		t.Fatal(err)
	}
	f, err := hf.NewFolder(out, os.DirFS(out), "")
	if err != nil {
		t.Fatal(err)
	}
	tie := ""
	if b.Row(hf.Head) != nil {
		tie = "no"
	}
	plain, err := build.Open(f, hf.Options{Tie: tie})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { plain.Set.Close() })
	return plain
}

// How far the modes may be from float32, as root mean square over all logits relative to theirs: half as much again as
// the worst of these models. Their inputs and weights are random, so that every rounding shows: bfloat16 is off by 0.2 %
// (of its 0.4 % steps) in either operand; int8 has 127 steps up to the largest input, which in a block of 16 or 32 is two
// deviations, so 0.5 %, and in a whole row three, so 0.7 %. Two to five layers, whose scores are large, make that 1, 2.5 and
// 3 % of the logits. In a mixture a near tie may send a token to another expert, which is no rounding any more.
const (
	boundA16     = 0.03
	boundA8      = 0.06
	boundA8Row   = 0.09
	boundMixture = 0.2
)

// In mode F32 a build has the very logits of its expansion in float32: codes are dequantized to the same bits and added up
// in the same order. The other modes are close.
func TestBuilds(t *testing.T) {
	var worst [A8Row + 1]float64
	for i, name := range families {
		if i%every != 0 {
			continue
		}
		g := readGolden(t, name)
		for j, format := range formats.All {
			if (i+j)%2 == 1 {
				continue // every family in two formats, every format in half of the families
			}
			group := 16 << ((i/2 + j/2) % 2)
			t.Run(fmt.Sprintf("%s/%s-g%d", name, format.Name(), group), func(t *testing.T) {
				b := quantize(t, g, format, group)
				want := run(t, load(t, expand(t, b), F32, 1), g.Tokens, KVF32)
				same(t, "float32", run(t, load(t, b, F32, 2), g.Tokens, KVF32), want, 0)
				for mode, bound := range map[Mode]float64{A16: boundA16, A8: boundA8, A8Row: boundA8Row} {
					if b.Arch.Experts > 0 {
						bound = boundMixture
					}
					off := relative(run(t, load(t, b, mode, 2), g.Tokens, KVF32), want)
					worst[mode] = max(worst[mode], off)
					if !(off > 0 && off < bound) {
						t.Errorf("mode %d is off by %.4f, want less than %v and more than nothing", mode, off, bound)
					}
				}
			})
		}
	}
	t.Logf("worst: a16 %.4f, a8 %.4f, a8-row %.4f", worst[A16], worst[A8], worst[A8Row])
}

// A plain checkpoint in mode A16 is off the reference by bfloat16 rounding of the inputs, under every set of kernels, whether its weights
// are bfloat16 already or float32 that must be rounded; the int8 modes compute it as A16 does.
func TestA16OfPlain(t *testing.T) {
	g := readGolden(t, "llama-llama3")
	for _, name := range kernel.All() {
		t.Run(name, func(t *testing.T) {
			kernel.Use(t, name)
			for _, g := range []*golden{g, readGolden(t, "qwen3"), readGolden(t, "gemma2")} {
				off := relative(run(t, g.load(t, A16, 2), g.Tokens, KVF32), g.Logits)
				t.Logf("%s is off by %.4f", g.Name, off)
				if !(off > 0 && off < boundA16) {
					t.Errorf("%s is off by %v", g.Name, off)
				}
			}
		})
	}
	got := run(t, g.load(t, A16, 1), g.Tokens, KVF32)
	same(t, "a8", run(t, g.load(t, A8, 1), g.Tokens, KVF32), got, 0)
	same(t, "a8-row", run(t, g.load(t, A8Row, 1), g.Tokens, KVF32), got, 0)

	// The same weights as float32 round to the same bfloat16.
	wide := expandTo(t, g, safetensors.F32)
	same(t, "float32 weights", run(t, load(t, wide, A16, 1), g.Tokens, KVF32), got, 0)
	same(t, "float32 weights", run(t, load(t, wide, F32, 1), g.Tokens, KVF32), run(t, g.load(t, F32, 1), g.Tokens, KVF32), 0)
}

// expandTo writes a plain fixture's tensors in another float type.
func expandTo(t testing.TB, g *golden, d safetensors.DType) *build.Build {
	t.Helper()
	src := open(t, g.files(t))
	var specs []safetensors.Spec
	for _, x := range src.Set.Tensors() {
		specs = append(specs, safetensors.Spec{Name: x.Name, DType: d, Shape: x.Shape})
	}
	dir := t.TempDir()
	plan, err := safetensors.NewPlan(specs, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	w, err := safetensors.Create(dir, plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range src.Set.Tensors() {
		raw := make([]byte, x.Bytes())
		if err := src.Set.ReadAt(x.Name, raw, 0); err != nil {
			t.Fatal(err)
		}
		v := make([]float32, len(raw)/(x.DType.Bits()/8))
		quant.DecodeFloats(v, raw, x.DType)
		out := make([]byte, len(v)*d.Bits()/8)
		quant.EncodeFloats(out, v, d)
		if err := w.WriteAt(x.Name, out, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), g.files(t)["config.json"].Data, 0o666); err != nil {
		t.Fatal(err)
	}
	return open(t, os.DirFS(dir))
}
