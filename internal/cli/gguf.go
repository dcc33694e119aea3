package cli

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nibble/build"
	"nibble/calib"
	"nibble/convert"
	"nibble/gguf/block"
	"nibble/gguf/imatrix"
	"nibble/gguf/mix"
	"nibble/internal/stage"
	"nibble/quant"
)

// ggufFormat is the name of the format that is a file and not a folder.
const ggufFormat = "gguf"

// ggufOptions are the flags of quantize --format gguf.
type ggufOptions struct {
	mix               string
	pure              bool
	rules             []string
	embedding, output string
	imatrix           string
	writeImatrix      string
}

func (g *ggufOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&g.mix, "type", "q4_k_m", "of --format gguf: "+strings.Join(mix.Names(), ", "))
	f.BoolVar(&g.pure, "pure", false, "of --format gguf: one type for all matrices")
	f.StringArrayVar(&g.rules, "tensor-type", nil, "of --format gguf: REGEXP=TYPE for the tensors whose GGUF names it is found in; may be repeated, the first that matches decides")
	f.StringVar(&g.embedding, "token-embedding-type", "", "of --format gguf: type of the embedding")
	f.StringVar(&g.output, "output-tensor-type", "", "of --format gguf: type of the output head, or of the embedding that it is tied to")
	f.StringVar(&g.imatrix, "imatrix", "", "of --format gguf: file of llama-imatrix that says how much the columns count")
	f.StringVar(&g.writeImatrix, "write-imatrix", "", "of --format gguf: write such a file, from --calib, instead of a model (NAME.gguf)")
}

// unused refuses flags of the format gguf beside another one.
func (g *ggufOptions) unused(cmd *cobra.Command) (err error) {
	for _, name := range ggufOnly {
		if cmd.Flags().Changed(name) && err == nil {
			err = usagef("--%s needs --format gguf", name)
		}
	}
	return err
}

// ggufFlags are the flags that mean something with --format gguf, ggufOnly those that mean nothing without it.
var (
	ggufOnly  = []string{"type", "pure", "tensor-type", "token-embedding-type", "output-tensor-type", "imatrix", "write-imatrix"}
	ggufFlags = append([]string{"format", "priority", "profile", "allow-requantize", "output", "overwrite", "dry-run", "json", "quiet", "threads", "tie", "vocab",
		"calib", "calib-field", "samples", "seqlen", "calib-seed", "calib-pack", "calib-chat", "calib-cache", "calib-kernel", "independent", "method", "resume", "part", "merge",
		"max-memory", "max-shard-size", "check", "activations", "check-windows", "sensitivity", "sensitivity-measure", "sensitivity-tokens",
		"target-size", "target-bpw", "sensitivity-from"}, ggufOnly...)
)

// ggufSettings turns flags into settings.
func (o *quantizeOptions) ggufSettings(cmd *cobra.Command, b *build.Build, name string) (s convert.GGUFSettings, err error) {
	g := &o.gguf
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(ggufFlags, f.Name) && err == nil {
			err = usagef("--%s means nothing with --format gguf", f.Name)
		}
	})
	if err != nil {
		return s, err
	}
	s.Name, s.Pure, s.Threads = name, g.pure, o.threads
	if s.Mix, err = mix.Parse(g.mix); err != nil {
		return s, coded{fmt.Errorf("--type: %w", err), exitUsage}
	}
	if o.budget.asked() {
		s.Mix = nil
	}
	if s.Embedding, err = blockType("token-embedding-type", g.embedding); err != nil {
		return s, err
	}
	if s.Output, err = blockType("output-tensor-type", g.output); err != nil {
		return s, err
	}
	for _, rule := range g.rules {
		pattern, kind, ok := strings.Cut(rule, "=")
		re, err := regexp.Compile(pattern)
		if !ok || pattern == "" || err != nil {
			return s, usagef("--tensor-type %q: want a regular expression, =, and a type", rule)
		}
		t, err := blockType("tensor-type", kind)
		if err != nil || t == nil {
			return s, usagef("--tensor-type %q: %q is no type that is written", rule, kind)
		}
		s.Rules = append(s.Rules, mix.Rule{Match: re, Type: *t})
	}
	if err = o.ggufSizes(cmd, &s); err != nil {
		return s, err
	}
	s.Method, s.Measured, s.Command = o.method, o.textCheck.text != "", o.command
	if err := cmp.Or(o.textCheck.check(cmd), o.textCheck.ready(b)); err != nil {
		return s, err
	}
	c := convert.Settings{Spec: quant.Spec{Method: o.method}}
	if !slices.Contains(convert.GGUFMethods, o.method) {
		return s, usagef("--method %s: with --format gguf it can be %s", o.method, strings.Join(convert.GGUFMethods, ", "))
	}
	if g.imatrix != "" {
		if o.calibration.Source != "" || o.calibration.kernel != "" || c.Spec.Calibrated() {
			return s, usagef("--imatrix has weights of columns and no more: it excludes --calib, --calib-kernel and --method %s", quant.GPTQ)
		}
		if err := o.calibration.unused(cmd); err != nil {
			return s, err
		}
		s.WeightsFrom = filepath.Base(g.imatrix)
		s.Weights, err = imatrix.Read(g.imatrix)
		return s, inputError(err)
	}
	if g.writeImatrix != "" {
		o.calibration.Source = cmp.Or(o.calibration.Source, calib.SelfSource)
	}
	err = o.calibrate(cmd, b, &c)
	s.Calibration = c.Calibration
	return s, err
}

