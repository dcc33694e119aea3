package cli

import (
	"fmt"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nibble/bench"
	"nibble/build"
	"nibble/internal/kernel"
	"nibble/internal/machine"
	"nibble/internal/version"
	"nibble/runtime"
	"nibble/safetensors"
)

// benchOptions are the flags of bench.
type benchOptions struct {
	running
	shaped
	lists struct{ prompts, decodes, depths, batches, threads string }

	repetitions int
	profile     bool

	tests []bench.Test
	sweep []int // numbers of threads
	auto  bool  // activations are those that are fastest for the build
}

func newBenchCommand() *cobra.Command {
	o := new(benchOptions)
	cmd := &cobra.Command{
		Use:   "bench [MODEL]",
		Short: "Measure speed, and how close it is to what the machine can do",
		Long: `Measure tokens per second: of prompts that are run at once (pp512) and of decoding (tg128), with --batch by several
sequences together, with --depth behind tokens that are in the cache already. Every test runs once unmeasured, then
--repetitions times; mean, standard deviation and median are of the rates of all sequences together.

The same run finds out what as many threads can do at most: how fast they read memory in a stream, and how many
multiply-adds of int8 and of bfloat16 they do from registers. Decoding is held against the first (GB/s: weights, once for
all sequences, and caches), prompts against the peak of the arithmetic that their matrices use, both at the median.

Inputs of matrices (--activations) are a8 for quantized builds and a16 for others unless something else is asked for, the
fast path of each; keys and values (--kv) are bf16. MODEL is a folder, a file or a hub id as everywhere; with --shape there
is no checkpoint at all: config.json comes from a known model or a file, and weights are made up. Without either it is the
demo. Other work on the machine spoils the figures: how busy it was before the start is in the header, and a warning from
10 % on.`,
		Example: `  runtime bench                                                # the demo
  runtime bench ./build --threads 1,2 --cpus 0-1
  runtime bench ./build --pp 512,128 --tg 128 --depth 0,4096 --batch 1,8
  runtime bench ./build --pp 0 --profile                       # what a decoding step spends its time on
  runtime bench --shape tinyllama-1.1b --format gptq --threads 1,2
  runtime bench --shape ./config.json --format cpu_int4 --group 64 --json | jq .tests`,
		Args: noMore(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runBench(cmd, args, o) },
	}
	o.registerPrinting(cmd)
	o.registerModel(cmd, "auto", "auto (a8 for quantized builds, else a16), ", "bf16")
	o.shaped.register(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.lists.threads, "threads", "t", strconv.Itoa(goruntime.GOMAXPROCS(0)), "worker threads; 1,2 measures with each")
	f.StringVar(&o.lists.prompts, "pp", "512", "tokens of prompts; 0: none")
	f.StringVar(&o.lists.decodes, "tg", "128", "tokens to decode; 0: none")
	f.StringVar(&o.lists.depths, "depth", "0", "tokens in the cache before every test")
	f.StringVar(&o.lists.batches, "batch", "1", "sequences to decode together")
	f.IntVarP(&o.repetitions, "repetitions", "r", 5, "measured repetitions of every test")
	f.BoolVar(&o.profile, "profile", false, "repeat every test once more and show what its steps spend their time on")
	return cmd
}

// numbers reads a list like 512,128, whose values are least to most.
func numbers(flag, list string, least, most int) (values []int, err error) {
	if list == "" && least == 0 {
		return nil, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < least || n > most {
			return nil, usagef("--%s %q: want numbers from %d to %d, as in 1,2", flag, list, least, most)
		}
		values = append(values, n)
	}
	return values, nil
}

// check reads the flags and refuses values that no flag has.
func (o *benchOptions) check(cmd *cobra.Command, args []string) error {
	const longest, widest, mostThreads, mostRepetitions = 1 << 24, 1 << 10, 1 << 12, 1000
	var prompts, decodes, depths, batches []int
	for _, x := range []struct {
		to          *[]int
		flag, list  string
		least, most int
	}{
		{&prompts, "pp", o.lists.prompts, 0, longest},
		{&decodes, "tg", o.lists.decodes, 0, longest},
		{&depths, "depth", o.lists.depths, 0, longest},
		{&batches, "batch", o.lists.batches, 1, widest},
		{&o.sweep, "threads", o.lists.threads, 1, mostThreads},
	} {
		var err error
		if *x.to, err = numbers(x.flag, x.list, x.least, x.most); err != nil {
			return err
		}
	}
	if len(depths) == 0 {
		depths = []int{0}
	}
	o.tests = bench.Tests(prompts, decodes, batches, depths)
	switch {
	case len(o.tests) == 0:
		return usagef("--pp and --tg leave nothing to measure")
	case o.repetitions < 1 || o.repetitions > mostRepetitions:
		return usagef("--repetitions %d: want 1 to %d", o.repetitions, mostRepetitions)
	}
	if err := o.shaped.check(cmd, args); err != nil {
		return err
	}
	o.threads = slices.Max(o.sweep)
	if o.auto = o.activations == "auto"; o.auto {
		o.activations = "a8"
	}
	return o.running.check()
}

// fits refuses tests whose sequences are longer than the model is made for.
func (o *benchOptions) fits(b *build.Build, name string) error {
	limit := b.Arch.MaxPositions
	for _, t := range o.tests {
		flag, n := "tg", t.Decode
		if t.Prompt > 0 {
			flag, n = "pp", t.Prompt
		}
		switch {
		case t.Context() <= limit || b.Arch.Stretches():
		case n > limit || t.Depth == 0:
			return usagef("--%s %d: %s is made for %d tokens; --%s %d is the longest that fits", flag, n, name, limit, flag, limit)
		default:
			return usagef("--depth %d with %s: %s is made for %d tokens; --depth %d is the deepest that fits", t.Depth,
				bench.Test{Prompt: t.Prompt, Decode: t.Decode}, name, limit, limit-n)
		}
	}
	return nil
}

