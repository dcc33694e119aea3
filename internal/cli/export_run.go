package cli

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"nibble/build"
	"nibble/internal/version"
	"nibble/npu"
)

// exporting is an export under way.
type exporting struct {
	*exportOptions
	cmd    *cobra.Command
	build  *build.Build
	model  *npu.Model
	name   string
	source string // of the text
	used   int    // sequences of it

	quantizer *npu.Quantizer
	result    *npu.Evaluation
	costs     []npu.Cost
	promoted  []string
	reached   bool     // the figure that they were raised for
	before    int64    // bytes of weights without promotion
	notes     []string // what an export does not reach
	trace     *npu.Trace
	export    *npu.Export
	report    *exportReport
}

// exportReport is export_report.json.
type exportReport struct {
	Tool       string             `json:"tool"`
	Model      string             `json:"model"`
	Arch       string             `json:"architecture"`
	Parameters int64              `json:"parameters"`
	Scheme     string             `json:"scheme"`
	KV         string             `json:"kv"`
	Context    int                `json:"context"`
	Pieces     int                `json:"prefill_tokens"` // of a prompt that run together
	Mask       float32            `json:"mask_hidden"`
	Ropes      []npu.Rope         `json:"ropes"`
	Step       float32            `json:"logits_step"`
	Text       string             `json:"calibration"`
	Ranges     npu.RangeRule      `json:"ranges"`
	Feedback   bool               `json:"rounding_feedback"`
	SQNR       map[string]float64 `json:"logits_sqnr_db"`
	Weights    int64              `json:"weight_bytes_per_step"`
	Parts      int                `json:"parts"`
	Promoted   []string           `json:"promoted,omitempty"`
	Notes      []string           `json:"notes,omitempty"`
	Clipped    []npu.Tensor       `json:"clipped,omitempty"` // more than the limit
	Findings   []npu.Finding      `json:"findings,omitempty"`
	*npu.Evaluation
	Matrices    []npu.Loss `json:"matrices"`
	Sensitivity []npu.Cost `json:"sensitivity,omitempty"`
	Files       []npu.File `json:"files"`
}

// clippedLimit is the share of clipped elements from which a tensor is named.
const clippedLimit = 1e-4

// prepare finds the ranges and measures what they cost.
func (x *exporting) prepare() error {
	ranges, held, err := x.sequences()
	if err != nil {
		return err
	}
	show := newCounter(x.cmd, x.quiet, "ranges", 1)
	x.quantizer, err = npu.Calibrate(x.cmd.Context(), x.model, &x.graph, x.schemes, ranges, npu.Calibration{RangeRule: x.ranges, Feedback: x.feedback(), Threads: x.threads, Progress: show.reportNodes})
	show.finish()
	if err != nil {
		return err
	}
	if x.sensitivity || x.promote == promoteAuto || x.goal.SQNR > 0 {
		if err := x.raise(ranges); err != nil {
			return err
		}
	}
	if err := x.simulate(held); err != nil {
		return err
	}
	if x.goal.SQNR > 0 && !x.reached {
		x.notes = append(x.notes, fmt.Sprintf("--promote %s: 16-bit weights do not reach that: SQNR %.2f dB (prompts) and %.2f dB (single tokens); what --sensitivity shows of activations costs more",
			x.promote, float64(x.result.Prefill.SQNR), float64(x.result.Decode.SQNR)))
	}
	return x.raiseNeeded(held)
}

// simulate measures what the graphs lose on text that nothing else has seen.
func (x *exporting) simulate(held [][]int32) (err error) {
	if x.exportOptions.trace != "" {
		x.trace = &npu.Trace{Tokens: held[0], Prompt: len(held[0]) - x.text.decode}
	}
	show := newCounter(x.cmd, x.quiet, "simulation", 1)
	t := &npu.Test{Sequences: held, Decode: x.text.decode, Threads: x.threads, Trace: x.trace, Progress: show.reportNodes}
	x.result, err = t.Evaluate(x.cmd.Context(), x.model, x.graph, x.quantizer)
	show.finish()
	return err
}

// feedback reports whether weights are rounded with error feedback: what is made up has nothing to be fitted to.
func (x *exporting) feedback() bool {
	if x.rounding != "auto" {
		return x.rounding == feedbackRounding
	}
	return x.text.Source != randomSource && x.model.Parameters() <= largeModel
}

// write fills the folder.
func (x *exporting) write(dir string) error {
	progress := newCounter(x.cmd, x.quiet, "weights", 1)
	e := &npu.Export{Model: x.model, Options: x.graph, Quantizer: x.quantizer, Shards: x.shards, Threads: x.threads, Progress: progress.reportNodes}
	x.export = e
	err := e.Write(dir)
	progress.finish()
	if err != nil {
		return err
	}
	switch x.style {
	case aimetStyle:
		err = e.WriteAIMET(dir)
	case genaiStyle:
		err = x.genai(dir)
	}
	if err != nil {
		return err
	}
	for _, name := range []string{"config.json", "generation_config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json",
		"special_tokens_map.json", "chat_template.jinja", "LICENSE"} {
		raw, err := fs.ReadFile(x.build.FS, name)
		if err != nil || e.Has(name) {
			continue // what a model does not have
		}
		if err := e.Add(dir, name, raw); err != nil {
			return err
		}
	}
	findings, err := e.Lint(dir)
	if err != nil {
		return err
	}
	if err := e.Add(dir, "README.txt", []byte(x.readme())); err != nil {
		return err
	}
	r := &exportReport{Tool: "nibble export " + version.Number(), Model: x.name, Arch: x.model.Name, Parameters: x.model.Parameters(), Scheme: x.scheme, KV: x.kv,
		Context: x.graph.Context, Pieces: x.graph.Prefill, Mask: x.quantizer.Hidden, Ropes: x.model.Ropes(x.graph.Context), Step: x.result.Step, Text: x.source, Ranges: x.ranges, Feedback: x.feedback(),
		SQNR:    map[string]float64{"prefill": float64(x.result.Prefill.SQNR), "decode": float64(x.result.Decode.SQNR)},
		Weights: e.Weights, Parts: e.Parts, Promoted: x.promoted, Notes: x.notes, Findings: findings, Evaluation: x.result, Matrices: e.Losses, Sensitivity: x.costs}
	for _, t := range x.result.Tensors {
		if t.Clipped > clippedLimit {
			r.Clipped = append(r.Clipped, t)
		}
	}
	r.Files = slices.Clone(e.Files)
	x.report = r
	return e.AddJSON(dir, npu.ReportFile, r)
}

