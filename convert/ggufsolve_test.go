package convert_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nibble/build"
	"nibble/convert"
	"nibble/gguf/block"
	"nibble/gguf/mix"
	"nibble/hf"
	"nibble/internal/stage"
	"nibble/internal/testmodel"
	"nibble/quant"
)

var anyName = regexp.MustCompile(".")

// ggufTypes are the types that feedback can choose codes of.
var ggufTypes = []block.Type{block.Q2_K, block.Q3_K, block.Q4_K, block.Q5_K, block.Q6_K, block.IQ4_XS, block.IQ4_NL, block.Q4_0,
	block.Q4_1, block.Q5_0, block.Q5_1, block.Q8_0}

// TestGGUFFeedback quantizes all matrices as each type, from a text. Feedback makes files of the size that search makes, whose
// matrices lose less of their outputs; every matrix is the method's, and the file has the very noise that the report states.
func TestGGUFFeedback(t *testing.T) {
	src := wide(t)
	for _, typ := range ggufTypes {
		s := convert.GGUFSettings{Mix: mixture(t, "q4_k_m"), Options: mix.Options{Pure: true, Embedding: &typ, Output: &typ,
			Rules: []mix.Rule{{Match: anyName, Type: typ}}}, Calibration: random(src, 16, 32)}
		dir := t.TempDir()
		plain := toGGUF(t, src, s, filepath.Join(dir, "search.gguf"))
		s.Method = quant.GPTQ
		out := filepath.Join(dir, "gptq.gguf")
		fed := toGGUF(t, src, s, out)
		if fed.Totals.TensorBytes != plain.Totals.TensorBytes {
			t.Errorf("%s: %d bytes, by search %d", typ, fed.Totals.TensorBytes, plain.Totals.TensorBytes)
		}
		original, decoded := src, fromGGUF(t, out, true)
		for _, x := range fed.Tensors {
			if x.Method != typ.String() || x.Fallback != "" || (x.Loss == nil) != (x.Name == "token_embd.weight") {
				t.Errorf("%s: %s is %s, %v, %q", typ, x.Name, x.Method, x.Loss, x.Fallback)
			}
			var noise quant.Noise
			a, b := floatsOf(t, original, row(original, x.Source)), floatsOf(t, decoded, row(decoded, x.Source))
			noise.Add(a, b)
			if d := noise.SQNR() - float64(*x.SQNR); !(d < 1e-2 && d > -1e-2) {
				t.Errorf("%s: %s has an SQNR of %.4f dB, the report says %.4f", typ, x.Name, noise.SQNR(), float64(*x.SQNR))
			}
		}
		if !(fed.Totals.SQNR < plain.Totals.SQNR) {
			t.Errorf("%s: feedback is as near to the weights as search: %v and %v dB", typ, fed.Totals.SQNR, plain.Totals.SQNR)
		}
	}
}

// row is the tensor of a name.
func row(b *build.Build, name string) *hf.Tensor {
	i := slices.IndexFunc(b.Tensors, func(t hf.Tensor) bool { return t.Name == name })
	return &b.Tensors[i]
}

// TestGGUFFeedbackPays demands that on other tokens, over several architectures with fused, stacked and reordered matrices, the
// logits are nearer to the float model's with feedback than with search.
func TestGGUFFeedbackPays(t *testing.T) {
	var search, fed float64
	for _, variant := range []string{"llama-llama3", "mixtral", "phi3-oldkeys", "qwen2", "gpt2"} {
		src := open(t, testmodel.Golden(t, variant).Write(t), hf.Options{})
		tokens := []int32{3, 1, 4, 15, 92, 65, 35, 89, 79, 32}
		want := logits(t, src, tokens)
		for method, sum := range map[string]*float64{quant.Search: &search, quant.GPTQ: &fed} {
			s := convert.GGUFSettings{Mix: mixture(t, "q4_0"), Calibration: random(src, 32, 24), Method: method}
			out := filepath.Join(t.TempDir(), "m.gguf")
			toGGUF(t, src, s, out)
			d := apart(logits(t, fromGGUF(t, out, false), tokens), want)
			t.Logf("%s by %s: %g", variant, method, d)
			*sum += d
		}
	}
	if !(fed < search) {
		t.Errorf("logits are %g from the float model's, %g by search", fed, search)
	}
}

// partsOf returns the digests of the files beside a report.
func partsOf(t *testing.T, dir string) map[string]string {
	d := digests(t, dir)
	delete(d, "m.report.json") // has the time
	return d
}

// TestGGUFResume stops runs anywhere and takes them up: the same bytes come out, also in parts, with any number of threads and in
// little memory.
func TestGGUFResume(t *testing.T) {
	src := wide(t)
	for _, method := range []string{quant.Search, quant.Best} {
		s := convert.GGUFSettings{Mix: mixture(t, "q4_k_m"), Method: method, MaxShard: 1 << 18, Threads: 2}
		if method == quant.Best {
			s.Calibration = random(src, 16, 32)
		}
		whole := filepath.Join(t.TempDir(), "m.gguf")
		toGGUF(t, src, s, whole)
		want := partsOf(t, filepath.Dir(whole))
		if len(want) < 3 {
			t.Fatalf("%d files", len(want))
		}
		s.Threads, s.MaxMemory = 5, 80<<20
		stopped := 0
		for stop := 1; stop < 40; stop += 9 {
			out := filepath.Join(t.TempDir(), "m.gguf")
			p, err := convert.NewGGUF(src, s, out)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			n := 0
			_, err = (&convert.GGUFRun{GGUFPlan: p, Progress: func(string, int64) {
				if n++; n == stop {
					cancel()
				}
			}}).Quantize(ctx)
			cancel()
			if err != nil && !errors.Is(err, convert.ErrInterrupted) {
				t.Fatal(err)
			}
			if err != nil {
				stopped++
				if files, err := os.ReadDir(filepath.Dir(out)); err != nil || len(files) != 1 {
					t.Fatalf("stopped after %d steps: %v, %v", stop, files, err)
				}
				r := &convert.GGUFRun{GGUFPlan: p, Mode: stage.Resume, Started: func(finished, all int) {
					if method == quant.Search && finished == 0 && stop > 3 {
						t.Errorf("stopped after %d steps: nothing of %d was taken over", stop, all)
					}
				}}
				if _, err := r.Quantize(t.Context()); err != nil {
					t.Fatalf("stopped after %d steps: %v", stop, err)
				}
			}
			equal(t, partsOf(t, filepath.Dir(out)), want)
		}
		if stopped < 3 {
			t.Errorf("%s: only %d runs were stopped", method, stopped)
		}
	}
}

// Methods that a file cannot be made by, or not without a text, are refused.
func TestGGUFMethods(t *testing.T) {
	src := wide(t)
	for method, want := range map[string]string{quant.AWQ: "it can be", quant.Both: "it can be", quant.RTN: "it can be", quant.GPTQ: "needs calibration"} {
		_, err := convert.NewGGUF(src, convert.GGUFSettings{Mix: mixture(t, "q4_0"), Method: method}, "x.gguf")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", method, err)
		}
	}
}
