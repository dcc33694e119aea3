package convert_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nibble/build"
	"nibble/convert"
	"nibble/formats"
	"nibble/hf"
	"nibble/internal/stage"
	"nibble/internal/testmodel"
	"nibble/quant"
	"nibble/safetensors"
)

// uneven is a model of which some channels are large: those that norms, v and up make.
func uneven(t testing.TB, variant string) *testmodel.Model {
	g := testmodel.Golden(t, variant)
	fill := g.Fill
	g.Fill = func(s safetensors.Spec) []float32 {
		v := testmodel.Values(s)
		if fill != nil && fill(s) != nil {
			v = fill(s)
		}
		has := func(names ...string) bool {
			for _, n := range names {
				if strings.Contains(s.Name, n) {
					return true
				}
			}
			return false
		}
		switch {
		case len(s.Shape) == 1 && has("layernorm", ".norm."):
			for i := 0; i < len(v); i += 7 {
				v[i] = 8
			}
		case len(s.Shape) > 1 && has("v_proj", "up_proj", ".w3.", "qkv", "q_k_v"):
			k := s.Shape[len(s.Shape)-1]
			for i := range v {
				if i/k%5 == 0 {
					v[i] *= 4
				}
			}
		}
		return v
	}
	return g
}

// scaling are settings of the method, with enough tokens for every expert.
func scaling(t testing.TB, src *build.Build, format string, group int) convert.Settings {
	s := settings(t, format, group)
	s.Spec.Method, s.Head = quant.AWQ, convert.Keep
	if src.Row(hf.Head) != nil && !src.Arch.Tied && format != "cpu_int4" {
		s.Head = convert.Quantize
	}
	s.Calibration = random(src, 64, 24)
	return s
}

// scaledModel writes what a finished run's scaled model was before it was quantized: matrices in float32, norms as the build
// has them.
func scaledModel(t testing.TB, r *convert.Run, config string) (dir string, scaled int) {
	t.Helper()
	out := open(t, r.Out, hf.Options{})
	g := &testmodel.Model{Config: config, Shards: make([][]safetensors.Spec, 1)}
	values := map[string][]float32{}
	for i := range r.Items {
		it := &r.Items[i]
		v, err := r.Scaled(i)
		if err != nil {
			t.Fatal(err)
		}
		if v != nil {
			scaled++
		} else {
			set, name, at := r.Source.Set, it.Tensor.Source, it.Tensor.Offset
			if it.Spec == nil {
				set, name, at = out.Set, it.Outputs[0].Name, 0
			}
			x, _ := set.Lookup(name)
			size := int64(x.DType.Bits() / 8)
			raw := make([]byte, it.Tensor.Elements()*size)
			if err := set.ReadAt(name, raw, at*size); err != nil {
				t.Fatal(err)
			}
			v = make([]float32, it.Tensor.Elements())
			quant.DecodeFloats(v, raw, x.DType)
		}
		values[it.Tensor.Name] = v
		g.Shards[0] = append(g.Shards[0], safetensors.Spec{Name: it.Tensor.Name, DType: safetensors.F32, Shape: it.Tensor.Shape})
	}
	g.Fill = func(s safetensors.Spec) []float32 { return values[s.Name] }
	return g.Write(t), scaled
}

