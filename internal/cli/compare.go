package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"nibble/fidelity"
	"nibble/runtime"
)

// compareOptions are the flags of compare.
type compareOptions struct {
	running
	windowing
	prompts                   string
	greedy                    int
	half                      bool // score the second half of windows only
	maxKL, maxRatio, minAgree float64
}

func newCompareCommand() *cobra.Command {
	o := new(compareOptions)
	cmd := &cobra.Command{
		Use:   "compare [REF] [BUILD]",
		Short: "Measure what a build lost against its reference",
		Long: `Run a text through a reference and a build in lockstep and print, each with a 95 % interval: mean, median and 99th
percentile of the KL divergence over the whole vocabulary, both perplexities and their ratio, how often both have the
same likeliest token, and how many prompts both continue with the very same tokens. Every token but the first of a window is
scored, with --second-half those that were predicted from at least half a window.

--activations and --kv are those of the build, so that a8 predicts what an int8 server loses, f32 unless they are given
(bench takes a8 for quantized builds); the reference always runs in f32, which takes most of the time. With one argument the reference is the demo; with none the build is the demo quantized (awq, group 128). The exit
code is 4 if one of --max-kl, --max-ppl-ratio and --min-top1 is missed; the figures are printed all the same.`,
		Example: `  runtime compare --max-windows 8                        # the demo against its own awq build
  runtime compare ./model ./model-awq-g128 --text wiki.test.raw --activations a8
  runtime compare ./model ./build --text wiki.test.raw --max-windows 20 --second-half --activations a16
  runtime compare ./model ./build --text t.txt --json --max-kl 0.05 --min-top1 0.9`,
		Args: noMore(2),
		RunE: func(cmd *cobra.Command, args []string) error { return runCompare(cmd, args, o) },
	}
	o.running.register(cmd, "tokens of a window (default: 512, or what the models have)")
	o.windowing.register(cmd)
	f := cmd.Flags()
	f.StringVar(&o.prompts, "prompts", "", "file of prompts to continue, one a line (default: 12 built-in ones)")
	f.BoolVar(&o.half, "second-half", false, "score the second half of every window only, as llama-perplexity does")
	f.IntVar(&o.greedy, "greedy", 64, "tokens by which every prompt is continued; 0: leave this out")
	f.Float64Var(&o.maxKL, "max-kl", 0, "exit code 4 if the mean KL divergence is larger")
	f.Float64Var(&o.maxRatio, "max-ppl-ratio", 0, "exit code 4 if perplexity of the build over that of the reference is larger")
	f.Float64Var(&o.minAgree, "min-top1", 0, "exit code 4 if the share of equal likeliest tokens (0 to 1) is smaller")
	return cmd
}

func (o *compareOptions) check() error {
	if err := o.running.check(); err != nil {
		return err
	}
	if o.half && o.stride > 0 {
		return usagef("--second-half goes with windows that do not overlap: leave --stride out")
	}
	if o.greedy < 0 {
		return usagef("--greedy %d: want a number of tokens, or 0 to leave prompts out", o.greedy)
	}
	if o.greedy == 0 && o.prompts != "" {
		return usagef("--prompts %s: --greedy 0 leaves prompts out", o.prompts)
	}
	for name, v := range map[string]float64{"max-kl": o.maxKL, "max-ppl-ratio": o.maxRatio, "min-top1": o.minAgree} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return usagef("--%s %g: want a number from 0", name, v)
		}
	}
	if o.minAgree > 1 {
		return usagef("--min-top1 %g: want a share from 0 to 1", o.minAgree)
	}
	return nil
}

