package convert_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nibble/build"
	"nibble/convert"
	"nibble/hf"
	"nibble/internal/stage"
	"nibble/internal/testmodel"
	"nibble/quant"
)

// part makes a part of out, if steps is not 0 only so many of its jobs.
func part(t *testing.T, src *build.Build, s convert.Settings, out string, p convert.Part, steps int) error {
	t.Helper()
	plan, err := convert.NewPlan(src, s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	_, err = (&convert.Run{Plan: plan, Out: out, Progress: func(string, int64) {
		if n++; n == steps {
			cancel()
		}
	}}).QuantizePart(ctx, p)
	return err
}

func merge(t *testing.T, src *build.Build, s convert.Settings, out string) error {
	t.Helper()
	plan, err := convert.NewPlan(src, s)
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&convert.Run{Plan: plan, Out: out}).Merge(t.Context(), nil)
	return err
}

// Parts in any number and any order, each interrupted once, join to the bytes of one run: also where a part has nothing to do,
// where weights are scaled against norms, where a layer has experts, and where a shard of the output is made by two parts.
func TestParts(t *testing.T) {
	for _, c := range []struct {
		variant, format, method string
		counts                  []int
	}{
		{"llama-plain", "gptq", quant.RTN, []int{1, 3, 100}},
		{"gemma2", "cpu_int4", quant.Search, []int{4}},
		{"llama-llama3", "awq", quant.Both, []int{2, 5}},
		{"qwen3moe", "compressed-tensors", quant.GPTQ, []int{2}},
	} {
		src := open(t, testmodel.Golden(t, c.variant).Write(t), hf.Options{})
		s := settings(t, c.format, 16)
		if c.method == quant.RTN || c.method == quant.Search {
			s.Spec.Method = c.method
		} else {
			s = calibrated(t, src, c.format, c.method)
			s.Calibration.Independent = true
		}
		s.MaxShard = 20_000
		whole := filepath.Join(t.TempDir(), "whole")
		quantize(t, src, s, whole)
		want := digests(t, whole)
		for _, count := range c.counts {
			out := filepath.Join(t.TempDir(), "out")
			for i := range count {
				p := convert.Part{Index: count - 1 - i, Count: count}
				if err := part(t, src, s, out, p, 1+i); err != nil && !errors.Is(err, convert.ErrInterrupted) {
					t.Fatal(err)
				}
				if err := part(t, src, s, out, p, 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := merge(t, src, s, out); err != nil {
				t.Fatalf("%s, %d parts: %v", c.variant, count, err)
			}
			equal(t, digests(t, out), want)
		}
	}
}

// What does not belong together is not joined, and the reason is named; nothing is left under the output's name.
func TestPartRefusals(t *testing.T) {
	dir := testmodel.Golden(t, "llama-plain").Write(t)
	src := open(t, dir, hf.Options{})
	s := settings(t, "gptq", 16)
	out := filepath.Join(t.TempDir(), "out")
	refuse := func(want string) {
		t.Helper()
		err := merge(t, src, s, out)
		var part *convert.PartError
		if !errors.As(err, &part) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		for _, name := range []string{out, out + stage.Suffix} {
			if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	refuse("no part has been made")
	do := func(i, n int) {
		t.Helper()
		if err := part(t, src, s, out, convert.Part{Index: i, Count: n}, 0); err != nil {
			t.Fatal(err)
		}
	}
	do(1, 4)
	do(3, 4)
	refuse("parts are missing, of 4: 0, 2")
	do(0, 4)
	do(0, 3)
	refuse("parts of 3 and of 4")
	if err := os.RemoveAll(convert.Part{Count: 3}.Folder(out)); err != nil {
		t.Fatal(err)
	}
	group := s.Spec.Group
	s.Spec.Group = 32
	do(2, 4)
	s.Spec.Group = group
	refuse("was made with other settings")
	if err := part(t, src, s, out, convert.Part{Index: 2, Count: 4}, 0); err == nil || !strings.Contains(err.Error(), "--overwrite makes it again") {
		t.Errorf("a part of another plan is in the way: %v", err)
	}
	second := convert.Part{Index: 2, Count: 4}.Folder(out)
	if err := os.RemoveAll(second); err != nil {
		t.Fatal(err)
	}
	do(2, 4)
	change := func(path string, f func([]byte) []byte) (restore func()) {
		t.Helper()
		was, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f(slices.Clone(was)), 0o666); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := errors.Join(os.WriteFile(path, was, 0o666), os.Chtimes(path, time.Time{}, info.ModTime())); err != nil {
				t.Fatal(err)
			}
		}
	}
	last := func(b []byte) []byte { b[len(b)-1] ^= 1; return b }
	restore := change(filepath.Join(second, "model.safetensors"), last)
	refuse("does not have its checksum")
	restore()
	manifest := filepath.Join(second, "part.json")
	for old, rule := range map[string]string{
		`"part": 2`:     "holds part 3 of 4",
		`"tool": "`:     "was made by version",
		`"noise": {`:    "unknown field",
		`"sha256": "`:   "have read different contents",
		`"job": "model`: "is not in the plan, or twice",
	} {
		restore := change(manifest, func(b []byte) []byte {
			add := map[string]string{`"part": 2`: `"part": 3`, `"noise": {`: `"nose": {`}[old]
			if add == "" {
				add = old + "x"
			}
			return []byte(strings.Replace(string(b), old, add, 1))
		})
		refuse(rule)
		restore()
	}
	if err := os.Remove(manifest); err != nil {
		t.Fatal(err)
	}
	refuse("has no part.json")
	if err := os.RemoveAll(second); err != nil {
		t.Fatal(err)
	}
	do(2, 4)
	restore = change(filepath.Join(dir, "model.safetensors"), last)
	refuse("has changed since")
	restore()
	touched := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "model.safetensors"), touched, touched); err != nil {
		t.Fatal(err)
	}
	if err := merge(t, open(t, dir, hf.Options{}), s, out); err != nil {
		t.Errorf("a copy of the source with another time: %v", err)
	}
	s = calibrated(t, src, "gptq", quant.GPTQ)
	if err := part(t, src, s, out, convert.Part{Count: 2}, 0); err == nil || !strings.Contains(err.Error(), "--independent") {
		t.Errorf("layers that depend on one another: %v", err)
	}
}

