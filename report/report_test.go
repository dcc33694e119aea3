package report

import (
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"nibble/build"
	"nibble/demo"
	"nibble/fidelity"
	"nibble/hf"
)

func TestCollector(t *testing.T) {
	words := []string{"a", " b", " c", " d", " e", " f"}
	c := NewCollector([]int32{0, 1, 2, 3, 4, 5}, 32, func(ids []int32) (string, error) {
		s := ""
		for _, id := range ids {
			s += words[id]
		}
		return s, nil
	})
	c.Add(fidelity.Position{Text: 1, Window: 1, Token: 1, KL: 0, Likeliest: [2]int{2, 3}})
	c.Add(fidelity.Position{Text: 2, Window: 2, Token: 2, KL: 1e-9})
	c.Add(fidelity.Position{Text: 3, Window: 3, Token: 3, KL: 0.02, Reference: math.Log(4), Build: math.Log(8), Likeliest: [2]int{3, 5}})
	c.Add(fidelity.Position{Text: 4, Window: 4, Token: 4, KL: 50})
	m, err := c.Measured(new(fidelity.Comparison))
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, b := range m.Histogram {
		total += b.Share
		if b.From > 0 && b.From <= 0.02 && 0.02 < b.To && b.Share != 0.25 {
			t.Errorf("%+v, want a quarter", b)
		}
	}
	first, last := m.Histogram[0], m.Histogram[len(m.Histogram)-1]
	if total != 1 || first.From != 0 || first.Share != 0.5 || last.To != 50 || last.Share != 0.25 {
		t.Errorf("%g in all, %+v, %+v", total, first, last)
	}
	// 32 positions in 16 runs of two.
	if want := (Run{2, 3, 2, (1e-9 + 0.02) / 2}); len(m.ByPosition) != 3 || m.ByPosition[1] != want {
		t.Errorf("%+v, want %+v in the middle", m.ByPosition, want)
	}
	w := m.Worst[1]
	if len(m.Worst) != 4 || m.Worst[0].KL != 50 || w.Context != "a b c" || w.Token != " d" || w.Expected != " d" || w.Built != " f" ||
		math.Abs(w.Reference-0.25) > 1e-12 || math.Abs(w.Build-0.125) > 1e-12 {
		t.Errorf("%+v", m.Worst)
	}
}

func TestScale(t *testing.T) {
	for _, x := range []struct {
		values []float64
		log    bool
		want   []float64
	}{
		{[]float64{20.1, 21.4}, false, []float64{20, 20.5, 21, 21.5}},
		{[]float64{0.0006, 0.03}, true, []float64{1e-4, 1e-3, 1e-2, 1e-1}},
		{[]float64{0.013, 0.05}, true, []float64{0.01, 0.02, 0.05, 0.1}},
		{[]float64{math.NaN(), math.Inf(1)}, false, []float64{1, 1.5, 2}},
		{[]float64{7, 7}, false, []float64{6, 6.5, 7, 7.5, 8}},
	} {
		s := newScale(x.values, x.log, false, 0, 100)
		if !slices.EqualFunc(s.ticks, x.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
			t.Errorf("%v: %v, want %v", x.values, s.ticks, x.want)
		}
	}
}

