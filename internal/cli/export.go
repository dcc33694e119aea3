package cli

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"nibble/build"
	"nibble/convert"
	"nibble/internal/stage"
	"nibble/internal/synthetic"
	"nibble/npu"
)

// exportOptions are the flags of export.
type exportOptions struct {
	common
	source
	text exportText

	out, target, scheme, kv, linear, norm, embedding, promote, rounding string
	style, trace, shape                                                 string
	overwrite, sensitivity                                              bool
	shards, headBlock                                                   int
	minSQNR                                                             float64
	graph                                                               npu.Options
	ranges                                                              npu.RangeRule
	goal                                                                npu.Goal // of a number for promote

	schemes npu.Scheme // of scheme and kv
}

// NewExportCommand returns the command that writes phone graphs.
func NewExportCommand() *cobra.Command {
	o := new(exportOptions)
	cmd := &cobra.Command{
		Use:   "export [MODEL]",
		Short: "Write a model as quantized graphs for an NPU",
		Long: `Write a model as graphs that an NPU's tools compile: ONNX with quantizers (QDQ, opset 21), fixed shapes, a graph for prompts and one
for single tokens over one file of weights. Ranges of activations come from text that runs through the model; the graphs' own
arithmetic is then simulated on text that the ranges did not see, so that the loss is known before any device is at hand.

MODEL is a Hugging Face folder, a .safetensors file beside its config.json, or a hub id found in the local cache. Without one
the built-in demo is exported.`,
		Example: `  export                                        # the demo, into ./demo-npu-w8a16
  export --promote none                         # 8-bit weights whatever they cost
  export --scheme w4a16 --promote auto          # 4-bit weights, 8 where they cost most
  export ./Qwen3-0.6B -o ./phone --promote 40   # 16-bit weights where they help most, until the logits have 40 dB
  export ./Qwen3-0.6B -o ./phone --calib wiki.txt --context 2048 --min-sqnr 35
  export --shape spark-1.7b --calib random      # weights are made up
  export ./Qwen3-0.6B -o ./phone --style genai  # for the host of ONNX Runtime GenAI
  export lint ./phone/decode.onnx               # what a compiler for the NPU would trip over`,
		Args: noMore(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runExport(cmd, args, o) },
	}
	o.common.register(cmd)
	o.source.register(cmd)
	o.text.register(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.out, "output", "o", "", "folder to write (default: a name made of the model's and the scheme, in the current folder)")
	f.BoolVar(&o.overwrite, "overwrite", false, "replace the output folder if it is an export, and what an interrupted run left")
	f.StringVar(&o.target, "target", "npu", "npu: the only target")
	f.StringVar(&o.scheme, "scheme", "w8a16", "bits of weights and activations: "+strings.Join(npu.Schemes(), ", "))
	f.StringVar(&o.kv, "kv", "", "keys and values in uint8 (zero point 128) or int16 (symmetric; needs HTP 73 or later); default int16, with --style genai uint8")
	f.IntVar(&o.graph.Context, "context", 1024, "most tokens of a sequence, fixed in the graphs")
	f.IntVar(&o.graph.Prefill, "prefill", 128, "tokens of a prompt that run together")
	f.StringVar(&o.linear, "linear", "matmul", "matmul, conv: how products with weights are written")
	f.StringVar(&o.norm, "norm", "lp", "lp: LpNormalization, which every backend has and which drops the epsilon; rms: RMSNormalization (opset 23)")
	f.StringVar(&o.embedding, "embedding", "outside", "outside: a file of its own, for the host's processor; inside: a 16-bit table in the graphs")
	f.IntVar(&o.headBlock, "head-block", 0, "most columns of a part of the head (default: 64 MiB of weights)")
	f.IntVar(&o.shards, "shards", 0, "parts of every graph (default: as many as keep each below 2 GiB)")
	f.StringVar(&o.ranges.Method, "ranges", "minmax", "how ranges are chosen: "+strings.Join(npu.RangeMethods, ", "))
	f.Float64Var(&o.ranges.Headroom, "headroom", 2, "factor on the ranges of 16-bit activations")
	f.Float64Var(&o.ranges.Share, "percentile", 1e-5, "share of the values that --ranges percentile leaves outside")
	f.StringVar(&o.rounding, "rounding", "auto", "how weights are rounded: nearest; feedback: so that errors cancel in the outputs of the text, for which a byte a weight is kept in memory; auto: feedback where there is text, and up to 300 million parameters")
	f.StringVar(&o.promote, "promote", promoteNeeded, fmt.Sprintf("needed: w8a16 gets 16-bit weights where they pay if its logits miss %g dB, or %g %% of the likeliest tokens of a text, up to %d million parameters; none; auto: twice the bits for the matrices and caches that cost most, for 10 %% more weights at most; a number: for as many as the logits need for this SQNR in dB, prompts and single tokens, on text that is measured for that alone", float64(needed.SQNR), 100*needed.Top1, int(mostPromoted/1e6)))
	f.BoolVar(&o.sensitivity, "sensitivity", false, "quantize every tensor alone and say which costs most")
	f.Float64Var(&o.minSQNR, "min-sqnr", 30, "least SQNR of the logits in dB, for prompts and for single tokens; less is exit code 4")
	f.StringVar(&o.style, "style", "qdq", "what is written: qdq; aimet: also the float graph with encodings; genai: the folder of ONNX Runtime GenAI")
	f.StringVar(&o.trace, "trace", "", "also write tokens and logits of the first held-out sequence to this safetensors file")
	f.StringVar(&o.shape, "shape", "", "export weights that are made up, for a model of this shape: "+strings.Join(synthetic.Shapes(), ", "))
	cmd.AddCommand(newLintCommand())
	return cmd
}