// applied refuses a rule for tensors that the file does not have, as one with a slip in it.
func (g *ggufOptions) applied(rules []mix.Rule, plan *convert.GGUFPlan) error {
	for i, r := range rules {
		if !slices.ContainsFunc(plan.Tensors, func(t convert.GGUFTensor) bool { return mix.Quantizes(t.Name, t.Shape) && r.Match.MatchString(t.Name) }) {
			return usagef("--tensor-type %q: no matrix of the file has such a name; --dry-run --json lists their names, as blk.0.attn_v.weight", g.rules[i])
		}
	}
	return nil
}

// blockType reads the name of a type that is written, nil for none.
func blockType(flag, name string) (*block.Type, error) {
	if name == "" {
		return nil, nil
	}
	t, ok := block.Parse(strings.ToUpper(name))
	if !ok || !t.CanEncode() || t == block.Q8_K {
		return nil, usagef("--%s %q: it is no type that is written", flag, name)
	}
	return &t, nil
}

// writeGGUF plans and writes a GGUF file.
func (o *quantizeOptions) writeGGUF(cmd *cobra.Command, b *build.Build, name string) error {
	s, err := o.ggufSettings(cmd, b, name)
	if err != nil {
		return err
	}
	if o.gguf.writeImatrix != "" {
		return o.imatrix(cmd, b, s)
	}
	if o.sensitivity.file != "" {
		return o.analyze(cmd, b, s.Analysis())
	}
	kind := ggufFormat
	if s.Mix != nil {
		kind = s.Mix.Name
	}
	if o.out == "" {
		label := kind
		if o.budget.asked() {
			label = o.budget.label()
		}
		o.out = name + "-" + label + ".gguf"
	}
	if o.out = filepath.Clean(o.out); !strings.HasSuffix(o.out, ".gguf") {
		return usagef("--output %s: the name of a GGUF file ends in .gguf", o.out)
	}
	plan, err := o.planGGUF(cmd, b, s)
	if err != nil {
		return err
	}
	if err := o.gguf.applied(s.Rules, plan); err != nil {
		return err
	}
	if o.parts.name != "" {
		return o.writePart(cmd, b, plan.Work())
	}
	if o.dry {
		notes(cmd, plan.Notes)
		return printGGUFPlan(cmd, o, kind, plan)
	}
	var files []string
	for _, f := range plan.Files {
		files = append(files, filepath.Join(filepath.Dir(o.out), f.Name))
	}
	if err := stage.CheckFiles(o.out, files, b.Path, o.mode()); err != nil {
		return err
	}
	limitHeap(plan.Work().HeapLimit())
	layers := plan.Layers()
	show := newProgress(cmd.ErrOrStderr(), cmd.Name(), o.quiet, plan.Costs(), func(job string) string { return layers[job] })
	r := &convert.GGUFRun{GGUFPlan: plan, Mode: o.mode(), Progress: show.report, Stage: show.stage, Started: o.started(cmd),
		Loaded: o.loaded(cmd)}
	r.Check = func(file string) (any, error) {
		x, err := reopen(file)
		if err != nil {
			return nil, err
		}
		return o.measured(cmd, show, b, x)
	}
	work := r.Quantize
	if o.parts.merge {
		work = r.Merge
	}
	report, err := work(cmd.Context())
	show.finish()
	if err != nil {
		return o.goesOn(err)
	}
	notes(cmd, plan.Notes)
	return o.printBuild(cmd, kind, plan.Files, plan.Work(), report)
}

