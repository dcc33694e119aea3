package bench

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"nibble/build"
	"nibble/demo"
	"nibble/hf"
	"nibble/runtime"
)

func TestStats(t *testing.T) {
	for _, tt := range []struct {
		x                    []float64
		mean, stddev, middle float64
	}{
		{[]float64{2, 4, 4, 4, 5, 5, 7, 9}, 5, math.Sqrt(32. / 7), 4.5},
		{[]float64{9, 1, 2}, 4, math.Sqrt(19), 2},
		{[]float64{3}, 3, 0, 3},
		{nil, 0, 0, 0},
	} {
		mean, stddev := meanStddev(tt.x)
		if mean != tt.mean || math.Abs(stddev-tt.stddev) > 1e-12 || Median(tt.x) != tt.middle {
			t.Errorf("%v: %v, %v, %v; want %v, %v, %v", tt.x, mean, stddev, Median(tt.x), tt.mean, tt.stddev, tt.middle)
		}
	}
	x := []float64{3, 1, 2}
	if Median(x); !slices.Equal(x, []float64{3, 1, 2}) {
		t.Errorf("the samples were sorted: %v", x)
	}
}

func TestTests(t *testing.T) {
	var names []string
	for _, x := range Tests([]int{512, 0}, []int{0, 128}, []int{1, 8}, []int{0, 4096}) {
		names = append(names, x.String())
		if want := map[bool]int{true: 512, false: 128}[x.Prompt > 0] + x.Depth; x.Context() != want {
			t.Errorf("%s: %d tokens, want %d", x, x.Context(), want)
		}
	}
	const want = "pp512, tg128, tg128 b8, pp512 @ d4096, tg128 @ d4096, tg128 b8 @ d4096"
	if have := strings.Join(names, ", "); have != want {
		t.Errorf("%s, want %s", have, want)
	}
}