// Values of flags.
const (
	feedbackRounding = "feedback"
	promoteNeeded    = "needed"
	promoteNone      = "none"
	promoteAuto      = "auto"
	mostGoal         = 100.0 // dB
)

// The styles.
const (
	qdqStyle   = "qdq"
	aimetStyle = "aimet"
	genaiStyle = "genai"
)

func (o *exportOptions) check() (err error) {
	if err := o.common.check(); err != nil {
		return err
	}
	one := func(flag, value string, of ...string) error {
		if !slices.Contains(of, value) {
			return usagef("--%s %q: want %s", flag, value, strings.Join(of, " or "))
		}
		return nil
	}
	for _, err := range []error{one("target", o.target, "npu"), one("linear", o.linear, "matmul", "conv"), one("norm", o.norm, "lp", "rms"),
		one("embedding", o.embedding, "outside", "inside"), one("rounding", o.rounding, "auto", "nearest", feedbackRounding), one("ranges", o.ranges.Method, npu.RangeMethods...),
		one("style", o.style, qdqStyle, aimetStyle, genaiStyle)} {
		if err != nil {
			return err
		}
	}
	if dB, err := strconv.ParseFloat(o.promote, 64); err == nil && dB > 0 && dB <= mostGoal {
		o.goal.SQNR = npu.Decibel(dB)
	} else if o.promote != promoteNeeded && o.promote != promoteNone && o.promote != promoteAuto {
		return usagef("--promote %q: want needed, none, auto, or dB, above 0 and up to %g", o.promote, mostGoal)
	}
	if o.kv == "" {
		o.kv = "int16"
		if o.style == genaiStyle {
			o.kv = "uint8"
		}
	}
	if o.schemes, err = npu.NewScheme(o.scheme, o.kv); err != nil {
		return coded{err, exitUsage}
	}
	g := &o.graph
	switch {
	case g.Context < 2:
		return usagef("--context %d: want 2 tokens at least", g.Context)
	case g.Prefill < 2 || g.Prefill > g.Context:
		return usagef("--prefill %d: want 2 to the context of %d tokens", g.Prefill, g.Context)
	case o.ranges.Headroom < 1 || o.ranges.Headroom > 100:
		return usagef("--headroom %g: want 1 to 100", o.ranges.Headroom)
	case o.ranges.Share < 0 || o.ranges.Share > 0.1:
		return usagef("--percentile %g: want 0 to 0.1", o.ranges.Share)
	case o.shards < 0 || o.shards > 1024:
		return usagef("--shards %d: want 0 to 1024", o.shards)
	case o.style == genaiStyle && o.kv != "uint8":
		return usagef("--kv %s: the host of --style genai slides caches of uint8 only", o.kv)
	case o.style == genaiStyle && g.Context < 2*g.Prefill:
		return usagef("--context %d: the host of --style genai wants two prefills at least, %d tokens", g.Context, 2*g.Prefill)
	case o.style == genaiStyle && o.embedding == "inside":
		return usagef("--embedding inside: the host of --style genai pads prompts with a token that only the embedding outside knows")
	case o.headBlock < 0:
		return usagef("--head-block %d: want a number of columns", o.headBlock)
	}
	g.Conv, g.RMS, g.Inside, g.HeadBlock = o.linear == "conv", o.norm == "rms", o.embedding == "inside", o.headBlock
	g.Whole = o.style == genaiStyle
	return o.text.check(g, o.shape != "")
}