// imatrix writes weights of columns in place of a model.
func (o *quantizeOptions) imatrix(cmd *cobra.Command, b *build.Build, s convert.GGUFSettings) error {
	out := filepath.Clean(o.gguf.writeImatrix)
	switch {
	case filepath.Ext(out) != ".gguf":
		return usagef("--write-imatrix %s: the name of the file ends in .gguf", out)
	case o.out != "" || o.dry || o.resume || o.gguf.imatrix != "" || o.calibration.kernel != "" || o.budget.asked():
		return usagef("--write-imatrix writes no model: leave --output, --dry-run, --resume, --imatrix, --calib-kernel and a target size out")
	}
	if err := stage.CheckFiles(out, nil, b.Path, stage.Anew(o.overwrite)); err != nil {
		return err
	}
	show := newProgress(cmd.ErrOrStderr(), cmd.Name(), o.quiet, nil, nil)
	x := &convert.Imatrix{Source: b, Calibration: s.Calibration, Text: s.Calibration.Settings, Threads: o.threads, Loaded: o.loaded(cmd), Stage: show.stage}
	n, err := x.Write(cmd.Context(), out, o.overwrite)
	show.finish()
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(cmd, struct {
			Output   string `json:"output"`
			Matrices int    `json:"matrices"`
		}{out, n})
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: weights of the columns of %d matrices\n", out, n)
	return nil
}

// loaded tells what the calibration text gave.
func (o *quantizeOptions) loaded(cmd *cobra.Command) func(s *calib.Sequences) {
	return func(s *calib.Sequences) {
		if !o.quiet {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: calibration: %s\n", cmd.Name(), s)
			notes(cmd, s.Notes)
		}
	}
}

// ggufSizes reads the most bytes of tensors in a file, by default all of them, and of memory.
func (o *quantizeOptions) ggufSizes(cmd *cobra.Command, s *convert.GGUFSettings) (err error) {
	if cmd.Flags().Changed("max-shard-size") {
		if s.MaxShard, err = parseSize("max-shard-size", o.maxShard); err != nil {
			return err
		}
	}
	s.MaxMemory, s.MemoryOf, err = o.maxMemory()
	return err
}

// printGGUFPlan prints a dry run.
func printGGUFPlan(cmd *cobra.Command, o *quantizeOptions, kind string, p *convert.GGUFPlan) error {
	type tensor struct {
		Name   string `json:"name"`
		Type   string `json:"type"`
		Shape  []int  `json:"shape"`
		Offset int64  `json:"offset"` // from the start of its file
		Bytes  int64  `json:"bytes"`
	}
	if o.json {
		var tensors []tensor
		for _, f := range p.File.Files {
			for _, t := range f.Tensors {
				tensors = append(tensors, tensor{t.Name, t.Type.String(), t.Shape, t.Offset, t.Bytes})
			}
		}
		return printJSON(cmd, struct {
			Output        string         `json:"output"`
			Files         []convert.File `json:"files"`
			Bytes         int64          `json:"bytes"`
			Parameters    int64          `json:"parameters"`
			BitsPerWeight float64        `json:"bits_per_weight"`
			Notes         []string       `json:"notes"`
			Budget        *allotted      `json:"budget,omitempty"`
			Tensors       []tensor       `json:"tensors"`
		}{o.out, p.Files, p.Bytes(), p.Params, p.BitsPerWeight(), append([]string{}, p.Notes...), allotment(p.Work()), tensors})
	}
	w := cmd.OutOrStdout()
	printFiles(w, p.Files)
	if p.Allotment != nil {
		if err := printAllotment(w, p.Work()); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "%s: %s, %.4f bits per weight; nothing written\n", o.out, kind, p.BitsPerWeight())
	return nil
}
