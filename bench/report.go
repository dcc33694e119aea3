package bench

import (
	"fmt"
	"io"
	"strings"
)

// Report is everything that a run of the command finds out. What depends on the number of threads is that of the largest.
type Report struct {
	Version string   `json:"nibble_version"`
	Go      string   `json:"go_version"`
	CPU     string   `json:"cpu"`
	Kernel  string   `json:"kernel"`
	Kernels []string `json:"kernels"` // that the machine has
	Threads []int    `json:"threads"`
	CPUs    []int    `json:"cpus"` // to which threads are pinned
	Busy    *float64 `json:"busy_share,omitempty"`

	Model         string  `json:"model"`
	Format        string  `json:"format"`
	Bits          int     `json:"bits"`       // of the first linear
	Group         int     `json:"group_size"` // likewise; 0 in float
	Bytes         int64   `json:"size_bytes"`
	Parameters    int64   `json:"parameters"`
	BitsPerWeight float64 `json:"bits_per_weight"`
	Activations   string  `json:"activations"`
	KV            string  `json:"kv"`
	Repetitions   int     `json:"repetitions"`

	Ceilings
	Load    float64 `json:"load_seconds"`         // from opening to the first token
	Peak    int64   `json:"peak_bytes,omitempty"` // of the process' memory, before the ceilings were measured
	Weights int64   `json:"weight_bytes"`         // in memory
	Cache   int64   `json:"kv_bytes"`             // of the test with the largest

	Tests []*Result `json:"tests"`
}

// Print prints the report: what was measured where, the table, and profiles if there are any.
func (r *Report) Print(w io.Writer) error {
	list := func(x []int) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint(x), " ", ", "), "[]") }
	cpus, busy := "not pinned", ""
	if len(r.CPUs) > 0 {
		cpus = "pinned to processors " + list(r.CPUs)
	}
	if r.Busy != nil {
		busy = fmt.Sprintf("; %.0f %% busy before the start", 100**r.Busy)
	}
	group := ""
	if r.Group > 0 {
		group = fmt.Sprintf(", groups of %d", r.Group)
	}
	peak := ""
	if r.Peak > 0 {
		peak = ", at most " + megabytes(r.Peak) + " in all"
	}
	_, err := fmt.Fprintf(w, `machine   %s; threads %s, %s%s
program   nibble %s, %s; kernels %s of %s
model     %s: %s, %d bits%s; %s, %.3f bits per weight
run       activations %s, cache %s; %d repetitions, shares are of the median
load      %.2f s to the first token
memory    %s of weights, %s of cache%s
ceilings  --threads %d: read %.1f GB/s, multiply and add %.1f G/s int8, %.1f G/s bf16

`, r.CPU, list(r.Threads), cpus, busy, r.Version, r.Go, r.Kernel, strings.Join(r.Kernels, ", "), r.Model, r.Format, r.Bits, group,
		megabytes(r.Bytes), r.BitsPerWeight, r.Activations, r.KV, r.Repetitions, r.Load, megabytes(r.Weights), megabytes(r.Cache), peak,
		r.most(), r.Read, r.Int8/1e9, r.BF16/1e9)
	if err != nil {
		return err
	}
	if err := Table(w, Subject{r.Model, r.Bytes, r.Parameters, r.Activations}, r.Tests); err != nil {
		return err
	}
	for _, x := range r.Tests {
		p := x.Profile
		if p == nil {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n%s, --threads %d: %.1f µs a step, the mean of %d\n\n", x.Name, x.Threads, 1e6*p.Step, p.Steps); err != nil {
			return err
		}
		if err := p.Print(w); err != nil {
			return err
		}
	}
	return nil
}

// most returns the largest number of threads.
func (r *Report) most() (n int) {
	for _, t := range r.Threads {
		n = max(n, t)
	}
	return n
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
