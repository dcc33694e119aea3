package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"nibble/build"
	"nibble/fidelity"
	"nibble/runtime"
	"nibble/tokenizer"
)

// builtinText is the value of --check for the demo's text.
const builtinText = "builtin"

// textCheck are the flags of commands that can measure what they wrote on a text.
type textCheck struct {
	text, activations string
	windows           int

	mode runtime.Mode
}

func (t *textCheck) register(cmd *cobra.Command, usage string) {
	f := cmd.Flags()
	f.StringVar(&t.text, "check", "", usage+": a file, or builtin for the demo's")
	f.StringVar(&t.activations, "activations", "a16", "how the build computes under --check: f32, a16 (bf16), a8 (int8 per group), a8-row (int8 per token)")
	f.IntVar(&t.windows, "check-windows", 0, "run only so many windows of 512 tokens from the start of the text; 0: all")
}

func (t *textCheck) check(cmd *cobra.Command) error {
	if t.text == "" && cmd.Flags().Changed("check") {
		return usagef("--check: no text given; name a file, or builtin for the demo's")
	}
	if t.text == "" {
		for _, name := range []string{"check-windows", "activations", "max-delta"} {
			if cmd.Flags().Changed(name) {
				return usagef("--%s goes with --check TEXT", name)
			}
		}
	}
	var ok bool
	if t.mode, ok = runtime.Modes[t.activations]; !ok {
		return usagef("--activations %q: want %s", t.activations, names(runtime.Modes))
	}
	if t.windows < 0 {
		return usagef("--check-windows %d: want a number of windows, or 0 for all", t.windows)
	}
	return nil
}

// ready finds out before the work starts whether a model can be measured at all.
func (t *textCheck) ready(b *build.Build) error {
	if t.text == "" {
		return nil
	}
	if b.Arch.Name == "generic" {
		return usagef("--check runs the model, which --arch generic cannot")
	}
	if b.Arch.Refused != nil {
		return inputError(b.Arch.Refused)
	}
	if _, err := tokenizer.Load(b.FS); err != nil {
		return inputError(fmt.Errorf("--check: %w", err))
	}
	_, err := t.corpus()
	return err
}

// corpus reads the text.
func (t *textCheck) corpus() (string, error) {
	if t.text == builtinText {
		return corpus("", true)
	}
	return corpus(t.text, false)
}

// compare runs the text through a reference, in f32, and a build, in windows of 512 tokens or what the models have. It
// does not close the builds.
func (t *textCheck) compare(cmd *cobra.Command, flags common, reference, b *build.Build) (*fidelity.Comparison, error) {
	text, err := t.corpus()
	if err != nil {
		return nil, err
	}
	r, err := newRunner(reference, "the reference", runtime.KVF32, runtime.Config{Threads: flags.threads})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	x, err := newRunner(b, "the build", runtime.KVF32, runtime.Config{Mode: t.mode, Threads: flags.threads})
	if err != nil {
		return nil, err
	}
	defer x.Close()
	o := compareOptions{running: running{common: flags}, windowing: windowing{maxWindows: t.windows}}
	c, err := o.compare(cmd, r, x, text)
	if err != nil {
		return nil, err
	}
	return c.Comparison, nil
}

// verdict is a comparison in one line.
func verdict(c *fidelity.Comparison, reference string) string {
	return fmt.Sprintf("perplexity %.4f of the build, %.4f of the %s (%+.3f %%), KL divergence %.5f, top-1 agreement %.2f %%, %d positions in %d windows",
		c.Build, c.Reference, reference, 100*(c.Ratio-1), c.KLMean, 100*c.Top1, c.Positions, c.Windows)
}

// parseDelta reads the value of --max-delta, "0.2%" or "0.002".
func parseDelta(s string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0) || math.IsInf(v, 0) {
		return 0, usagef("--max-delta %q: want a share like 0.2%%", s)
	}
	return v, nil
}

// deltaGate is nil if the perplexities differ by at most the share limit.
func deltaGate(c *fidelity.Comparison, limit float64) error {
	if c.Delta() <= limit {
		return nil
	}
	return coded{fmt.Errorf("--max-delta %.4g%% missed: perplexity %.4f of the build and %.4f of the reference differ by %.4f%%",
		100*limit, c.Build, c.Reference, 100*c.Delta()), exitGate}
}
