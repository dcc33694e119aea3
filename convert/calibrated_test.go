package convert_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nibble/build"
	"nibble/calib"
	"nibble/convert"
	"nibble/hf"
	"nibble/internal/stage"
	"nibble/internal/testmodel"
	"nibble/quant"
	"nibble/runtime"
)

// random is a calibration text of n sequences of length tokens.
func random(src *build.Build, n, length int) *convert.Calibration {
	r := rand.New(rand.NewPCG(7, 7))
	q := &calib.Sequences{Source: "random tokens"}
	for range n {
		ids := make([]int32, length)
		for i := range ids {
			ids[i] = int32(r.IntN(src.Arch.Vocab))
		}
		q.IDs = append(q.IDs, ids)
	}
	return &convert.Calibration{Settings: "random", Load: func(context.Context) (*calib.Sequences, error) { return q, nil }}
}

// calibrated are settings with a calibration text that every architecture here can run.
func calibrated(t *testing.T, src *build.Build, format, method string) convert.Settings {
	s := settings(t, format, 16)
	s.Spec.Method = method
	s.Calibration = random(src, 16, 24)
	return s
}

// logits runs tokens through a model in float32.
func logits(t *testing.T, b *build.Build, tokens []int32) []float32 {
	t.Helper()
	return logitsOf(t, b, tokens, runtime.Config{Threads: 1})
}

func logitsOf(t *testing.T, b *build.Build, tokens []int32, c runtime.Config) []float32 {
	t.Helper()
	m, err := runtime.Load(b, c)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession(len(tokens), runtime.KVF32)
	if err != nil {
		t.Fatal(err)
	}
	var all []float32
	if err := m.Forward([]runtime.Input{{Session: s, Tokens: tokens, All: true}}, func(_, _ int, l []float32) { all = append(all, l...) }); err != nil {
		t.Fatal(err)
	}
	return all
}

// apart returns Σ (a−b)² / Σ b².
func apart(a, b []float32) float64 {
	var d, sum float64
	for i, v := range b {
		d += float64(a[i]-v) * float64(a[i]-v)
		sum += float64(v) * float64(v)
	}
	return d / sum
}

// Every architecture is calibrated, every matrix of its layers by the method or, of experts that saw few tokens, by search;
// and over a third of them the logits on other tokens are nearer to the float model's than with rounding to nearest.
func TestCalibratedArchitectures(t *testing.T) {
	var rtn, gptq, best float64
	for i, variant := range testmodel.Variants(t) {
		if i/3%every != 0 {
			continue
		}
		t.Run(variant, func(t *testing.T) {
			src := open(t, testmodel.Golden(t, variant).Write(t), hf.Options{})
			format := []string{"gptq", "awq", "compressed-tensors", "cpu_int4"}[i%4]
			tokens := random(src, 1, 24)
			q, _ := tokens.Load(t.Context())
			want := logits(t, src, q.IDs[0][8:])
			methods := map[string]*float64{quant.RTN: &rtn, quant.GPTQ: &gptq, quant.Best: &best}
			if i%3 > 0 {
				methods = map[string]*float64{[]string{quant.GPTQ, quant.Best}[i%3-1]: new(float64)}
			}
			for method, sum := range methods {
				s := calibrated(t, src, format, method)
				s.Calibration.Load = random(src, 16, 24).Load
				out := filepath.Join(t.TempDir(), "out")
				_, report := quantize(t, src, s, out)
				for _, x := range report.Tensors {
					learned := x.Method == quant.GPTQ || x.Method == quant.Best
					if learned && strings.Contains(x.Name, "layers.") && x.Loss == nil && !strings.Contains(x.Fallback, "few tokens") {
						t.Errorf("%s: %s: no loss, and no reason: %q", method, x.Name, x.Fallback)
					}
				}
				*sum += apart(logits(t, open(t, out, hf.Options{}), q.IDs[0][8:]), want)
				entries, err := os.ReadDir(out)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					if strings.HasPrefix(e.Name(), ".") {
						t.Errorf("%s: %s is left", method, e.Name())
					}
				}
			}
		})
	}
	t.Logf("squared error of the logits: rtn %.3f, gptq %.3f, best %.3f", rtn, gptq, best)
	if !(gptq < rtn && best < rtn) {
		t.Errorf("squared error of the logits: rtn %.3f, gptq %.3f, best %.3f", rtn, gptq, best)
	}
}

// The same bytes on one thread and on several.
func TestCalibratedDeterminism(t *testing.T) {
	for _, variant := range []string{"llama-llama3", "qwen3moe"} {
		for _, method := range []string{quant.Search, quant.GPTQ, quant.Best} {
			src := open(t, testmodel.Golden(t, variant).Write(t), hf.Options{})
			s := calibrated(t, src, "awq", method)
			var want map[string]string
			for _, threads := range []int{1, 5} {
				s.Threads = threads
				out := filepath.Join(t.TempDir(), fmt.Sprint(method, threads))
				quantize(t, src, s, out)
				if want == nil {
					want = digests(t, out)
				}
				equal(t, digests(t, out), want)
			}
		}
	}
}

