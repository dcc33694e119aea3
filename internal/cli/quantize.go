package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"nibble/build"
	"nibble/calib"
	"nibble/convert"
	"nibble/fidelity"
	"nibble/formats"
	"nibble/gguf/view"
	"nibble/internal/stage"
	"nibble/loader"
	"nibble/quant"
)

// quantizeOptions are the flags of quantize.
type quantizeOptions struct {
	common
	source
	output

	format, scheme, method string
	bits, group            int
	sym, asym              bool
	head, embedding        string
	recipe, loader         string
	parallel               int
	padMLP, unfit          string
	checkpointFormat       string
	scale, signed          string
	memory                 string
	nonFinite, dry, resume bool
	requantize             bool
	textCheck              textCheck
	calibration            calibration
	gguf                   ggufOptions
	sensitivity            sensitivity
	parts                  partOptions
	automatic              automatic
	budget                 budget

	command string // that makes the same build, for the report
}

// NewQuantizeCommand returns the command that writes builds.
func NewQuantizeCommand() *cobra.Command {
	o := new(quantizeOptions)
	cmd := &cobra.Command{
		Use:   "quantize [MODEL]",
		Short: "Turn a bf16 checkpoint into a 4-bit or 8-bit build",
		Long: `Turn a bf16 (f16, f32) checkpoint into a build that a server loads: GPTQ, AWQ, compressed-tensors, cpu_int4 or GGUF.

MODEL is a Hugging Face folder, a .safetensors file beside its config.json, a GGUF file, or a hub id found in the local cache.
Without one the built-in demo model is quantized. The plan is made and checked against the rules of the target loader
before any weight is read; the output appears under its name only when it is whole; an interrupted run (exit code
130) goes on with --resume.

Methods from the cheapest to the best: rtn rounds to nearest; search (the default) tries many scales and refines, in seconds; shrink is the
search of other cpu_int4 exporters. With text, search weighs errors by the inputs of every matrix; awq scales inputs and weights
against one another first (in groups of 32 that did not pay); gptq passes errors on to columns that are still to come; best does both and
makes up for what the layers before have lost. Those run the text (--calib, or what the model writes itself) through the model: about as long as a prompt of all its
tokens, best twice that.`,
		Example: `  quantize --format awq --group 128                       # the demo, into ./demo-awq-g128
  quantize --scheme W8A8 --dry-run                        # every file with its exact size, nothing written
  quantize ./Llama-3.2-1B -o ./out --format gptq          # your model: symmetric, for vLLM's AMX path
  quantize Qwen/Qwen3-0.6B --format cpu_int4 --group 64   # a hub id, from the local cache
  quantize --format gptq --method gptq --samples 16       # the demo, calibrated on text that it writes itself
  quantize ./model --method best --calib text.jsonl       # the best build, from text of your own
  quantize ./model --method gptq --independent --calib text.jsonl --calib-cache ./cache    # the second such build only solves
  quantize --format auto --priority fidelity              # the demo, as this machine runs it with the least loss
  quantize ./model --recipe recipe.yaml --resume          # go on after an interruption
  quantize --format gguf --type q4_k_m                    # the demo, into ./demo-q4_k_m.gguf
  quantize ./model --format gguf --type q4_0 --calib wiki.txt -o model.gguf
  quantize ./model --format gguf --type q4_k_m --method best --calib wiki.txt
  quantize ./model --format gguf --write-imatrix weights.gguf --calib wiki.txt
  quantize --format gptq -o big --part 0/2                # the first half of the work, here or on another machine;
  quantize --format gptq -o big --part 1/2                # the second;
  quantize --format gptq -o big --merge                   # and the build, the same bytes as in one run
  quantize --sensitivity demo-sensitivity.json            # no build: what quantizing costs each layer of the demo
  quantize --format gptq --target-bpw 5.5 --samples 16    # the demo in this size with the least loss, by what each layer costs
  quantize ./model --target-size 900MB --sensitivity-from model.json --dry-run
  quantize --format gguf --target-bpw 4.6 --samples 16    # a GGUF file of this size: the type of every tensor by what it costs`,
		Args: noMore(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runQuantize(cmd, args, o) },
	}
	o.common.register(cmd)
	o.source.register(cmd)
	o.output.register(cmd)
	var names, targets []string
	for _, f := range formats.All {
		names = append(names, f.Name())
	}
	for _, t := range loader.Targets {
		targets = append(targets, string(t))
	}
	f := cmd.Flags()
	f.StringVarP(&o.format, "format", "f", "awq", strings.Join(append(names, ggufFormat), ", ")+", or auto: what suits the machine, see runtime probe")
	f.StringVar(&o.scheme, "scheme", "", "preset, implies --format compressed-tensors: W4A16, W4A16_ASYM, W8A16, W8A8 (or INT8, which is the same)")
	f.IntVarP(&o.group, "group", "g", 128, "weights that share a scale, -1 for whole rows")
	f.IntVarP(&o.bits, "bits", "b", 4, "bits of a weight: 4, or 8 where the format has it")
	f.StringVarP(&o.method, "method", "m", quant.Search, "how codes are found, from the cheapest to the best: "+strings.Join(quant.Methods, ", "))
	f.BoolVar(&o.sym, "sym", false, "symmetric grid")
	f.BoolVar(&o.asym, "asym", false, "grid with zero points")
	f.StringVar(&o.head, "lm-head", "", "quantize, keep: the output head; a tied one is untied for it (default: as the target loads best)")
	f.StringVar(&o.embedding, "embedding", "", "quantize, keep: the input embedding (default: quantized for cpu_int4 only)")
	f.StringVar(&o.recipe, "recipe", "", "YAML file with rules for single modules")
	f.StringVar(&o.loader, "target-loader", string(loader.VLLMCPU), "whose rules the build must keep: "+strings.Join(targets, ", "))
	f.IntVar(&o.parallel, "tensor-parallel", 1, "ranks that will share the model; every rank's slice must fit")
	f.StringVar(&o.padMLP, "pad-mlp", "", "auto or a width: pad the MLP with zeros, which changes no output")
	f.StringVar(&o.unfit, "unfit", "refuse", "refuse, keep: what to do about matrices that the target cannot hold quantized")
	f.StringVar(&o.checkpointFormat, "checkpoint-format", "gptq", "zero points of GPTQ files: gptq (v1) or gptq_v2")
	f.StringVar(&o.scale, "scale-dtype", "", "bf16, f16, f32 (default: as the model; bf16 for f32 models)")
	f.StringVar(&o.signed, "signed-scale", "auto", "auto, on, off: allow negative scales on symmetric grids, which use the longer side of the grid for either sign")
	f.StringVar(&o.memory, "max-memory", "", "most memory to use beside the page cache, like 300MiB")
	f.BoolVar(&o.nonFinite, "allow-nonfinite", false, "keep tensors with NaN or infinity as they are instead of stopping")
	f.BoolVar(&o.requantize, "allow-requantize", false, "take a GGUF file that is quantized already for a source")
	o.gguf.register(cmd)
	o.calibration.register(cmd)
	o.sensitivity.register(cmd)
	o.parts.register(cmd)
	o.automatic.register(cmd)
	o.budget.register(cmd)
	o.textCheck.register(cmd, "compare the build with its source on a text before it gets its name, into the report")
	f.BoolVarP(&o.dry, "dry-run", "n", false, "print every file with its exact size and write nothing")
	f.BoolVar(&o.resume, "resume", false, "go on where an interrupted run stopped")
	cmd.AddCommand(newVerifyCommand())
	return cmd
}