// genai writes what the host of ONNX Runtime GenAI needs. A model that does not say which tokens are around a text has 0 there.
func (x *exporting) genai(dir string) error {
	var ends npu.Ends
	var err error
	if ends.End, err = endTokens(x.build, x.name); err != nil {
		return err
	}
	if ends.End == nil {
		ends.End = []int32{0}
	}
	ends.Begin = int32(min(max(gjson.GetBytes(x.build.Config.Raw(), "bos_token_id").Int(), 0), int64(x.model.Vocab-1)))
	return x.export.WriteGenAI(dir, ends)
}

// gate fails an export that loses too much.
func (x *exporting) gate() error {
	for name, f := range map[string]npu.Fidelity{"prompts": x.result.Prefill, "single tokens": x.result.Decode} {
		if !(float64(f.SQNR) >= x.minSQNR) {
			return coded{fmt.Errorf("%s: logits have an SQNR of %.2f dB for %s, less than the %g dB of --min-sqnr%s; the report says which tensors cost most",
				x.out, float64(f.SQNR), name, x.minSQNR, x.advice()), exitGate}
		}
	}
	return nil
}

// advice names what loses less and was not asked for yet.
func (x *exporting) advice() string {
	var flags []string
	if x.scheme != "w16a16" && x.minSQNR <= mostGoal && float64(x.goal.SQNR) < x.minSQNR {
		flags = append(flags, fmt.Sprintf("--promote %g", x.minSQNR))
	}
	if x.kv != "int16" && x.style != genaiStyle {
		flags = append(flags, "--kv int16")
	}
	if x.scheme != "w8a16" && x.scheme != "w16a16" {
		flags = append(flags, "--scheme w8a16")
	}
	if flags == nil {
		return ""
	}
	return "; " + strings.Join(flags, " or ") + " may help"
}

// print states the result.
func (x *exporting) print() error {
	notes(x.cmd, x.notes)
	if x.json {
		return printJSON(x.cmd, struct {
			Output string `json:"output"`
			*exportReport
		}{x.out, x.report})
	}
	w := x.cmd.OutOrStdout()
	var total int64
	for _, f := range x.export.Files {
		fmt.Fprintf(w, "%15d  %s\n", f.Bytes, f.Name)
		total += f.Bytes
	}
	fmt.Fprintf(w, "%15d  bytes in %d files\n", total, len(x.export.Files))
	x.printLosses(w)
	top1, _ := x.result.Top1()
	fmt.Fprintf(w, "%s: %s, keys and values %s, context %d, %.2f MB of weights per step, SQNR of the logits %.2f dB (prompts) and %.2f dB (single tokens), top-1 agreement %.2f %%\n",
		x.out, x.scheme, x.kv, x.graph.Context, float64(x.export.Weights)/1e6, float64(x.result.Prefill.SQNR), float64(x.result.Decode.SQNR), 100*top1)
	return nil
}

// printLosses prints what was measured.
func (x *exporting) printLosses(w io.Writer) {
	for i, c := range x.costs[:min(10, len(x.costs))] {
		if i == 0 {
			fmt.Fprintln(w, "alone on its grid, by what it costs:")
		}
		fmt.Fprintf(w, "%7.2f dB %5.1f %%  %s (%s)\n", float64(c.SQNR), 100*c.Share, c.Name, c.Kind)
	}
	for _, name := range x.promoted {
		fmt.Fprintf(w, "more bits: %s\n", name)
	}
	if len(x.promoted) > 0 && x.export.Weights > x.before {
		fmt.Fprintf(w, "%.2f MB of weights per step instead of %.2f MB\n", float64(x.export.Weights)/1e6, float64(x.before)/1e6)
	}
	row := func(name string, f npu.Fidelity) {
		fmt.Fprintf(w, "%s: %d tokens, SQNR %.2f dB, top-1 agreement %.2f %%, perplexity %.4f (float %.4f, ratio %.5f)\n", name, f.Tokens,
			float64(f.SQNR), 100*f.Top1, f.Perplexity, f.Float, f.Ratio)
	}
	row("prompts", x.result.Prefill)
	row("single tokens", x.result.Decode)
	weakest := x.result.Weakest()
	fmt.Fprintf(w, "lowest residual stream: %.2f dB (%s)\n", float64(weakest.SQNR), weakest.Name)
	if worst := x.result.Worst(); worst.Clipped > 0 {
		fmt.Fprintf(w, "most clipped on held-out text: %.4f %% of %s, range %.4g to %.4g\n", 100*worst.Clipped, worst.Name, worst.Lo, worst.Hi)
	} else {
		fmt.Fprintln(w, "nothing is clipped on held-out text")
	}
}
