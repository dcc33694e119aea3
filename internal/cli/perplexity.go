package cli

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"nibble/demo"
	"nibble/fidelity"
)

// perplexityOptions are the flags of perplexity.
type perplexityOptions struct {
	running
	windowing
}

// windowing are the flags of commands that run a text in windows.
type windowing struct {
	text               string
	stride, maxWindows int
}

func (w *windowing) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.text, "text", "", "text file to measure on (UTF-8); the demo has one of its own")
	f.IntVar(&w.stride, "stride", 0, "tokens from window to window; 0: the context, so that windows do not overlap")
	f.IntVar(&w.maxWindows, "max-windows", 0, "run only so many windows from the start of the text; 0: all")
}

// check refuses values that mean nothing for a context.
func (w *windowing) check(context int) error {
	switch {
	case context < 2:
		return usagef("--context %d: want at least 2 tokens", context)
	case w.stride < 0 || w.stride > context:
		return usagef("--stride %d: want 1 to the context, %d", w.stride, context)
	case w.maxWindows < 0:
		return usagef("--max-windows %d: want a number of windows, or 0 for all", w.maxWindows)
	}
	return nil
}

// corpus returns the text to measure on: the file, or for the demo its own text.
func corpus(path string, demoText bool) (string, error) {
	switch {
	case path != "":
		return readText(path)
	case demoText:
		return demo.Evaluation(), nil
	}
	return "", usagef("--text FILE is missing: only the demo has a text of its own")
}

// windowContext is the context of a window: as asked for, else 512 or what the models have.
func (r *running) windowContext(models ...*runner) int {
	if r.context > 0 {
		return r.context
	}
	context := 512
	for _, x := range models {
		context = min(context, x.Limit())
	}
	return context
}

// windowProgress returns a display of finished windows: a bar on a terminal, some lines elsewhere.
func windowProgress(cmd *cobra.Command, quiet bool) func(done, windows int) {
	if quiet {
		return nil
	}
	w := cmd.ErrOrStderr()
	bar := newBar(w, 1, cmd.Name())
	return func(done, windows int) {
		switch {
		case bar != nil:
			bar.ChangeMax(windows)
			_ = bar.Set(done) // a terminal that is gone is no reason to stop
		case done%max(windows/8, 1) == 0 || done == windows:
			fmt.Fprintf(w, "%s: %d of %d windows\n", cmd.Name(), done, windows)
		}
	}
}

func newPerplexityCommand() *cobra.Command {
	o := new(perplexityOptions)
	cmd := &cobra.Command{
		Use:   "perplexity [MODEL]",
		Short: "Measure how well a model predicts a text",
		Long: `Run a text through a model in windows and print the perplexity under two conventions: second half (the second half of
every window is scored, as llama-perplexity does) and all (every token but the first of a window, as scripts around
transformers do). With --stride windows overlap and every token is scored once. Each figure comes with its standard
error and a 95 % interval over the windows. A window starts with the tokens that the tokenizer puts in front of every
text (BOS), in place of its own first ones.

The model runs in f32, the reference, unless --activations names a faster mode: a8 for quantized builds and a16 for
others are what bench measures.`,
		Example: `  runtime perplexity                                     # the demo on its own text
  runtime perplexity ./model --text wiki.test.raw --context 512
  runtime perplexity ./model --text wiki.test.raw --context 1024 --stride 512 --activations a8`,
		Args: noMore(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runPerplexity(cmd, args, o) },
	}
	o.running.register(cmd, "tokens of a window (default: 512, or what the model has)")
	o.windowing.register(cmd)
	return cmd
}

// measured says what was run.
type measured struct {
	Model       string  `json:"model"`
	Tokens      int     `json:"tokens"` // of the text
	Context     int     `json:"context"`
	Stride      int     `json:"stride"`
	Front       []int32 `json:"front"` // tokens that begin every window
	Activations string  `json:"activations"`
	KV          string  `json:"kv"`
}

func runPerplexity(cmd *cobra.Command, args []string, o *perplexityOptions) error {
	if err := o.running.check(); err != nil {
		return err
	}
	text, err := corpus(o.text, len(args) == 0)
	if err != nil {
		return err
	}
	x, err := o.open(cmd, args)
	if err != nil {
		return err
	}
	defer x.close()
	context := o.windowContext(x)
	if err := o.windowing.check(context); err != nil {
		return err
	}
	if err := x.language(); err != nil {
		return err
	}
	ids, err := x.tokenizer.Encode(text, false)
	if err != nil {
		return inputError(err)
	}
	if err := enough(ids, context); err != nil {
		return err
	}
	if err := o.fit(cmd, context, x); err != nil {
		return err
	}
	p, err := fidelity.Perplexity(cmd.Context(), x.Model, ids, fidelity.Options{Context: context, Stride: o.stride,
		MaxWindows: o.maxWindows, Front: x.front, KV: o.kv, Progress: windowProgress(cmd, o.quiet)})
	if err != nil {
		return err
	}
	m := measured{Model: x.name, Tokens: len(ids), Context: context, Stride: stride(o.stride, context),
		Front: append([]int32{}, x.front...), Activations: o.activations, KV: o.cache}
	if o.json {
		return printJSON(cmd, struct {
			measured
			*fidelity.Perplexities
		}{m, p})
	}
	return printPerplexity(cmd, m, p)
}

func stride(flag, context int) int {
	if flag == 0 {
		return context
	}
	return flag
}

// enough refuses a text that is shorter than a window.
func enough(ids []int32, context int) error {
	if len(ids) < context {
		return coded{fmt.Errorf("the text has %d tokens, less than one window of %d; take a longer text or a smaller --context",
			len(ids), context), exitInput}
	}
	return nil
}

func printPerplexity(cmd *cobra.Command, m measured, p *fidelity.Perplexities) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s: %d tokens, %d windows of %d, %d apart (activations %s, cache %s)\n", m.Model, m.Tokens, p.Windows,
		m.Context, m.Stride, m.Activations, m.KV)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range []*fidelity.Score{p.SecondHalf, p.All, p.Strided} {
		if s != nil {
			fmt.Fprintf(t, "%s\tperplexity %.4f ± %.4f\t95 %%: %.4f to %.4f\t%d tokens scored\n", s.Scoring, s.Perplexity,
				s.PPLStderr, s.CI[0], s.CI[1], s.Scored)
		}
	}
	return t.Flush()
}