func (o *quantizeOptions) mode() stage.Mode {
	switch {
	case o.resume:
		return stage.Resume
	case o.overwrite:
		return stage.Overwrite
	}
	return stage.Fresh
}

// label names a build after its settings, those that are not the default of its format included.
func (o *quantizeOptions) label(s convert.Settings) string {
	parts := []string{o.format}
	if o.scheme != "" {
		parts = []string{strings.ToLower(strings.ReplaceAll(o.scheme, "_", "-"))}
	} else {
		if o.bits != 4 {
			parts = append(parts, fmt.Sprintf("%dbit", o.bits))
		}
		if s.Spec.Zero != s.Format.DefaultZero() {
			parts = append(parts, map[bool]string{true: "sym", false: "asym"}[s.Spec.Zero == quant.Symmetric])
		}
	}
	switch {
	case o.budget.asked():
		parts = append(parts, o.budget.label())
	case o.group > 0:
		parts = append(parts, fmt.Sprintf("g%d", o.group))
	case !s.Spec.Int8:
		parts = append(parts, "row")
	}
	if o.method != quant.Search {
		parts = append(parts, o.method)
	}
	if o.recipe != "" {
		base := filepath.Base(o.recipe)
		parts = append(parts, strings.TrimSuffix(base, filepath.Ext(base)))
	}
	return strings.Join(parts, "-")
}

