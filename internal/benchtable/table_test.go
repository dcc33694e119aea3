package main

import (
	"encoding/json"
	"strings"
	"testing"

	"nibble/bench"
)

// Two rounds of runtime bench: the second saw a better machine, and only its ceilings count.
const first = `{"activations": "a8", "bits_per_weight": 4.874, "tests": [
{"name": "pp512", "threads": 2, "median": 100, "samples": [90, 100, 110], "share_of_peak": 0.2},
{"name": "tg128", "threads": 2, "median": 50, "samples": [50, 50, 50], "gb_per_s": 30, "share_of_ceiling": 1}]}`

const second = `{"activations": "a8", "bits_per_weight": 4.874, "tests": [
{"name": "pp512", "threads": 2, "median": 200, "samples": [200, 210, 190], "share_of_peak": 0.5},
{"name": "tg128", "threads": 2, "median": 60, "samples": [60, 60, 60], "gb_per_s": 36, "share_of_ceiling": 0.6}]}`

const llama = `[{"n_threads": 2, "n_prompt": 512, "n_gen": 0, "n_depth": 0, "samples_ts": [80, 75, 85]},
{"n_threads": 1, "n_prompt": 0, "n_gen": 128, "n_depth": 0, "samples_ts": [1]}]`

func TestTable(t *testing.T) {
	var reports []*bench.Report
	for _, raw := range []string{first, second} {
		r := new(bench.Report)
		if err := json.Unmarshal([]byte(raw), r); err != nil {
			t.Fatal(err)
		}
		reports = append(reports, r)
	}
	var entries []llamaEntry
	if err := json.Unmarshal([]byte(llama), &entries); err != nil {
		t.Fatal(err)
	}
	j := &job{title: "gptq g128", shape: "tinyllama-1.1b", gguf: "Q4_K_M"}
	var x table
	x.add(j, reports, entries)
	var text strings.Builder
	if err := x.print(&text, true); err != nil {
		t.Fatal(err)
	}
	// Medians over both rounds: 150 and 55. Their shares: 150·0.2/100, 55·0.6/60.
	const want = `| shape          | format    | mode | bits/w | threads | test  |    t/s | GB/s | of ceiling | of peak | llama.cpp t/s | ratio |
| -------------- | --------- | ---- | -----: | ------: | ----- | -----: | ---: | ---------: | ------: | ------------: | ----: |
| tinyllama-1.1b | gptq g128 | a8   |   4.87 |       2 | pp512 | 150.00 |      |            |  30.0 % |  Q4_K_M 80.00 |  1.88 |
| tinyllama-1.1b | gptq g128 | a8   |   4.87 |       2 | tg128 |  55.00 | 33.0 |     55.0 % |         |               |       |
`
	if text.String() != want {
		t.Errorf("%s", text.String())
	}
	text.Reset()
	if err := x.print(&text, false); err != nil || strings.Contains(text.String(), "llama.cpp") || !strings.Contains(text.String(), "|  30.0 % |\n") {
		t.Errorf("without a comparison: %v\n%s", err, text.String())
	}
}

func TestArguments(t *testing.T) {
	j := job{"gptq g64", "smollm-135m", []string{"--format", "gptq", "--group", "64"}, deep, "Q4_K_M"}
	const tests = "bench --json --quiet --repetitions 3 --threads 2 --pp 0 --tg 128 --depth 4096 --batch 1 "
	if have := strings.Join(j.arguments("dir/x.gguf", 3), " "); have != tests+"--shape smollm-135m --format gptq --group 64" {
		t.Errorf("%s", have)
	}
	own := job{"gguf Q4_K_M", "smollm-135m", nil, deep, "Q4_K_M"}
	if have := strings.Join(own.arguments("dir/x.gguf", 3), " "); have != tests+"dir/x.gguf" {
		t.Errorf("%s", have)
	}
	const peer = "-m dir/x.gguf -o json -r 3 -t 2 -p 0 -n 128 -d 4096"
	if have := strings.Join(j.llamaArguments("dir/x.gguf", 3), " "); have != peer {
		t.Errorf("%s", have)
	}
	if have := j.name(); !strings.Contains(have, "135m") || !strings.Contains(have, "d4096") {
		t.Errorf("%s", have)
	}
}
