package convert_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nibble/build"
	"nibble/calib"
	"nibble/convert"
	"nibble/hf"
	"nibble/internal/stage"
	"nibble/internal/testmodel"
	"nibble/quant"
)

// kept are settings of a build on float predecessors whose statistics go into a folder; reused counts how often they come from it.
func kept(t *testing.T, src *build.Build, method, folder string, reused *int) convert.Settings {
	s := calibrated(t, src, "awq", method)
	s.Calibration.Independent, s.Calibration.Cache = true, folder
	s.Calibration.Reused = func(string) { *reused++ }
	return s
}

// The bytes of a build are the same without a cache, with one that is being filled, and from one, on any number of threads; what one
// method left serves others that want no more.
func TestKeptStatistics(t *testing.T) {
	folders := map[string]string{"llama-llama3": t.TempDir(), "qwen3moe": t.TempDir()}
	for _, c := range []struct {
		variant, method string
		first, files    int // reuses by the first build with the cache, and files after it
	}{
		{"llama-llama3", quant.Search, 0, 1},
		{"llama-llama3", quant.Both, 0, 2},
		{"qwen3moe", quant.AWQ, 0, 1},
		{"qwen3moe", quant.GPTQ, 1, 1}, // of awq's
	} {
		src := open(t, uneven(t, c.variant).Write(t), hf.Options{})
		var none, reused int
		plain := filepath.Join(t.TempDir(), "plain")
		quantize(t, src, kept(t, src, c.method, "", &none), plain)
		want := digests(t, plain)
		for i := range 2 {
			s := kept(t, src, c.method, folders[c.variant], &reused)
			s.Threads = 1 + 3*i
			out := filepath.Join(t.TempDir(), "out")
			quantize(t, src, s, out)
			equal(t, digests(t, out), want)
			if entries, err := os.ReadDir(folders[c.variant]); reused != c.first+i || err != nil || len(entries) != c.files {
				t.Errorf("%s, %s: read %d times, want %d; files %v, %v", c.variant, c.method, reused, c.first+i, entries, err)
			}
			if entries, err := filepath.Glob(filepath.Join(out, ".nibble-*")); len(entries) > 0 || err != nil {
				t.Errorf("%v are left in the build, %v", entries, err)
			}
		}
	}
}

// An analysis and builds share what they keep, and it is the same analysis.
func TestSensitivityStatistics(t *testing.T) {
	src := open(t, testmodel.Golden(t, "qwen3moe").Write(t), hf.Options{})
	folder, reused := t.TempDir(), 0
	s := kept(t, src, quant.GPTQ, "", &reused)
	want := analyze(t, src, s, 64)
	s.Calibration.Cache = folder
	for range 2 {
		if diff := cmp.Diff(want, analyze(t, src, s, 64)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	quantize(t, src, s, filepath.Join(t.TempDir(), "out"))
	if reused != 2 {
		t.Errorf("read %d times", reused)
	}
	if raw, err := json.Marshal(want); err != nil || strings.Contains(string(raw), folder) {
		t.Errorf("the analysis names the cache: %v", err)
	}
}

// What is damaged is refused by name, before anything is written. A run that ends early leaves nothing in the folder, and one on
// quantized predecessors does not use it.
func TestStatisticsRefusals(t *testing.T) {
	src := open(t, testmodel.Golden(t, "llama-llama3").Write(t), hf.Options{})
	folder, reused := t.TempDir(), 0
	s := kept(t, src, quant.GPTQ, folder, &reused)
	out := filepath.Join(t.TempDir(), "out")
	if !interrupt(t, src, s, out, 9) {
		t.Fatal("the run was not interrupted")
	}
	empty := func() bool {
		entries, err := os.ReadDir(folder)
		return err == nil && len(entries) == 0
	}
	if !empty() {
		t.Error("the interrupted run left a file")
	}
	s.Calibration.Independent = false
	quantize(t, src, s, filepath.Join(t.TempDir(), "sequential"))
	if !empty() {
		t.Error("the sequential run left a file")
	}
	s.Calibration.Independent = true
	whole := filepath.Join(t.TempDir(), "whole")
	quantize(t, src, s, whole)
	resume := func() (*convert.Report, error) {
		plan, err := convert.NewPlan(src, s)
		if err != nil {
			t.Fatal(err)
		}
		return (&convert.Run{Plan: plan, Out: out, Mode: stage.Resume}).Quantize(t.Context(), nil)
	}
	if _, err := resume(); err != nil || reused != 1 {
		t.Fatalf("going on from the cache: %v, read %d times", err, reused)
	}
	equal(t, digests(t, out), digests(t, whole))

	files, err := filepath.Glob(filepath.Join(folder, "moments-*.bin"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 1
	if err := os.WriteFile(files[0], raw, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(out); err != nil {
		t.Fatal(err)
	}
	_, err = resume()
	if !errors.Is(err, calib.ErrStatistics) || !strings.Contains(err.Error(), files[0]) {
		t.Errorf("a damaged file: %v", err)
	}
	for _, path := range []string{out, out + stage.Suffix} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