// openBoth loads both models. cleanUp removes what was made for them, after they are closed.
func (o *compareOptions) openBoth(cmd *cobra.Command, args []string) (reference, b *runner, cleanUp func(), err error) {
	exact := o.running
	exact.mode, exact.kv = runtime.F32, runtime.KVF32
	cleanUp = func() {}
	switch len(args) {
	case 0:
		built, original, remove, err := demoBuild(cmd.Context(), o.threads)
		if err != nil {
			return nil, nil, nil, err
		}
		if reference, err = newRunner(original, demoName, exact.kv, exact.config()); err == nil {
			b, err = newRunner(built, demoName+"-awq-g128", o.kv, o.config())
		}
		if err != nil {
			remove()
		}
		return reference, b, remove, err
	case 1:
		reference, err = exact.open(cmd, nil)
	case 2:
		reference, err = exact.open(cmd, args[:1])
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if b, err = o.open(cmd, args[len(args)-1:]); err != nil {
		reference.close()
	}
	return reference, b, cleanUp, err
}

// compared is what compare prints.
type compared struct {
	Reference string `json:"reference"`
	measured
	*fidelity.Comparison
}

func runCompare(cmd *cobra.Command, args []string, o *compareOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	text, err := corpus(o.text, len(args) < 2)
	if err != nil {
		return err
	}
	reference, b, cleanUp, err := o.openBoth(cmd, args)
	if err != nil {
		return err
	}
	defer cleanUp()
	defer b.close()
	defer reference.close()
	c, err := o.compare(cmd, reference, b, text)
	if err != nil {
		return err
	}
	if o.greedy > 0 {
		if c.Greedy, err = o.continuations(cmd, reference, b); err != nil {
			return err
		}
	}
	if o.json {
		err = printJSON(cmd, c)
	} else {
		err = printComparison(cmd, c)
	}
	if err != nil {
		return err
	}
	return o.gates(cmd, c.Comparison)
}

// compare measures on a text.
func (o *compareOptions) compare(cmd *cobra.Command, reference, b *runner, text string) (*compared, error) {
	context := o.windowContext(reference, b)
	if err := o.windowing.check(context); err != nil {
		return nil, err
	}
	if err := fidelity.Compatible(reference.Model, b.Model); err != nil {
		return nil, inputError(err)
	}
	if err := reference.language(); err != nil {
		return nil, err
	}
	if name := otherTokenizer(reference, b); name != "" {
		notes(cmd, []string{fmt.Sprintf("%s of %s is not that of %s; the text is cut as the latter cuts it", name, b.name, reference.name)})
	}
	ids, err := reference.tokenizer.Encode(text, false)
	if err != nil {
		return nil, inputError(err)
	}
	if err := enough(ids, context); err != nil {
		return nil, err
	}
	if err := o.fit(cmd, context, reference, b); err != nil {
		return nil, err
	}
	c, err := fidelity.Compare(cmd.Context(), reference.Model, b.Model, ids, fidelity.Options{Context: context, Stride: o.stride,
		MaxWindows: o.maxWindows, SecondHalf: o.half, Front: reference.front, KV: b.kv, Progress: windowProgress(cmd, o.quiet)})
	if err != nil {
		return nil, err
	}
	return &compared{reference.name, measured{Model: b.name, Tokens: len(ids), Context: context, Stride: stride(o.stride, context),
		Front: append([]int32{}, reference.front...), Activations: o.activations, KV: o.cache}, c}, nil
}

// otherTokenizer returns the tokenizer file that both models have and that differs, or "".
func otherTokenizer(reference, b *runner) string {
	for _, name := range []string{"tokenizer.json", "tokenizer.model"} {
		x, err := fs.ReadFile(reference.build.FS, name)
		y, err2 := fs.ReadFile(b.build.FS, name)
		if err == nil && err2 == nil && !bytes.Equal(x, y) {
			return name
		}
	}
	return ""
}

// continuations lets both models continue prompts.
func (o *compareOptions) continuations(cmd *cobra.Command, reference, b *runner) (*fidelity.Greedy, error) {
	texts := fidelity.Prompts()
	if o.prompts != "" {
		raw, err := readText(o.prompts)
		if err != nil {
			return nil, err
		}
		texts = nil
		for line := range strings.Lines(raw) {
			if line = strings.TrimRight(line, "\r\n"); line != "" {
				texts = append(texts, line)
			}
		}
		if texts == nil {
			return nil, coded{fmt.Errorf("%s: no prompts", o.prompts), exitInput}
		}
	}
	var prompts [][]int32
	for _, s := range texts {
		ids, err := reference.begin(s)
		if err != nil {
			return nil, err
		}
		prompts = append(prompts, ids)
	}
	stop, err := endTokens(reference.build, reference.name)
	if err != nil {
		return nil, err
	}
	return fidelity.CompareGreedy(cmd.Context(), reference.Model, b.Model, prompts, o.greedy, stop, b.kv)
}

func printComparison(cmd *cobra.Command, c *compared) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s against %s: %d positions in %d windows of %d, scoring %s (build: activations %s, cache %s)\n", c.Model,
		c.Reference, c.Positions, c.Windows, c.Context, c.Scoring, c.Activations, c.KV)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, value float64, x fidelity.Interval) {
		fmt.Fprintf(t, "%s\t"+format+"\t95 %%: "+format+" to "+format+"\n", name, value, x[0], x[1])
	}
	line("KL mean", "%.6f", c.KLMean, c.KLMeanCI)
	line("KL median", "%.6f", c.KLMedian, c.KLMedianCI)
	line("KL p99", "%.6f", c.KLP99, c.KLP99CI)
	line("perplexity, reference", "%.4f", c.Comparison.Reference, c.ReferenceCI)
	line("perplexity, build", "%.4f", c.Build, c.BuildCI)
	line("perplexity ratio", "%.6f", c.Ratio, c.RatioCI)
	line("top-1 agreement", "%.4f", c.Top1, c.Top1CI)
	if g := c.Greedy; g != nil {
		line(fmt.Sprintf("greedy matches of %d", g.Prompts), "%.1f", float64(g.Matches), g.MatchesCI)
		line(fmt.Sprintf("greedy prefix of %d", g.Tokens), "%.1f", g.Prefix, g.PrefixCI)
	}
	return t.Flush()
}

// gates returns what was missed.
func (o *compareOptions) gates(cmd *cobra.Command, c *fidelity.Comparison) error {
	var missed []string
	gate := func(flag string, bad bool, limit, value float64) {
		if bad && cmd.Flags().Changed(flag) {
			missed = append(missed, fmt.Sprintf("--%s %g missed: %.6g", flag, limit, value))
		}
	}
	gate("max-kl", c.KLMean > o.maxKL, o.maxKL, c.KLMean)
	gate("max-ppl-ratio", c.Ratio > o.maxRatio, o.maxRatio, c.Ratio)
	gate("min-top1", c.Top1 < o.minAgree, o.minAgree, c.Top1)
	if missed != nil {
		return coded{errors.New(strings.Join(missed, "; ")), exitGate}
	}
	return nil
}