// A run that is stopped in any layer and taken up ends with the bytes of an undisturbed one, also if what it left of the
// activations is gone or damaged.
func TestCalibratedResume(t *testing.T) {
	src := open(t, testmodel.Golden(t, "llama-llama3").Write(t), hf.Options{})
	s := calibrated(t, src, "gptq", quant.Best)
	whole := filepath.Join(t.TempDir(), "whole")
	quantize(t, src, s, whole)
	want := digests(t, whole)
	stopped := 0
	for i, damage := range []string{"", "h0", "float-h1", "all"} {
		for stop := 8 + i; stop < 60; stop += 11 {
			out := filepath.Join(t.TempDir(), "out")
			if !interrupt(t, src, s, out, stop) {
				continue
			}
			stopped++
			dir := out + stage.Suffix
			switch damage {
			case "all":
				for _, name := range []string{"h0", "h1", "float-h0", "float-h1"} {
					if err := os.Remove(filepath.Join(dir, ".nibble-"+name)); err != nil && !errors.Is(err, os.ErrNotExist) {
						t.Fatal(err)
					}
				}
			case "h0", "float-h1":
				path := filepath.Join(dir, ".nibble-"+damage)
				if raw, err := os.ReadFile(path); err == nil {
					raw[len(raw)/2]++
					if err := os.WriteFile(path, raw, 0o666); err != nil {
						t.Fatal(err)
					}
				}
			}
			plan, err := convert.NewPlan(src, s)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := (&convert.Run{Plan: plan, Out: out, Mode: stage.Resume}).Quantize(t.Context(), nil); err != nil {
				t.Fatalf("stopped after %d steps, damaged %q: %v", stop, damage, err)
			}
			equal(t, digests(t, out), want)
		}
	}
	if stopped < 8 {
		t.Errorf("only %d runs were stopped", stopped)
	}
}

// Too little text is refused with what is needed, before anything is written; so are weights that make no numbers.
func TestCalibratedRefusals(t *testing.T) {
	src := open(t, testmodel.Golden(t, "llama-llama3").Write(t), hf.Options{})
	s := calibrated(t, src, "gptq", quant.GPTQ)
	s.Calibration = random(src, 1, 20)
	plan, err := convert.NewPlan(src, s)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	if _, err = (&convert.Run{Plan: plan, Out: out}).Quantize(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "20 tokens") {
		t.Errorf("20 tokens of text: %v", err)
	}
	if _, err := os.Stat(out + stage.Suffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the refused run left something: %v", err)
	}
	// Of 10¹² tokens the memory is one sequence's.
	ids, many := make([]int32, 1e7), &calib.Sequences{}
	for range int(1e5) {
		many.IDs = append(many.IDs, ids)
	}
	s.Calibration.Load = func(context.Context) (*calib.Sequences, error) { return many, nil }
	if plan, err = convert.NewPlan(src, s); err != nil {
		t.Fatal(err)
	}
	if _, err = (&convert.Run{Plan: plan, Out: out}).Quantize(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "MB are for the activations of 1000000000000 tokens") {
		t.Errorf("more activations than the disk holds: %v", err)
	}
	if _, err := os.Stat(out + stage.Suffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the refused run left something: %v", err)
	}
	other := calibrated(t, src, "gptq", quant.GPTQ)
	other.Calibration.Independent = true
	quantize(t, src, other, out)
	if len(open(t, out, hf.Options{}).Linears) == 0 {
		t.Error("nothing is quantized")
	}
}

// The same bytes from every set of kernels, and on every architecture: these are of avx512bf16.
func TestCalibratedBytes(t *testing.T) {
	for _, c := range []struct{ method, sum string }{
		{quant.GPTQ, "8b59e190c96e95b9b7bb8fe359c061ba9b9f9510382ca09dfa58e44b77c8cb95"},
		{quant.Best, "390009ffdbe26c6829d2c61f09628a9b8ecdf18616cc50dc86539259e203a205"},
		{quant.Both, "6c118567fe0c2d0a772fb2e5cd845be7667a4dd20ba1a59d421d48dfb55852a8"},
	} {
		src := open(t, testmodel.Golden(t, "llama-llama3").Write(t), hf.Options{})
		out := filepath.Join(t.TempDir(), "out")
		quantize(t, src, calibrated(t, src, "cpu_int4", c.method), out)
		if got := digests(t, out)["model.safetensors"]; got != c.sum {
			t.Errorf("%s: SHA-256 %s, want %s", c.method, got, c.sum)
		}
	}
}
