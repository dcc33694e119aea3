package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"nibble/build"
	"nibble/convert"
	"nibble/fidelity"
	"nibble/formats"
	"nibble/hf"
	"nibble/internal/stage"
	"nibble/internal/version"
	"nibble/loader"
	"nibble/quant"
	"nibble/safetensors"
)

// dequantizeOptions are the flags of dequantize.
type dequantizeOptions struct {
	common
	source
	output
	dtype   string
	against string
	dry     bool

	textCheck textCheck
	maxDelta  string
}

// NewDequantizeCommand returns the command that expands builds.
func NewDequantizeCommand() *cobra.Command {
	o := new(dequantizeOptions)
	cmd := &cobra.Command{
		Use:   "dequantize [BUILD]",
		Short: "Expand a quantized build to a plain checkpoint",
		Long: `Expand a quantized build, ours or another tool's, to a plain checkpoint: every weight as its loaders compute with it, under
the names and in the shapes of the original architecture, without quantization_config.

BUILD is a folder, a .safetensors file beside its config.json, a GGUF file, or a hub id found in the local cache. Without one the
built-in demo is quantized (awq, group 128), expanded, and measured against the original. With --against ORIGINAL every
matrix is measured: SQNR in dB, beside the figure that the build's own report states.`,
		Example: `  dequantize                                      # the whole circle on the demo
  dequantize --check builtin --check-windows 8    # the same, and both perplexities on the demo's text
  dequantize ./demo-awq-g128 -o ./plain --dtype f32
  dequantize ./build -o ./plain --against ./original`,
		Args: noMore(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runDequantize(cmd, args, o) },
	}
	o.common.register(cmd)
	o.source.register(cmd)
	o.output.register(cmd)
	f := cmd.Flags()
	f.StringVar(&o.dtype, "dtype", "bf16", "bf16, f16, f32: type of all float tensors")
	f.StringVar(&o.against, "against", "", "the original model, to measure what every matrix lost; builtin for the demo")
	o.textCheck.register(cmd, "run a text through the build and through its expansion, and fail where the perplexities differ")
	f.StringVar(&o.maxDelta, "max-delta", "0.2%", "most by which the two perplexities may differ under --check")
	f.BoolVarP(&o.dry, "dry-run", "n", false, "print every file with its exact size and write nothing")
	return cmd
}

// dtypes are the values of --dtype.
var dtypes = map[string]safetensors.DType{"bf16": safetensors.BF16, "f16": safetensors.F16, "f32": safetensors.F32}

func runDequantize(cmd *cobra.Command, args []string, o *dequantizeOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	dtype, ok := dtypes[o.dtype]
	if !ok {
		return usagef("--dtype %q: want bf16, f16 or f32", o.dtype)
	}
	maxShard, err := parseSize("max-shard-size", o.maxShard)
	if err != nil {
		return err
	}
	if err := o.textCheck.check(cmd); err != nil {
		return err
	}
	limit, err := parseDelta(o.maxDelta)
	if err != nil {
		return err
	}
	var b, original *build.Build
	if len(args) == 0 {
		var cleanUp func()
		if b, original, cleanUp, err = demoBuild(cmd.Context(), o.threads); err != nil {
			return err
		}
		defer cleanUp()
		if o.out == "" {
			o.out = "demo-awq-g128-" + o.dtype
		}
	} else {
		folder, name, err := openFloats(args)
		if err != nil {
			return err
		}
		if o.out == "" {
			o.out = name + "-" + o.dtype
		}
		if b, err = o.source.open(folder); err != nil {
			return err
		}
		defer b.Set.Close()
	}
	if o.against != "" {
		args := []string{o.against}
		if o.against == builtinText {
			args = nil
		}
		folder, _, err := openFloats(args)
		if err != nil {
			return err
		}
		if original, err = o.source.open(folder); err != nil {
			return err
		}
		defer original.Set.Close()
	}
	if err := o.textCheck.ready(b); err != nil {
		return err
	}
	x, err := convert.NewExpansion(b, dtype, maxShard)
	if err != nil {
		return inputError(err)
	}
	x.Threads, x.Against = o.threads, original
	x.Notes = append(slices.Clone(b.Notes), x.Notes...)
	if o.dry {
		notes(cmd, x.Notes)
		return printExpansion(cmd, o, x, nil, nil)
	}
	o.out = filepath.Clean(o.out)
	mode := stage.Anew(o.overwrite)
	if err := stage.Check(o.out, b.Path, mode); err != nil {
		return err
	}
	layers := x.Layers()
	show := newProgress(cmd.ErrOrStderr(), cmd.Name(), o.quiet, x.Costs(), func(job string) string { return layers[job] })
	losses, err := x.Run(cmd.Context(), o.out, mode, show.report)
	show.finish()
	if err != nil {
		return err
	}
	notes(cmd, x.Notes)
	if o.textCheck.text == "" {
		return printExpansion(cmd, o, x, losses, nil)
	}
	plain, err := openWritten(o.out)
	if err != nil {
		return err
	}
	defer plain.Set.Close()
	c, err := o.textCheck.compare(cmd, o.common, plain, b)
	if err != nil {
		return err
	}
	return cmp.Or(printExpansion(cmd, o, x, losses, c), deltaGate(c, limit))
}