// open opens the model, or makes that of the shape.
func (o *exportOptions) open(args []string) (b *build.Build, name string, err error) {
	s := shaped{shape: o.shape, format: floatFormat}
	if o.shape != "" && len(args) > 0 {
		return nil, "", usagef("--shape and MODEL exclude each other")
	}
	folder, name, _, err := s.folder(args)
	if err != nil {
		return nil, "", err
	}
	b, err = o.source.open(folder)
	return b, name, err
}

// fits refuses contexts that the model is not made for, or that the memory does not hold.
func (o *exportOptions) fits(m *npu.Model) error {
	if o.graph.Context > m.MaxPositions && !m.Stretches() {
		return usagef("--context %d: the model is made for %d tokens; --context %d is the longest that fits", o.graph.Context, m.MaxPositions, m.MaxPositions)
	}
	need := func(context int) int64 {
		g := o.graph
		g.Context = context
		return m.Memory(g, o.lanes(m))
	}
	if room, known := freeMemory(); known && need(o.graph.Context) > room.bytes {
		return room.short(need(o.graph.Context), fmt.Sprintf("to simulate a context of %d tokens", o.graph.Context),
			fmt.Sprintf("--context %d is the longest that fits", fitting(o.graph.Context, room.bytes, need)))
	}
	return nil
}

func runExport(cmd *cobra.Command, args []string, o *exportOptions) error {
	if err := cmp.Or(o.check(), reproducible()); err != nil {
		return err
	}
	if cmd.Flags().Changed("percentile") && o.ranges.Method != "percentile" {
		return usagef("--percentile goes with --ranges percentile")
	}
	if cmd.Flags().Changed("promote") && o.promote == promoteNeeded && !o.raises() {
		return usagef("--promote needed is of --scheme w8a16, and not of --shape: --promote auto, or a number of dB, gives others more bits")
	}
	b, name, err := o.open(args)
	if err != nil {
		return err
	}
	defer b.Set.Close()
	if b.Arch.Name == "generic" {
		return usagef("a graph needs the architecture's table, which --arch generic does without")
	}
	m, err := npu.NewModel(b)
	if err != nil {
		return inputError(err)
	}
	if o.out == "" {
		o.out = name + "-npu-" + o.scheme
	}
	o.out = filepath.Clean(o.out)
	o.text.defaults(&o.graph, m)
	if err := o.fits(m); err != nil {
		return err
	}
	mode := stage.Anew(o.overwrite)
	if err := stage.Check(o.out, b.Path, mode); err != nil {
		return err
	}
	unchanged, err := convert.Watch(b)
	if err != nil {
		return err
	}
	x := &exporting{exportOptions: o, cmd: cmd, build: b, model: m, name: name}
	if err := x.prepare(); err != nil {
		return err
	}
	dir, _, err := stage.Open(o.out, mode)
	if err != nil {
		return err
	}
	if err := cmp.Or(x.write(dir.Path()), unchanged()); err != nil {
		_ = dir.Abort()
		return err
	}
	if err := dir.Commit(); err != nil {
		return err
	}
	if o.trace != "" {
		raw, err := x.trace.Encode()
		if err != nil {
			return err
		}
		if err := writeWhole(o.trace, raw); err != nil {
			return err
		}
	}
	if err := x.print(); err != nil {
		return err
	}
	return x.gate()
}