// TestOwn takes the demo for a build of itself: nothing is lost, and its bits are the 16 of bfloat16.
func TestOwn(t *testing.T) {
	f, err := hf.NewFolder("", demo.FS(), "")
	if err != nil {
		t.Fatal(err)
	}
	b, err := build.Open(f, hf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Set.Close()
	x := NewBuild("demo", b, nil)
	if x.BitsPerWeight != 16 || x.Parameters != 2623744 || len(x.Matrices) != 29 {
		t.Errorf("%g bits, %d parameters, %d matrices", x.BitsPerWeight, x.Parameters, len(x.Matrices))
	}
	m := x.Matrices[1]
	if m.Role != "q" || m.Layer != 0 || m.Bits != 16 || !slices.Equal(m.Shape, []int{256, 256}) {
		t.Errorf("%+v", m)
	}
	tensor := table(b)[m.Name]
	s, err := newSample(b, b, tensor, tensor)
	if err != nil {
		t.Fatal(err)
	}
	h := s.histogram()
	if s.noise.Error != 0 || h.Rows != 128 || h.Lo != -h.Hi || !slices.Equal(h.Before, h.After) {
		t.Errorf("%+v, %+v", s.noise, h)
	}
}

func TestInvalid(t *testing.T) {
	valid := `{"source":{"files":[]},"totals":{"sqnr_db":1},"tensors":[{"name":"a.0.q","shape":[2,2],"bytes":4,"sqnr_db":null}]}`
	if _, err := ParseBuild("r.json", []byte(valid)); err != nil {
		t.Fatal(err)
	}
	for change, want := range map[[2]string]string{
		{`"shape":[2,2]`, `"shape":[2,-2]`}:                              "positive dimensions",
		{`"shape":[2,2]`, `"shape":[4294967296,4294967296]`}:             "2^56",
		{`"shape":[2,2]`, `"shape":{"2":2}`}:                             "an object where a []int belongs",
		{`"shape":[2,2]`, `"shape":"2"`}:                                 "a string where a []int belongs",
		{`"shape":[2,2]`, `"shape":[]`}:                                  "0 dimensions",
		{`"bytes":4`, `"bytes":-4`}:                                      "-4",
		{`"sqnr_db":1`, `"sqnr_db":1e300`}:                               "want a ratio",
		{`"sqnr_db":1`, `"sqnr_db":NaN`}:                                 "invalid character",
		{`"sqnr_db":1`, `"sqnr_db":1e999`}:                               "out of range",
		{`"sqnr_db":null`, `"loss":1e31`}:                                "want a finite number",
		{`"name":"a.0.q"`, `"name":"` + strings.Repeat("x", 5000) + `"`}: "5000 bytes",
		{`"tensors"`, `"tensor"`}:                                        "another tool's file",
		{`null}]}`, `null}]} x`}:                                         "something behind the object",
		{`{"source"`, `[{"source"`}:                                      "no JSON object",
	} {
		_, err := ParseBuild("r.json", []byte(strings.Replace(valid, change[0], change[1], 1)))
		var invalid *Invalid
		if !errors.As(err, &invalid) || invalid.File != "r.json" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", change[1], err, want)
		}
	}
	if _, err := ParseExport("e", []byte(`{"tensors":[{"name":"x","lo":2,"hi":1}]}`)); err == nil || !strings.Contains(err.Error(), "a range from 2 to 1") {
		t.Error(err)
	}
	if _, err := ParseBench("b", []byte(`{"tests":[null]}`)); err == nil || !strings.Contains(err.Error(), "null where a test belongs") {
		t.Error(err)
	}
}

// FuzzReports: whatever a file holds is refused, or rendered.
func FuzzReports(f *testing.F) {
	f.Add([]byte(`{"flags":{"format":"awq","a":[1,null]},"totals":{"sqnr_db":null},"tensors":[{"name":"m.0.q","shape":[2,2],"bits":4,"bytes":4,"sqnr_db":3,"loss":1e-3}]}`))
	f.Add([]byte(`{"logits_sqnr_db":{"decode":1},"layers":[{"name":"l","sqnr_db":3}],"tensors":[{"name":"x","lo":-1,"hi":1e30,"clipped":1}]}`))
	f.Add([]byte(`{"model":"m","tests":[{"name":"pp","median":1e30,"samples":[1]}]}`))
	folder, err := hf.NewFolder("", demo.FS(), "")
	if err != nil {
		f.Fatal(err)
	}
	b, err := build.Open(folder, hf.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { b.Set.Close() })
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { null.Close() })
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := new(Report)
		if x, err := ParseBuild("a", raw); err == nil {
			r.Builds = append(r.Builds, NewBuild("a", b, x), NewBuild("b", b, nil))
		}
		if x, err := ParseExport("a", raw); err == nil {
			r.Exports = append(r.Exports, x)
		}
		if x, err := ParseBench("a", raw); err == nil {
			r.Speed = append(r.Speed, x)
		}
		r.Judge()
		if err := r.Render(null); err != nil {
			t.Fatal(err)
		}
	})
}
