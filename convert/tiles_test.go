package convert_test

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"testing"

	"nibble/convert"
	"nibble/hf"
	"nibble/internal/kernel"
	"nibble/internal/testmodel"
	"nibble/quant"
)

// Calibration on tiles, asked for by name, gives the same bytes with any number of threads, other ones than without, and as good ones: losses, shares of
// the outputs' energy, differ by less than a tenth. Without AMX it is refused, and nothing is left.
func TestCalibrationOnTiles(t *testing.T) {
	src := open(t, testmodel.Golden(t, "llama-llama3").Write(t), hf.Options{})
	s := calibrated(t, src, "gptq", quant.GPTQ)
	was, err := kernel.Active()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	_, vectors := quantize(t, src, s, filepath.Join(dir, "vectors"))
	other, err := convert.NewPlan(src, s)
	if err != nil {
		t.Fatal(err)
	}
	without := other.PlanDigest()
	s.Calibration.Kernel = "amxbf16"
	if other.PlanDigest() == without {
		t.Error("parts with and without tiles would be joined")
	}
	if usable, _ := kernel.AMX(); !usable {
		plan, err := convert.NewPlan(src, s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (&convert.Run{Plan: plan, Out: filepath.Join(dir, "tiles")}).Quantize(t.Context(), nil); err == nil {
			t.Error("tiles were used that cannot be")
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("left: %v, %v", entries, err)
		}
		return
	}
	var want map[string]string
	for _, threads := range []int{1, 3} {
		s.Threads = threads
		out := filepath.Join(dir, fmt.Sprint("tiles", threads))
		_, report := quantize(t, src, s, out)
		if now, _ := kernel.Active(); now != was {
			t.Fatalf("%s is in use, not %s", now, was)
		}
		for i, x := range report.Tensors {
			if v := vectors.Tensors[i]; x.Loss != nil && math.Abs(float64(*x.Loss)/float64(*v.Loss)-1) > .1 {
				t.Errorf("%s: a loss of %v, by vectors %v", x.Name, *x.Loss, *v.Loss)
			}
		}
		if want == nil {
			want = digests(t, out)
		}
		equal(t, digests(t, out), want)
	}
	if maps.Equal(want, digests(t, filepath.Join(dir, "vectors"))) {
		t.Error("tiles were not used")
	}
}
