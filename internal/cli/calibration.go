package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"nibble/build"
	"nibble/calib"
	"nibble/convert"
	"nibble/hf"
	"nibble/internal/kernel"
	"nibble/runtime"
	"nibble/tokenizer"
)

// calibration are the flags that say which text runs through the model while it is quantized.
type calibration struct {
	calib.Settings
	cache       string
	kernel      string
	independent bool
}

// tileKernel is the set of kernels that calibration may be told to compute with though its bits are its own.
const tileKernel = "amxbf16"

func (c *calibration) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.Source, "calib", "", "text for calibrated methods: a file or folder (txt, jsonl, json, parquet; .gz, .zst), or self: text that the model writes itself (default self)")
	f.StringVar(&c.Field, "calib-field", "", "field of rows in jsonl and parquet files (default: text, or messages)")
	f.IntVar(&c.Samples, "samples", calib.DefaultSamples, "calibration sequences")
	f.IntVar(&c.Length, "seqlen", calib.DefaultLength, "tokens in a calibration sequence")
	f.Uint64Var(&c.Seed, "calib-seed", 1, "which sequences are taken of a text, or written by the model")
	f.BoolVar(&c.Pack, "calib-pack", false, "let sequences run over the ends of documents")
	f.BoolVar(&c.Chat, "calib-chat", false, "write calibration documents with the model's chat template")
	f.StringVar(&c.cache, "calib-cache", "", "folder that keeps what later builds need not compute again (it must exist): sequences written by the model and, with --independent or --sensitivity, what every matrix receives")
	f.StringVar(&c.kernel, "calib-kernel", "", tileKernel+": calibration multiplies bfloat16 on AMX's tiles, sixteen times as many at once. Their sums have other bits: the same flags give the same build on all machines with AMX, and none on others")
	f.BoolVar(&c.independent, "independent", false, "calibrate every layer on the float model instead of on what is quantized before it, which costs quality; with --calib-cache a second build only solves, which others cannot: what a layer receives depends on how those before it are quantized")
}

// unused refuses flags about a text where no text is looked at, so that nobody takes such a build for a calibrated one.
func (c *calibration) unused(cmd *cobra.Command) error {
	for _, name := range []string{"samples", "seqlen", "calib-seed", "calib-field", "calib-pack", "calib-chat", "calib-cache", "independent"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s goes with --calib or a calibrated method", name)
		}
	}
	return nil
}

// calibration returns what the plan needs, nil if no method looks at inputs and no text is given.
func (o *quantizeOptions) calibrate(cmd *cobra.Command, b *build.Build, s *convert.Settings) error {
	c := &o.calibration
	needed := s.Spec.Calibrated() || s.Recipe.Calibrated()
	more := ""
	if c.kernel != "" {
		if c.kernel != tileKernel {
			return usagef("--calib-kernel %s: it can be %s", c.kernel, tileKernel)
		}
		if !slices.Contains(kernel.All(), tileKernel) {
			_, reason := kernel.AMX()
			return usagef("--calib-kernel %s: it needs AMX, and here %s", c.kernel, reason)
		}
		if !needed && c.Source == "" {
			return usagef("--calib-kernel goes with --calib or a calibrated method")
		}
		more = ", kernels " + tileKernel
	}
	if c.Source == "" {
		if !needed {
			if o.budget.asked() && o.budget.from == "" { // whose analysis looks at one
				return nil
			}
			return c.unused(cmd)
		}
		c.Source = calib.SelfSource
	}
	switch {
	case c.Samples < 1: // with calib 0 is the default
		return usagef("--samples %d: want 1 or more", c.Samples)
	case c.Length < 1:
		return usagef("--seqlen %d: want 2 or more", c.Length)
	}
	if err := c.Settings.Check(); err != nil {
		return coded{err, exitUsage}
	}
	switch {
	case b.Arch.Name == "generic":
		return usagef("calibration runs the model, which --arch generic cannot; use --method search")
	case b.Arch.Refused != nil:
		return inputError(b.Arch.Refused)
	}
	l, err := language(b)
	if err != nil {
		return err
	}
	label := c.Source
	if label != calib.SelfSource {
		if _, err := os.Stat(label); err != nil {
			return inputError(err)
		}
		label = filepath.Base(filepath.Clean(label))
	}
	if c.cache != "" {
		if info, err := os.Stat(c.cache); err != nil || !info.IsDir() {
			return inputError(cmp.Or(err, fmt.Errorf("--calib-cache %s: not a folder", c.cache)))
		}
	}
	s.Calibration = &convert.Calibration{Independent: c.independent, Kernel: c.kernel, Cache: c.cache,
		Reused: func(file string) {
			if !o.quiet {
				notes(cmd, []string{"what matrices receive is read from " + file})
			}
		},
		Settings: fmt.Sprintf("%s, %d x %d tokens, seed %d%s", label, c.Samples, c.Length, c.Seed, more),
		Load:     func(ctx context.Context) (*calib.Sequences, error) { return o.sequences(ctx, cmd, b, l) }}
	return nil
}

// sequences takes them from the text, or lets the model write them.
func (o *quantizeOptions) sequences(ctx context.Context, cmd *cobra.Command, b *build.Build, l *calib.Language) (*calib.Sequences, error) {
	c := &o.calibration
	if c.Source != calib.SelfSource {
		q, err := calib.Load(ctx, l, c.Settings)
		if err != nil {
			return nil, inputError(err)
		}
		return q, nil
	}
	var key string
	if c.cache != "" {
		content, err := convert.SourceDigest(b)
		if err != nil {
			return nil, inputError(err)
		}
		key = calib.Key(content, c.Settings)
		q, err := calib.Saved(c.cache, key)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return q, err
		}
	}
	if most, _, err := o.maxMemory(); err != nil {
		return nil, err
	} else if need := weightMemory(b); o.memory != "" && need > most {
		return nil, room{most, "--max-memory allows"}.short(need, "the model", "to have it write its calibration text allow more, or take a text, --calib FILE")
	}
	m, err := loadModel(b, runtime.Config{Mode: runtime.A16, Threads: o.threads})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	show := newCounter(cmd, o.quiet, "the model writes its calibration text", c.Samples*c.Length)
	q, err := calib.Self(ctx, m, l, c.Settings, show.report)
	show.finish()
	if err == nil && c.cache != "" {
		err = q.Save(c.cache, key)
	}
	return q, err
}

// language returns how a model reads and writes text.
func language(b *build.Build) (*calib.Language, error) {
	t, err := tokenizer.Load(b.FS)
	if err != nil {
		return nil, inputError(fmt.Errorf("calibration: %w", err))
	}
	if e := b.Row(hf.Embedding); e != nil && t.Size() > e.Out() {
		return nil, inputError(fmt.Errorf("calibration: the tokenizer has %d tokens, the model's embedding %d rows: they do not belong together", t.Size(), e.Out()))
	}
	l := &calib.Language{Tokenizer: t}
	if l.Ends, err = endTokens(b, "the model"); err != nil {
		return nil, err
	}
	l.Chat, err = tokenizer.LoadChat(b.FS)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return l, inputError(err)
}