func runBench(cmd *cobra.Command, args []string, o *benchOptions) error {
	if err := o.check(cmd, args); err != nil {
		return err
	}
	r := &bench.Report{Version: version.String(), Go: goruntime.Version(), CPU: machine.CPU(), Kernels: kernel.Names(), Threads: o.sweep,
		CPUs: append([]int{}, o.cpu...), KV: o.cache, Repetitions: o.repetitions}
	r.Kernel, _ = kernel.Active()
	start := time.Now()
	b, err := o.build(cmd, args, r)
	if err != nil {
		return err
	}
	defer b.Set.Close()
	opened := time.Since(start)
	if err := o.fits(b, r.Model); err != nil {
		return err
	}
	o.busy(cmd, r)
	if o.auto && len(b.Linears) == 0 {
		o.activations, o.mode = "a16", runtime.A16
	}
	r.Activations = o.activations
	most := o.threads
	for _, o.threads = range o.sweep {
		load, err := o.measure(cmd, b, r)
		if err != nil {
			return err
		}
		if o.threads == most {
			r.Load = (opened + load).Seconds()
		}
		debug.FreeOSMemory() // of the model that is gone
	}
	r.Peak, _ = machine.PeakMemory()
	if err := o.hold(cmd, r, most); err != nil {
		return err
	}
	if o.json {
		return printJSON(cmd, r)
	}
	return r.Print(cmd.OutOrStdout())
}

// busy finds out what else the processors do.
func (o *benchOptions) busy(cmd *cobra.Command, r *bench.Report) {
	const while, most = 500 * time.Millisecond, 0.1
	share, known := machine.Busy(o.cpu, while)
	if !known {
		return
	}
	r.Busy = &share
	if share > most {
		o.say(cmd, "warning: the processors are %.0f %% busy with something else, which spoils the figures", 100*share)
	}
}

// say prints a line of progress.
func (o *benchOptions) say(cmd *cobra.Command, format string, args ...any) {
	if !o.quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), cmd.Name()+": "+format+"\n", args...)
	}
}

// build opens the model and says what it is.
func (o *benchOptions) build(cmd *cobra.Command, args []string, r *bench.Report) (*build.Build, error) {
	folder, name, parameters, err := o.shaped.folder(args)
	if err != nil {
		return nil, err
	}
	b, err := o.source.open(folder)
	if err != nil {
		return nil, err
	}
	if !o.quiet {
		notes(cmd, b.Notes)
	}
	in := inspect(b, name)
	if parameters == 0 {
		parameters = in.Original
	}
	r.Model, r.Format, r.Bytes, r.Parameters = name, in.Format, in.Bytes, parameters
	r.BitsPerWeight = 8 * float64(r.Bytes) / float64(max(parameters, 1))
	for _, m := range slices.Backward(in.Matrices) { // the first that is quantized, else the first
		if d, ok := safetensors.ParseDType(m.DType); ok && m.Bits == 0 && r.Group == 0 {
			r.Bits = d.Bits()
		} else if m.Bits > 0 {
			r.Bits, r.Group = m.Bits, m.Group
		}
	}
	return b, nil
}

// measure runs all tests with one number of threads, and returns the time to the first token of a build that is open.
func (o *benchOptions) measure(cmd *cobra.Command, b *build.Build, r *bench.Report) (load time.Duration, err error) {
	start := time.Now()
	m, err := loadModel(b, o.config())
	if err != nil {
		return 0, err
	}
	defer m.Close()
	s, err := m.NewSession(1, o.kv)
	if err != nil {
		return 0, err
	}
	if err := m.ForwardContext(cmd.Context(), []runtime.Input{{Session: s, Tokens: []int32{0}}}, func(int, int, []float32) {}); err != nil {
		return 0, err
	}
	load = time.Since(start)
	r.Weights = m.Bytes()
	o.say(cmd, "--threads %d: %s of weights in %.2f s", o.threads, megabytes(r.Weights), load.Seconds())
	int8 := len(b.Linears) > 0 && (o.mode == runtime.A8 || o.mode == runtime.A8Row)
	for _, t := range o.tests {
		goruntime.GC() // of the last test's caches
		cache := int64(t.Batch) * m.CacheBytes(t.Context(), o.kv)
		if room, known := freeMemory(); known && cache > room.bytes {
			return 0, room.short(cache, fmt.Sprintf("the cache of %s", t), "take a smaller --depth or --batch")
		}
		r.Cache = max(r.Cache, cache)
		x, err := bench.Run(cmd.Context(), m, t, bench.Options{KV: o.kv, Repetitions: o.repetitions, Int8: int8, Profile: o.profile})
		if err != nil {
			return 0, err
		}
		x.Threads = o.threads
		r.Tests = append(r.Tests, x)
		o.say(cmd, "--threads %d: %s: %.2f tokens/s", o.threads, t, x.Median)
	}
	return load, nil
}

// hold measures the ceilings and holds the tests against them.
func (o *benchOptions) hold(cmd *cobra.Command, r *bench.Report, most int) error {
	ceilings := map[int]bench.Ceilings{}
	room, known := freeMemory()
	if !known {
		room.bytes = 1 << 30
	}
	for _, n := range o.sweep {
		o.say(cmd, "--threads %d: ceilings", n)
		var err error
		if ceilings[n], err = bench.Measure(n, o.cpu, room.bytes); err != nil {
			return err
		}
	}
	for _, x := range r.Tests {
		x.Hold(ceilings[x.Threads])
	}
	r.Ceilings = ceilings[most]
	return nil
}