// demoBuild quantizes the demo into a temporary folder.
func demoBuild(ctx context.Context, threads int) (b, original *build.Build, cleanUp func(), err error) {
	folder, _, err := openModel(nil)
	if err != nil {
		return nil, nil, nil, err
	}
	if original, err = build.Open(folder, hf.Options{}); err != nil {
		return nil, nil, nil, err
	}
	format, err := formats.ByName("awq")
	if err != nil {
		return nil, nil, nil, err
	}
	plan, err := convert.NewPlan(original, convert.Settings{Format: format, Target: loader.VLLMCPU, Threads: threads,
		Spec:    quant.Spec{Bits: 4, Group: 128, Zero: quant.Integer, Method: quant.Search, Scale: safetensors.BF16},
		Options: quant.Options{Version: version.Number()}})
	if err != nil {
		return nil, nil, nil, err
	}
	dir, err := os.MkdirTemp("", "nibble-")
	if err != nil {
		return nil, nil, nil, err
	}
	cleanUp = func() { os.RemoveAll(dir) }
	out := filepath.Join(dir, "demo-awq-g128")
	if _, err = (&convert.Run{Plan: plan, Out: out}).Quantize(ctx, nil); err == nil {
		b, err = openWritten(out)
	}
	if err != nil {
		cleanUp()
		if ctx.Err() != nil {
			err = ctx.Err() // nothing is left to resume
		}
		return nil, nil, nil, err
	}
	return b, original, cleanUp, nil
}

// printExpansion prints what was, or in a dry run would be, written.
func printExpansion(cmd *cobra.Command, o *dequantizeOptions, x *convert.Expansion, losses []*convert.Loss, c *fidelity.Comparison) error {
	if o.json {
		err := printJSON(cmd, struct {
			Output string               `json:"output"`
			Files  []convert.File       `json:"files"`
			Bytes  int64                `json:"bytes"`
			Notes  []string             `json:"notes"`
			Loss   []*convert.Loss      `json:"loss,omitempty"`
			Check  *fidelity.Comparison `json:"check,omitempty"`
		}{o.out, x.Files, x.Bytes(), append([]string{}, x.Notes...), losses, c})
		return cmp.Or(err, strays(losses))
	}
	w := cmd.OutOrStdout()
	for _, l := range losses {
		stated := ""
		if l.Stated != nil {
			stated = fmt.Sprintf("  report: %8.4f", float64(*l.Stated))
		}
		fmt.Fprintf(w, "%10.4f dB%s  %s\n", float64(l.SQNR), stated, l.Name)
	}
	printFiles(w, x.Files)
	done := "written"
	if o.dry {
		done = "nothing written"
	}
	if c != nil {
		fmt.Fprintln(w, verdict(c, "expansion"))
	}
	fmt.Fprintf(w, "%s: %s, %d matrices expanded", o.out, x.DType, x.Matrices())
	if len(losses) > 0 {
		var all quant.Noise
		for _, l := range losses {
			all.Merge(l.Noise)
		}
		fmt.Fprintf(w, ", SQNR %.2f dB against the original", all.SQNR())
	}
	fmt.Fprintf(w, "; %s\n", done)
	return strays(losses)
}

// strays fails the command where a loss is not what the build's report states.
func strays(losses []*convert.Loss) error {
	for _, l := range losses {
		if l.Strays() {
			return coded{fmt.Errorf("%s: SQNR %.4f dB, the build's report states %.4f: the original is another model, or the build was changed",
				l.Name, float64(l.SQNR), float64(*l.Stated)), exitGate}
		}
	}
	return nil
}
