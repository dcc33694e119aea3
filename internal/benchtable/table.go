package main

import (
	"fmt"
	"io"

	"nibble/bench"
)

// llamaEntry is one test in the JSON of llama-bench.
type llamaEntry struct {
	Threads int       `json:"n_threads"`
	Prompt  int       `json:"n_prompt"`
	Decode  int       `json:"n_gen"`
	Depth   int       `json:"n_depth"`
	Rates   []float64 `json:"samples_ts"`
}

// table is the rows so far.
type table struct{ rows [][]string }

// key tells tests apart.
type key struct {
	name    string
	threads int
}

// merged is one test over all rounds.
type merged struct {
	rates, llama []float64
	// The smallest share of the ceiling, of the peak, and the GB/s, for a token per second: the best ceiling of all
	// rounds counts.
	ofCeiling, ofPeak, read float64
}

// add adds the rows of a job, a row for a test and a number of threads.
func (t *table) add(j *job, reports []*bench.Report, entries []llamaEntry) {
	found := map[key]*merged{}
	var order []key
	for _, r := range reports {
		for _, x := range r.Tests {
			k := key{x.Name, x.Threads}
			ofCeiling, ofPeak, read := x.ShareOfCeiling/x.Median, x.ShareOfPeak/x.Median, x.Read/x.Median
			m := found[k]
			if m == nil {
				m = &merged{ofCeiling: ofCeiling, ofPeak: ofPeak, read: read}
				found[k] = m
				order = append(order, k)
			}
			m.rates = append(m.rates, x.Rates...)
			m.ofCeiling, m.ofPeak = min(m.ofCeiling, ofCeiling), min(m.ofPeak, ofPeak)
		}
	}
	for _, e := range entries {
		test := bench.Test{Prompt: e.Prompt, Decode: e.Decode, Batch: 1, Depth: e.Depth}
		if m := found[key{test.String(), e.Threads}]; m != nil {
			m.llama = append(m.llama, e.Rates...)
		}
	}
	for _, k := range order {
		t.rows = append(t.rows, found[k].row(j, reports[0], k))
	}
}

func (m *merged) row(j *job, r *bench.Report, k key) []string {
	median := bench.Median(m.rates)
	read, llama, ratio := "", "", ""
	if m.read > 0 {
		read = fmt.Sprintf("%.1f", m.read*median)
	}
	if len(m.llama) > 0 {
		other := bench.Median(m.llama)
		llama, ratio = fmt.Sprintf("%s %.2f", j.gguf, other), fmt.Sprintf("%.2f", median/other)
	}
	return []string{j.shape, j.title, r.Activations, fmt.Sprintf("%.2f", r.BitsPerWeight), fmt.Sprint(k.threads), k.name,
		fmt.Sprintf("%.2f", median), read, bench.Percent(m.ofCeiling * median), bench.Percent(m.ofPeak * median), llama, ratio}
}

// print prints the table, with the comparison if there is one.
func (t *table) print(w io.Writer, comparison bool) error {
	rows := append([][]string{{"shape", "format", "mode", "bits/w", "threads", "test", "t/s", "GB/s", "of ceiling", "of peak",
		"llama.cpp t/s", "ratio"}}, t.rows...)
	align := "lllrrlrrrrrr"
	if !comparison {
		align = align[:len(align)-2]
		for i := range rows {
			rows[i] = rows[i][:len(align)]
		}
	}
	return bench.Markdown(w, rows, align)
}