// Scaling changes no output of any architecture: the scaled weights in float32, under the norms that the build has in the
// source's own type, give the logits of the source. They differ by roundings of float32, each 2⁻²⁴ of a weight: less than
// 2⁻¹⁶ of the largest logit after a few layers.
func TestFoldingChangesNothing(t *testing.T) {
	places := map[string]int{ // in all layers
		"llama-llama3": 3 * 4, "mistral-window": 3 * 4, "granite": 3 * 4, "smollm3": 5 * 4, "qwen3": 3 * 4, // two norms, v, up
		"gemma2": 3 * 4, "gemma3-multimodal": 4 * 4, "phi3-window": 3 * 4,
		"qwen2":             2 * 3, // v has a bias
		"llama-linear-bias": 2,     // so has up; k and v have 12 rows and stay in float, so that one norm is left
		"gpt2":              0,     // its norms have one, too
		"olmo2":             3 * 2, // norms stand behind attention and MLP
		"olmo3":             4 * 2,
		"spark2_5":          4 * 3,       // a gate of heads reads the norm before attention
		"mixtral-fused":     2 * (2 + 4), // a norm, v, and up of four experts; a router reads the other norm
		"qwen3moe-fused":    2*(2+6) + 4, // the layer between has no experts
	}
	for i, variant := range slices.Sorted(maps.Keys(places)) {
		if i%every != 0 {
			continue
		}
		t.Run(variant, func(t *testing.T) {
			g := uneven(t, variant)
			src := open(t, g.Write(t), hf.Options{})
			s := scaling(t, src, "gptq", 8) // divides all widths
			if variant == "qwen3" || variant == "gemma2" {
				s.Spec.Method = quant.Both
			}
			plan, err := convert.NewPlan(src, s)
			if err != nil {
				t.Fatal(err)
			}
			folds := plan.Folds()
			inLayers := 0
			for _, f := range folds {
				if !strings.Contains(strings.Join(f, " "), "lm_head") {
					inLayers++
				}
			}
			if want := places[variant]; inLayers != want {
				t.Errorf("%d places, want %d: %v", inLayers, want, folds)
			}
			r := &convert.Run{Plan: plan, Out: filepath.Join(t.TempDir(), "out")}
			report, err := r.Quantize(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			dir, scaled := scaledModel(t, r, g.Config)
			if folded := 0; len(folds) > 0 {
				for _, x := range report.Tensors {
					if x.Folded {
						folded++
					}
				}
				if folded != scaled || scaled < inLayers {
					t.Errorf("%d matrices are scaled at %d places, the report says %d", scaled, len(folds), folded)
				}
			}
			q, _ := random(src, 1, 20).Load(t.Context())
			want, got := logits(t, src, q.IDs[0]), logits(t, open(t, dir, hf.Options{}), q.IDs[0])
			var most, off float64
			for i, v := range want {
				most = max(most, math.Abs(float64(v)))
				off = max(off, math.Abs(float64(got[i]-v)))
			}
			if off > most/(1<<16) {
				t.Errorf("logits of up to %g are off by %g", most, off)
			}
		})
	}
}

// The same build comes of any number of threads, and of a run that was stopped anywhere and went on.
func TestScaledResume(t *testing.T) {
	for _, variant := range []string{"llama-llama3", "mixtral"} {
		src := open(t, uneven(t, variant).Write(t), hf.Options{})
		s := scaling(t, src, "awq", 16)
		whole := filepath.Join(t.TempDir(), "whole")
		quantize(t, src, s, whole)
		want := digests(t, whole)
		s.Threads = 1
		one := filepath.Join(t.TempDir(), "one")
		quantize(t, src, s, one)
		equal(t, digests(t, one), want)
		for _, stop := range []int{5, 17, 30} {
			out := filepath.Join(t.TempDir(), "out")
			if !interrupt(t, src, s, out, stop) {
				continue
			}
			plan, err := convert.NewPlan(src, s)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := (&convert.Run{Plan: plan, Out: out, Mode: stage.Resume}).Quantize(context.Background(), nil); err != nil {
				t.Fatalf("%s stopped after %d steps: %v", variant, stop, err)
			}
			equal(t, digests(t, out), want)
			if _, err := os.Stat(out + stage.Suffix); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s stopped after %d steps: the unfinished folder is there: %v", variant, stop, err)
			}
		}
	}
}

// Every format takes scaled weights, on the quantized model and on the float one, and the outputs stay close.
func TestScaledFormats(t *testing.T) {
	for i, variant := range []string{"phi3-window", "qwen3moe"} {
		src := open(t, uneven(t, variant).Write(t), hf.Options{})
		q, _ := random(src, 1, 20).Load(t.Context())
		want := logits(t, src, q.IDs[0])
		for j, f := range formats.All {
			s := scaling(t, src, f.Name(), 16)
			s.Embedding = convert.Keep // it has nothing to do with scaling, and moves the choice of experts
			s.Calibration.Independent = (i+j)%2 == 1
			out := filepath.Join(t.TempDir(), "out")
			quantize(t, src, s, out)
			if noise := apart(logits(t, open(t, out, hf.Options{}), q.IDs[0]), want); noise > 1./8 {
				t.Errorf("%s, %s, independent %t: noise %.3g", variant, f.Name(), s.Calibration.Independent, noise)
			}
		}
	}
}

// Of a build with scaled matrices the others are compared with the original weight by weight, and give what the report says.
func TestScaledAgainst(t *testing.T) {
	src := open(t, uneven(t, "qwen2").Write(t), hf.Options{})
	out := filepath.Join(t.TempDir(), "out")
	_, report := quantize(t, src, scaling(t, src, "gptq", 16), out)
	alike := map[string]bool{}
	for _, x := range report.Tensors {
		if x.Method == quant.AWQ && !x.Folded {
			alike[x.Name] = true
		}
	}
	if !alike["model.layers.0.self_attn.o_proj"] || alike["model.layers.0.self_attn.v_proj"] {
		t.Errorf("not scaled: %v", alike)
	}
	x, err := convert.NewExpansion(open(t, out, hf.Options{}), safetensors.BF16, 0)
	if err != nil {
		t.Fatal(err)
	}
	x.Against = src
	losses, err := x.Run(t.Context(), filepath.Join(t.TempDir(), "plain"), stage.Fresh, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range losses {
		if !alike[l.Name] || l.Stated == nil || l.Strays() {
			t.Errorf("%s: %v dB, stated %v", l.Name, l.SQNR, l.Stated)
		}
	}
	if len(losses) != len(alike) || len(x.Notes) == 0 || !strings.Contains(x.Notes[len(x.Notes)-1], "stand for multiples") {
		t.Errorf("%d losses, %d matrices are not scaled; notes %q", len(losses), len(alike), x.Notes)
	}
}
