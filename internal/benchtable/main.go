// Command benchtable measures models that are not there with runtime bench, beside llama-bench where there is one, and
// prints everything in one table. The two take turns, so that both see the same machine.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"nibble/bench"
)

// job is one model with the tests it runs.
type job struct {
	title string
	shape string
	flags []string // of a model that is made up; nil: the file of llama.cpp is the model
	tests tests
	gguf  string // the kind of llama.cpp's file to compare with, or to run; "" for none
}

// tests are lists as the flags of both programs have them.
type tests struct{ threads, pp, tg, depth, batch string }

// Usual tests, and those of decoding alone.
var (
	both   = tests{"2", "512", "128", "0", "1"}
	sweep  = tests{"1,2", "512", "128", "0", "1"}
	deep   = tests{"2", "0", "128", "4096", "1"}
	joined = tests{"2", "0", "128", "0", "8"}
)

var jobs = []job{
	{"gguf Q4_K_M", "tinyllama-1.1b", nil, sweep, "Q4_K_M"},
	{"gptq g128", "tinyllama-1.1b", []string{"--format", "gptq"}, sweep, "Q4_K_M"},
	{"gptq g128", "tinyllama-1.1b", []string{"--format", "gptq"}, deep, "Q4_K_M"},
	{"gptq g128", "tinyllama-1.1b", []string{"--format", "gptq"}, joined, ""},
	{"gptq g128", "tinyllama-1.1b", []string{"--format", "gptq", "--activations", "a16"}, both, "Q4_K_M"},
	{"awq g128", "tinyllama-1.1b", []string{"--format", "awq"}, both, "Q4_K_M"},
	{"cpu_int4 g64", "tinyllama-1.1b", []string{"--format", "cpu_int4", "--group", "64"}, both, "Q4_K_M"},
	{"cpu_int4 g32", "tinyllama-1.1b", []string{"--format", "cpu_int4", "--group", "32"}, both, "Q4_0"},
	{"gptq 8-bit g128", "tinyllama-1.1b", []string{"--format", "gptq", "--bits", "8"}, both, "Q8_0"},
	{"bf16", "tinyllama-1.1b", []string{"--format", "bf16"}, both, "BF16"},
	{"gptq g64", "smollm-135m", []string{"--format", "gptq", "--group", "64"}, sweep, "Q4_K_M"},
	{"gptq g128", "spark-1.7b", []string{"--format", "gptq"}, both, "Q4_K_M"},
}

// options are the flags.
type options struct {
	runtime, llama, models string
	rounds, repetitions    int
}

func main() {
	var o options
	flag.StringVar(&o.runtime, "runtime", "bin/runtime", "the command to measure")
	flag.StringVar(&o.llama, "llama", "", "folder with llama-bench; none: no comparison")
	flag.StringVar(&o.models, "models", "", "folder with SHAPE-KIND.gguf")
	flag.IntVar(&o.rounds, "rounds", 2, "turns of each program")
	flag.IntVar(&o.repetitions, "repetitions", 3, "repetitions of every test in a turn")
	only := flag.String("only", "", "run what has this in its name: 135m, bf16, d4096")
	flag.Parse()
	if flag.NArg() > 0 || o.rounds < 1 || o.repetitions < 1 || o.llama != "" && o.models == "" {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var t table
	var err error
	for i := range jobs {
		if err == nil && strings.Contains(jobs[i].name(), *only) {
			err = o.run(ctx, &jobs[i], &t)
		}
	}
	// What was measured before an interruption is printed, too.
	if err = errors.Join(err, t.print(os.Stdout, o.llama != "")); err != nil {
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(1)
	}
}

// name says all about a job that one could look for.
func (j *job) name() string {
	t := j.tests
	return fmt.Sprintf("%s %s %s b%s d%s", j.shape, j.title, strings.Join(j.flags, " "), t.batch, t.depth)
}

// run measures a job, both programs in turn, and adds its rows to the table.
func (o *options) run(ctx context.Context, j *job, t *table) error {
	gguf := ""
	if o.models != "" && j.gguf != "" && (o.llama != "" || j.flags == nil) {
		gguf = filepath.Join(o.models, j.shape+"-"+j.gguf+".gguf")
		if _, err := os.Stat(gguf); err != nil {
			fmt.Fprintf(os.Stderr, "benchtable: %s is not there, nothing to run or to compare %s with\n", gguf, j.title)
			gguf = ""
		}
	}
	if gguf == "" && j.flags == nil {
		return nil
	}
	var reports []*bench.Report
	var entries []llamaEntry
	for i := range o.rounds {
		fmt.Fprintf(os.Stderr, "benchtable: %s, round %d of %d\n", j.name(), i+1, o.rounds)
		r := new(bench.Report)
		if err := output(ctx, r, o.runtime, j.arguments(gguf, o.repetitions)...); err != nil {
			return err
		}
		reports = append(reports, r)
		if gguf == "" || o.llama == "" {
			continue
		}
		var list []llamaEntry
		if err := output(ctx, &list, filepath.Join(o.llama, "llama-bench"), j.llamaArguments(gguf, o.repetitions)...); err != nil {
			return err
		}
		entries = append(entries, list...)
	}
	t.add(j, reports, entries)
	return nil
}

// arguments are those of runtime bench.
func (j *job) arguments(gguf string, repetitions int) []string {
	t := j.tests
	model := []string{"--shape", j.shape}
	if j.flags == nil {
		model = []string{gguf}
	}
	list := append([]string{"bench", "--json", "--quiet", "--repetitions", strconv.Itoa(repetitions),
		"--threads", t.threads, "--pp", t.pp, "--tg", t.tg, "--depth", t.depth, "--batch", t.batch}, model...)
	return append(list, j.flags...)
}

// llamaArguments are those of llama-bench.
func (j *job) llamaArguments(gguf string, repetitions int) []string {
	t := j.tests
	return []string{"-m", gguf, "-o", "json", "-r", strconv.Itoa(repetitions), "-t", t.threads, "-p", t.pp, "-n", t.tg, "-d", t.depth}
}

// output runs a program and reads the JSON that it prints.
func output(ctx context.Context, v any, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
