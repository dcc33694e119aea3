package npu

import (
	"context"
	"slices"
	"testing"

	"nibble/build"
	"nibble/demo"
	"nibble/hf"
	"nibble/tokenizer"
)

// demoModel opens the demo and cuts its two texts into n sequences of so many tokens.
func demoModel(t *testing.T, n, tokens int) (m *Model, ranges, held [][]int32) {
	t.Helper()
	f, err := hf.NewFolder("", demo.FS(), "")
	if err != nil {
		t.Fatal(err)
	}
	b, err := build.Open(f, hf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Set.Close() })
	if m, err = NewModel(b); err != nil {
		t.Fatal(err)
	}
	words, err := tokenizer.Load(b.FS)
	if err != nil {
		t.Fatal(err)
	}
	cut := func(text string) (list [][]int32) {
		ids, err := words.Encode(text[:40000], false)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			list = append(list, ids[i*len(ids)/n:][:tokens])
		}
		return list
	}
	return m, cut(demo.Calibration()), cut(demo.Evaluation())
}

// The figures that an export is worth something for, on text that the ranges did not see: 36.9 dB is what a calibrated w8a16
// layer of a 1.7B model reached on a phone. Headroom is what it takes; 8-bit activations and 4-bit weights are far below.
func TestQuality(t *testing.T) {
	m, ranges, held := demoModel(t, 4, 176)
	measure := func(scheme, kv string, headroom float64, promote bool) *Evaluation {
		s, err := NewScheme(scheme, kv)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Context: 192, Prefill: 48}
		q, err := Calibrate(context.Background(), m, &o, s, ranges, Calibration{RangeRule: RangeRule{Method: "minmax", Headroom: headroom}, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		if promote {
			costs, err := (&Test{Sequences: [][]int32{ranges[0][:48]}, Threads: 2}).Sensitivity(context.Background(), m, o, q)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(costs[:5], func(c Cost) bool { return c.Kind == "matrix" }) {
				t.Errorf("with 4-bit weights the five most expensive tensors are %v", costs[:5])
			}
			if names := q.Promote(m, o, costs); len(names) == 0 {
				t.Error("nothing was promoted")
			}
		}
		e, err := (&Test{Sequences: held[:1], Decode: 32, Threads: 2}).Evaluate(context.Background(), m, o, q)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s %s %g: %.2f and %.2f dB, top-1 %.4f and %.4f", scheme, kv, headroom, float64(e.Prefill.SQNR), float64(e.Decode.SQNR), e.Prefill.Top1, e.Decode.Top1)
		return e
	}
	e := measure("w8a16", "int16", 2, false)
	if e.Prefill.SQNR < 46 || e.Decode.SQNR < 46 || e.Prefill.Top1 < 0.985 || e.Prefill.Ratio < 0.99 || e.Prefill.Ratio > 1.01 {
		t.Errorf("w8a16: %+v, %+v", e.Prefill, e.Decode)
	}
	if w := e.Worst(); w.Clipped > 1e-4 {
		t.Errorf("%g of %s is clipped", w.Clipped, w.Name)
	}
	if e := measure("w8a16", "uint8", 2, false); e.Prefill.SQNR < 40 || e.Decode.SQNR < 36.9 {
		t.Errorf("w8a16 with 8-bit caches: %+v, %+v", e.Prefill, e.Decode)
	}
	if e := measure("w8a8", "uint8", 2, false); e.Prefill.SQNR > 30 {
		t.Errorf("w8a8 cannot be as good as %+v", e.Prefill)
	}
	plain := measure("w4a16", "uint8", 2, false)
	if better := measure("w4a16", "uint8", 2, true); better.Prefill.SQNR < plain.Prefill.SQNR+1 {
		t.Errorf("promotion brings %.2f dB to %.2f dB", float64(plain.Prefill.SQNR), float64(better.Prefill.SQNR))
	}
}

// The same weights and text give the same grids with any number of threads.
func TestThreads(t *testing.T) {
	m, ranges, _ := demoModel(t, 3, 64)
	var grids []map[string]Encoding
	for _, threads := range []int{1, 3} {
		s, _ := NewScheme("w8a16", "int16")
		o := Options{Context: 64, Prefill: 16}
		q, err := Calibrate(context.Background(), m, &o, s, ranges, Calibration{RangeRule: RangeRule{Method: "mse", Headroom: 1}, Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		grids = append(grids, q.Encodings)
	}
	for name, e := range grids[0] {
		if grids[1][name] != e {
			t.Errorf("%s: %v and %v", name, e, grids[1][name])
		}
	}
}

// What cannot be a graph is refused by its name.
func TestRefused(t *testing.T) {
	for _, variant := range []string{"mixtral", "qwen3moe", "gpt2"} {
		_, err := NewModel(open(t, variant))
		if err == nil {
			t.Errorf("%s is taken", variant)
		} else {
			t.Log(err)
		}
	}
}