func runQuantize(cmd *cobra.Command, args []string, o *quantizeOptions) error {
	if err := cmp.Or(o.choose(cmd), o.check(), reproducible()); err != nil {
		return err
	}
	if o.resume && o.overwrite {
		return usagef("--resume and --overwrite exclude each other")
	}
	if err := o.requantizes(args); err != nil {
		return err
	}
	if err := cmp.Or(o.sensitivity.check(cmd), o.parts.check(cmd), o.budget.check(cmd)); err != nil {
		return err
	}
	folder, name, err := openFloats(args)
	if err != nil {
		return err
	}
	b, err := o.source.open(folder)
	if err != nil {
		return err
	}
	defer b.Set.Close()
	if o.sensitivity.file != "" {
		if err := placeFile(o.sensitivity.file, folder.Path, o.overwrite); err != nil {
			return err
		}
		o.calibration.Source = cmp.Or(o.calibration.Source, calib.SelfSource)
	}
	o.command = reproduction(cmd, args, o.automatic.chosen)
	if o.format == ggufFormat {
		return o.writeGGUF(cmd, b, name)
	}
	if err := o.gguf.unused(cmd); err != nil {
		return err
	}
	s, err := o.settings(cmd, b)
	if err != nil {
		return err
	}
	if o.sensitivity.file != "" {
		return o.analyze(cmd, b, s)
	}
	if err := cmp.Or(o.textCheck.check(cmd), o.textCheck.ready(b)); err != nil {
		return err
	}
	s.Measured, s.Command = o.textCheck.text != "", o.command
	if o.out == "" {
		o.out = name + "-" + o.label(s)
	}
	o.out = filepath.Clean(o.out)
	if o.parts.name != "" {
		plan, err := o.plan(cmd, b, s)
		if err != nil {
			return err
		}
		return o.writePart(cmd, b, plan)
	}
	if !o.dry {
		if err := stage.Check(o.out, folder.Path, o.mode()); err != nil {
			return err
		}
	}
	if o.dry { // plans of a hundred thousand tensors are made of many small pieces
		limitHeap(dryMemory)
	}
	plan, err := o.plan(cmd, b, s)
	if err != nil {
		return err
	}
	if o.dry {
		notes(cmd, plan.Notes)
		return printPlan(cmd, o, plan)
	}
	limitHeap(plan.HeapLimit())
	return write(cmd, o, plan)
}

// dryMemory is the memory from which on a dry run collects garbage all the time rather than take more.
const dryMemory = 220 << 20

// requantizes refuses a source that is quantized already, unless that is allowed.
func (o *quantizeOptions) requantizes(args []string) error {
	if len(args) == 0 || !isGGUF(args[0]) || o.requantize {
		return nil
	}
	tensor, kind, err := view.Lossy(args[0])
	if err == nil && tensor != "" {
		err = fmt.Errorf("%s: %s is %s: to quantize a second time loses more than once; --allow-requantize does it", args[0], tensor, kind)
	}
	return inputError(err)
}

// started tells what an interrupted run left.
func (o *quantizeOptions) started(cmd *cobra.Command) func(finished, all int) {
	return func(finished, all int) {
		if finished > 0 && !o.quiet {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d of %d tensors and files were finished by the interrupted run\n", cmd.Name(), finished, all)
		}
	}
}