// Parts of a GGUF file join to the bytes of one run: of experts that share a tensor, in a file for every few tensors, of matrices that
// are columns of the source, and with feedback. One part is interrupted, and so is the join.
func TestGGUFParts(t *testing.T) {
	for _, c := range []struct {
		variant string
		count   int
		set     func(s *convert.GGUFSettings, src *build.Build)
	}{
		{"mixtral", 3, func(s *convert.GGUFSettings, _ *build.Build) { s.MaxShard = 40_000 }},
		{"gpt2", 2, func(s *convert.GGUFSettings, _ *build.Build) {}},
		{"mixtral-fused", 4, func(s *convert.GGUFSettings, src *build.Build) {
			s.Method, s.Calibration = quant.GPTQ, random(src, 16, 24)
			s.Calibration.Independent = true
		}},
	} {
		src := open(t, testmodel.Golden(t, c.variant).Write(t), hf.Options{})
		s := convert.GGUFSettings{Mix: mixture(t, "q4_k_m"), Threads: 2}
		c.set(&s, src)
		whole, out := filepath.Join(t.TempDir(), "x.gguf"), filepath.Join(t.TempDir(), "x.gguf")
		toGGUF(t, src, s, whole)
		plan := func() *convert.GGUFPlan {
			p, err := convert.NewGGUF(src, s, out)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		stop := func(after int) (context.Context, convert.Progress) {
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			return ctx, func(string, int64) {
				if after--; after == 0 {
					cancel()
				}
			}
		}
		for i := range c.count {
			for _, after := range []int{2 - i, 0} {
				ctx, progress := stop(after)
				r := &convert.Run{Plan: plan().Work(), Out: out, Progress: progress}
				if _, err := r.QuantizePart(ctx, convert.Part{Index: i, Count: c.count}); err != nil && !errors.Is(err, convert.ErrInterrupted) {
					t.Fatal(err)
				}
			}
		}
		ctx, progress := stop(3)
		if _, err := (&convert.GGUFRun{GGUFPlan: plan(), Progress: progress}).Merge(ctx); !errors.Is(err, convert.ErrInterrupted) {
			t.Fatal(err)
		}
		if _, err := (&convert.GGUFRun{GGUFPlan: plan(), Mode: stage.Resume}).Merge(t.Context()); err != nil {
			t.Fatalf("%s: %v", c.variant, err)
		}
		if err := os.RemoveAll(convert.PartsFolder(out)); err != nil {
			t.Fatal(err)
		}
		equal(t, digests(t, filepath.Dir(out)), digests(t, filepath.Dir(whole)))
	}
}
