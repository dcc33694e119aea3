package bench

import (
	"time"

	"nibble/runtime"
)

// Result is what a test came to. Rates are tokens per second, of all sequences together.
type Result struct {
	Name    string    `json:"name"`
	Threads int       `json:"threads"`
	Batch   int       `json:"batch"`
	Depth   int       `json:"depth"`
	Mean    float64   `json:"tok_per_s"`
	Stddev  float64   `json:"stddev"`
	Median  float64   `json:"median"`
	Rates   []float64 `json:"samples"` // of the repetitions

	// What the median means: bytes read, of decoding; shares of what the machine could do.
	Read           float64 `json:"gb_per_s,omitempty"`
	ShareOfCeiling float64 `json:"share_of_ceiling,omitempty"` // of the ceiling of reading
	ShareOfPeak    float64 `json:"share_of_peak,omitempty"`    // of the peak of int8 or bfloat16, of prompts

	Ceilings
	Profile *Profile `json:"profile,omitempty"`

	macs float64 // multiply-adds of matrices per second at the median, of prompts
	int8 bool    // they are of int8
}

// newResult summarizes repetitions.
func newResult(m *runtime.Model, t Test, o Options, rates []float64) *Result {
	mean, stddev := meanStddev(rates)
	r := &Result{Name: t.String(), Batch: t.Batch, Depth: t.Depth, Mean: mean, Stddev: stddev, Median: Median(rates), Rates: rates, int8: o.Int8}
	if t.Prompt > 0 {
		// Only the last token of a prompt is multiplied with the head.
		head := float64(m.Width()) * float64(m.Arch.Hidden)
		r.macs = r.Median * (float64(m.StepMACs()) - head*(1-1/float64(t.Prompt)))
		return r
	}
	// Weights are read once for all sequences, and every sequence has a cache of its own.
	weights := float64(m.StepBytes(0, o.KV))
	caches := float64(t.Batch) * (float64(m.StepBytes(t.Depth+(t.Decode-1)/2, o.KV)) - weights)
	r.Read = (weights + caches) * r.Median / float64(t.Batch) / 1e9
	return r
}

// Hold holds a result against the ceilings of as many threads.
func (r *Result) Hold(c Ceilings) {
	r.Ceilings = c
	peak := c.BF16
	if r.int8 {
		peak = c.Int8
	}
	r.ShareOfCeiling, r.ShareOfPeak = r.Read/c.Read, r.macs/peak
}

// Profile says what a step of the model spends its time on.
type Profile struct {
	Steps      int         `json:"steps"`
	Step       float64     `json:"seconds_per_step"`
	Operations []Operation `json:"operations"` // longest first; together they are the step
}

// Operation is a part of a step, the mean of the threads.
type Operation struct {
	Name  string  `json:"name"`
	Time  float64 `json:"seconds_per_step"`
	Share float64 `json:"share"`
}

// newProfile divides a profile by its steps.
func newProfile(p runtime.Profile) *Profile {
	perStep := func(d time.Duration) float64 { return d.Seconds() / float64(max(p.Steps, 1)) }
	x := &Profile{Steps: p.Steps, Step: perStep(p.Wall), Operations: []Operation{}}
	for _, o := range p.Ops {
		x.Operations = append(x.Operations, Operation{Name: o.Name, Time: perStep(o.Time), Share: share(o.Time, p.Wall)})
	}
	return x
}

func share(part, whole time.Duration) float64 { return float64(part) / float64(max(whole, 1)) }