// write does what was planned and prints the outcome.
func write(cmd *cobra.Command, o *quantizeOptions, plan *convert.Plan) error {
	layers := plan.Layers()
	show := newProgress(cmd.ErrOrStderr(), cmd.Name(), o.quiet, plan.Costs(), func(job string) string { return layers[job] })
	r := &convert.Run{Plan: plan, Out: o.out, Mode: o.mode(), Progress: show.report, Started: o.started(cmd)}
	r.Stage = show.stage
	r.Loaded = o.loaded(cmd)
	work := r.Quantize
	if o.parts.merge {
		work = r.Merge
	}
	report, err := work(cmd.Context(), func(dir string) (any, error) {
		b, err := selfCheck(cmd.Context(), dir, plan.Target)
		if err != nil {
			return nil, err
		}
		return o.measured(cmd, show, plan.Source, b)
	})
	show.finish()
	if err != nil {
		return o.goesOn(err)
	}
	notes(cmd, plan.Notes)
	return o.printBuild(cmd, plan.Format.Name(), plan.Files, plan, report)
}

// measured runs the text of --check, if there is one, through a build that was just written and through its source, and closes the build.
func (o *quantizeOptions) measured(cmd *cobra.Command, show *progress, source, b *build.Build) (any, error) {
	defer b.Set.Close()
	if o.textCheck.text == "" {
		return nil, nil
	}
	show.finish()
	c, err := o.textCheck.compare(cmd, o.common, source, b)
	if err != nil {
		return nil, &convert.Unmeasured{Err: err}
	}
	return c, nil
}

// goesOn adds to an interruption the command that goes on.
func (o *quantizeOptions) goesOn(err error) error {
	if errors.Is(err, convert.ErrInterrupted) {
		return fmt.Errorf("%w; %s is kept, go on with: %s", convert.ErrInterrupted, o.out+stage.Suffix, resumeCommand(os.Args))
	}
	return err
}

// printBuild prints what was written. kind is the name of the format or of the mix.
func (o *quantizeOptions) printBuild(cmd *cobra.Command, kind string, files []convert.File, plan *convert.Plan, r *convert.Report) error {
	if o.json {
		return printJSON(cmd, struct {
			Output string         `json:"output"`
			Files  []convert.File `json:"files"`
			*convert.Report
		}{o.out, files, r})
	}
	w, t := cmd.OutOrStdout(), r.Totals
	printFiles(w, files)
	if plan.Allotment != nil {
		if err := printAllotment(w, plan); err != nil {
			return err
		}
	}
	if c, ok := r.Check.(*fidelity.Comparison); ok {
		fmt.Fprintln(w, verdict(c, "source"))
	}
	fmt.Fprintf(w, "%s: %s, %.4f bits per weight", o.out, kind, t.BitsPerWeight)
	if t.Quantized > 0 {
		fmt.Fprintf(w, ", SQNR %.2f dB (lowest %.2f dB: %s)", float64(t.SQNR), float64(t.SQNRMin), t.SQNRMinTensor)
	}
	fmt.Fprintln(w)
	return nil
}

// printPlan prints a dry run.
func printPlan(cmd *cobra.Command, o *quantizeOptions, p *convert.Plan) error {
	if o.json {
		return printJSON(cmd, struct {
			Output        string                  `json:"output"`
			Files         []convert.File          `json:"files"`
			Bytes         int64                   `json:"bytes"`
			Parameters    int64                   `json:"parameters"`
			BitsPerWeight float64                 `json:"bits_per_weight"`
			Notes         []string                `json:"notes"`
			Budget        *allotted               `json:"budget,omitempty"`
			Tensors       []convert.PlannedTensor `json:"tensors"`
		}{o.out, p.Files, p.Bytes(), p.Params, p.BitsPerWeight(), append([]string{}, p.Notes...), allotment(p), p.Tensors()})
	}
	w := cmd.OutOrStdout()
	printFiles(w, p.Files)
	if p.Allotment != nil {
		if err := printAllotment(w, p); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "%s: %s, %.4f bits per weight; nothing written\n", o.out, p.Format.Name(), p.BitsPerWeight())
	return nil
}