// demoModel has 4 layers of 256 and a vocabulary of 1024.
func demoModel(t *testing.T, c runtime.Config) *runtime.Model {
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
	m, err := runtime.Load(b, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func TestRun(t *testing.T) {
	m := demoModel(t, runtime.Config{Mode: runtime.A16, Threads: 2})
	for _, test := range Tests([]int{4}, []int{3}, []int{1, 2}, []int{0, 2}) {
		r, err := Run(t.Context(), m, test, Options{KV: runtime.KVBF16, Repetitions: 2})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Rates) != 2 || slices.Min(r.Rates) <= 0 || r.Median != Median(r.Rates) || r.Profile != nil {
			t.Errorf("%s: %+v", test, r)
		}
		r.Hold(Ceilings{Read: cmp.Or(2*r.Read, 1), BF16: cmp.Or(4*r.macs, 1), Int8: 1})
		switch {
		case test.Prompt > 0:
			// All matrices but the head for 4 tokens, and the head for one.
			head := float64(1024 * 256)
			want := r.Median * (float64(m.StepMACs()) - head + head/4)
			if math.Abs(r.macs/want-1) > 1e-12 || r.Read != 0 || r.ShareOfPeak != 0.25 {
				t.Errorf("%s: %v multiply-adds per second, want %v; %+v", test, r.macs, want, r)
			}
		default:
			// Three tokens, so that the middle one has another in front of it besides the depth.
			batch := float64(test.Batch)
			weights, all := float64(m.StepBytes(0, runtime.KVBF16)), float64(m.StepBytes(test.Depth+1, runtime.KVBF16))
			want := r.Median / batch * (weights + batch*(all-weights)) / 1e9
			if math.Abs(r.Read/want-1) > 1e-12 || r.ShareOfPeak != 0 || r.ShareOfCeiling != 0.5 {
				t.Errorf("%s: %v GB/s, want %v; %+v", test, r.Read, want, r)
			}
		}
	}
}

func TestInt8Peak(t *testing.T) {
	r := Result{macs: 30, int8: true}
	if r.Hold(Ceilings{Read: 1, Int8: 40, BF16: 60}); r.ShareOfPeak != 0.75 {
		t.Errorf("%v of the peak, want that of int8", r.ShareOfPeak)
	}
}

func TestRunFails(t *testing.T) {
	m := demoModel(t, runtime.Config{Threads: 1})
	if _, err := Run(t.Context(), m, Test{Prompt: 1000, Depth: 25, Batch: 1}, Options{Repetitions: 1}); err == nil {
		t.Error("1025 tokens fit a context of 1024")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, m, Test{Decode: 2, Batch: 1}, Options{Repetitions: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// The operations of a profile are the step, and its name says how many steps there were.
func TestProfile(t *testing.T) {
	p := newProfile(runtime.Profile{Steps: 4, Wall: 100 * time.Millisecond,
		Ops: []runtime.OpTime{{Name: "down", Time: 60 * time.Millisecond}, {Name: "q, k, v", Time: 40 * time.Millisecond}}})
	want := []Operation{{"down", 0.015, 0.6}, {"q, k, v", 0.01, 0.4}}
	if p.Steps != 4 || p.Step != 0.025 || !slices.Equal(p.Operations, want) {
		t.Errorf("%+v, want %v", p, want)
	}
	var text strings.Builder
	if err := p.Print(&text); err != nil {
		t.Fatal(err)
	}
	const printed = `| operation |      µs |   share |
| --------- | ------: | ------: |
| down      | 15000.0 |  60.0 % |
| q, k, v   | 10000.0 |  40.0 % |
| step      | 25000.0 | 100.0 % |
`
	if text.String() != printed {
		t.Errorf("%s", text.String())
	}
	if p := newProfile(runtime.Profile{}); p.Steps != 0 || p.Step != 0 || len(p.Operations) != 0 {
		t.Errorf("of nothing: %+v", p)
	}
}

// What the model itself measures leaves nothing out: its operations are the step.
func TestProfileIsWhole(t *testing.T) {
	for _, threads := range []int{1, 2} {
		m := demoModel(t, runtime.Config{Mode: runtime.A16, Threads: threads})
		for _, test := range Tests([]int{10}, []int{3}, []int{1}, []int{0}) {
			r, err := Run(t.Context(), m, test, Options{KV: runtime.KVBF16, Repetitions: 1, Profile: true})
			if err != nil {
				t.Fatal(err)
			}
			if want := map[bool]int{true: 1, false: 3}[test.Prompt > 0]; r.Profile.Steps != want { // a prompt runs at once
				t.Fatalf("%s: %d steps, want %d", test, r.Profile.Steps, want)
			}
			sum := 0.0
			for _, o := range r.Profile.Operations {
				sum += o.Time
			}
			if d := math.Abs(1 - sum/r.Profile.Step); d > 1e-3 { // nanoseconds are rounded
				t.Errorf("%s, %d threads: operations and step differ by %v", test, threads, d)
			}
		}
	}
}

func TestTable(t *testing.T) {
	results := []*Result{
		{Name: "pp512", Threads: 2, Mean: 1234.5, Stddev: 6.78, Median: 1235, ShareOfPeak: 0.1234},
		{Name: "tg128 b8", Threads: 16, Mean: 9.999, Stddev: 0.001, Median: 9.9, Read: 12.34, ShareOfCeiling: 0.987},
	}
	var text strings.Builder
	if err := Table(&text, Subject{"m", 637_100_000, 1_100_048_384, "a8"}, results); err != nil {
		t.Fatal(err)
	}
	const want = `| model | size     | params | mode | threads | test     |            t/s |  median | GB/s | of ceiling | of peak |
| ----- | -------- | ------ | ---- | ------: | -------- | -------------: | ------: | ---: | ---------: | ------: |
| m     | 637.1 MB | 1.10 B | a8   |       2 | pp512    | 1234.50 ± 6.78 | 1235.00 |      |            |  12.3 % |
| m     | 637.1 MB | 1.10 B | a8   |      16 | tg128 b8 |   10.00 ± 0.00 |    9.90 | 12.3 |     98.7 % |         |
`
	if text.String() != want {
		t.Errorf("%s", text.String())
	}
	if have := count(134_515_008); have != "134.52 M" {
		t.Errorf("%s", have)
	}
}

// A crew's threads all work in every pass, and what they do is counted whole.
func TestCrew(t *testing.T) {
	w, err := newCrew(3, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	var passes [3]int
	w.best(0, func(tid int) { passes[tid]++ })
	if passes != [3]int{3, 3, 3} {
		t.Errorf("%v passes, want 3 each", passes)
	}
	rate := w.peak(func(rounds int) int { return 2 * rounds }, 0)
	if rate <= 0 || math.IsInf(rate, 0) {
		t.Errorf("%v multiply-adds per second", rate)
	}
	read, err := w.read(1<<16, 0)
	if err != nil || read <= 0 || math.IsInf(read, 0) {
		t.Errorf("%v GB/s, %v", read, err)
	}
	if _, err := newCrew(1, []int{1 << 12}); err == nil {
		t.Error("a thread runs on a processor that no machine has")
	}
}
