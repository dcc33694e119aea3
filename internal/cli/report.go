package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"nibble/build"
	"nibble/internal/version"
	"nibble/npu"
	"nibble/report"
	"nibble/runtime"
)

// reportOptions are the flags of report.
type reportOptions struct {
	running
	windowing
	out, against string
	bench        []string
	overwrite    bool
}

func newReportCommand() *cobra.Command {
	o := new(reportOptions)
	cmd := &cobra.Command{
		Use:   "report [BUILD...]",
		Short: "Put what is known of builds on one page: an HTML file that needs nothing else",
		Long: `Write a page about builds, side by side: what they are made of and how they were made, signal to noise by layer and role, and what is
smallest for its loss. With --against, the float model, a text runs through both: perplexity, KL divergence by size and position, the
tokens at which a build differs most, and weights before and after. --bench adds what runtime bench --json printed. A BUILD may also
be what export wrote: then the page has its ranges and what they clip.

The file loads nothing and runs no script. With --json its values are printed, and written beside it as .json. Without BUILD the page
is about the demo quantized (awq, group 128), held against the demo; --against builtin names the demo for builds of your own of it.`,
		Example: `  runtime report                                             # the demo's own awq build, into ./report.html
  runtime report ./demo-awq-g128 --against builtin --max-windows 8
  runtime report ./model-awq-g128 ./model-gptq-g32 --against ./model --text wiki.txt -o model.html
  runtime report ./build --bench bench.json --json
  runtime report ./demo-npu-w8a16 -o phone.html`,
		RunE: func(cmd *cobra.Command, args []string) error { return runReport(cmd, args, o) },
	}
	o.running.register(cmd, "tokens of a window (default: 512, or what the models have)")
	o.windowing.register(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.out, "output", "o", "report.html", "file to write")
	f.BoolVar(&o.overwrite, "overwrite", false, "replace the file")
	f.StringVar(&o.against, "against", "", "the float model that the builds were made of; builtin for the demo")
	f.StringArrayVar(&o.bench, "bench", nil, "file that runtime bench --json printed; may be given again")
	return cmd
}

// reporting is a report under way.
type reporting struct {
	*reportOptions
	cmd       *cobra.Command
	report    *report.Report
	reference *runner // nil: nothing is measured
	original  *build.Build
	ids       []int32 // of the text; nil: nothing is measured on it
	waiting   []waiting
}

func runReport(cmd *cobra.Command, args []string, o *reportOptions) error {
	if err := o.running.check(); err != nil {
		return err
	}
	values := strings.TrimSuffix(o.out, filepath.Ext(o.out)) + ".json"
	files := []string{o.out}
	if o.json {
		files = append(files, values)
	}
	if values == o.out {
		return usagef("--output %s: the page is HTML; its values go into the .json beside it with --json", o.out)
	}
	for _, file := range files {
		if err := cmp.Or(placeFile(file, "", o.overwrite), outside(file, append(slices.Clone(args), o.against))); err != nil {
			return err
		}
	}
	x := &reporting{reportOptions: o, cmd: cmd, report: &report.Report{Tool: "nibble " + version.String(), Version: report.Version, Missing: []string{},
		Builds: []*report.Build{}, Exports: []*report.Export{}, Speed: []*report.Speed{}}}
	if err := x.gather(args); err != nil {
		return err
	}
	var page, raw bytes.Buffer
	if err := x.report.Render(&page); err != nil {
		return err
	}
	enc := json.NewEncoder(&raw)
	enc.SetIndent("", "  ")
	if err := enc.Encode(x.report); err != nil {
		return err
	}
	if err := writeWhole(o.out, page.Bytes()); err != nil {
		return err
	}
	if o.json {
		if err := writeWhole(values, raw.Bytes()); err != nil {
			return err
		}
		_, err := cmd.OutOrStdout().Write(raw.Bytes())
		return err
	}
	return x.print(page.Len())
}

// outside refuses a file inside of an input.
func outside(file string, inputs []string) error {
	dir, err := os.Stat(filepath.Dir(file))
	for _, input := range inputs {
		if info, e := os.Stat(input); err == nil && e == nil && os.SameFile(dir, info) {
			return fmt.Errorf("%s is inside the input %s: inputs are never changed; choose a place elsewhere", file, input)
		}
	}
	return err
}

// gather collects the values.
func (x *reporting) gather(args []string) error {
	for _, path := range x.bench {
		raw, err := readReport(os.DirFS(filepath.Dir(path)), filepath.Base(path))
		if err != nil {
			return err
		}
		s, err := report.ParseBench(filepath.Base(path), raw)
		if err != nil {
			return inputError(err)
		}
		x.report.Speed = append(x.report.Speed, s)
	}
	if len(args) == 0 {
		return x.demo()
	}
	if err := x.openReference(); err != nil {
		return err
	}
	if x.reference != nil {
		defer x.reference.close()
	}
	defer x.drop()
	for _, arg := range args {
		if _, err := os.Stat(filepath.Join(arg, npu.ReportFile)); err == nil {
			if err := x.export(arg); err != nil {
				return err
			}
			continue
		}
		if err := x.open(arg); err != nil {
			return err
		}
	}
	if err := x.measure(); err != nil {
		return err
	}
	x.finish()
	return nil
}

// finish says what is missing, and compares the builds.
func (x *reporting) finish() {
	r := x.report
	lack := func(text string) { r.Missing = append(r.Missing, text) }
	switch {
	case len(r.Builds) == 0:
	case x.reference == nil:
		lack("Perplexity, KL divergence and weights before and after: --against MODEL names the float model.")
	case x.ids == nil:
		lack("Perplexity and KL divergence: --text FILE names a text to measure on.")
	}
	if len(r.Speed) == 0 {
		lack("Speed: --bench FILE takes what runtime bench --json printed.")
	}
	r.Judge()
}

// demo is a report about the demo's own build.
func (x *reporting) demo() error {
	if x.against != "" {
		return usagef("--against %s: no BUILD is given to be held against it", x.against)
	}
	built, original, remove, err := demoBuild(x.cmd.Context(), x.threads)
	if err != nil {
		return err
	}
	defer remove()
	b, err := newRunner(built, demoName+"-awq-g128", x.kv, x.config())
	if err != nil {
		return err
	}
	if x.reference, err = newRunner(original, demoName, runtime.KVF32, runtime.Config{Threads: x.threads, CPUs: x.cpu}); err != nil {
		b.close()
		return err
	}
	defer x.reference.close()
	x.against = builtinText
	if err := x.language(); err != nil {
		b.close()
		return err
	}
	defer x.finish()
	defer x.drop()
	if err := x.build(b.build, b); err != nil {
		return err
	}
	return x.measure()
}

// openReference loads the float model and the text, if they are given.
func (x *reporting) openReference() error {
	if x.against == "" {
		if x.text != "" {
			return usagef("--text is run through a build and its float model: --against MODEL is missing")
		}
		return nil
	}
	args := []string{x.against}
	if x.against == builtinText {
		args = nil
	}
	exact := x.running
	exact.mode, exact.kv = runtime.F32, runtime.KVF32
	folder, name, err := openFloats(args)
	if err != nil {
		return err
	}
	b, err := x.source.open(folder)
	if err != nil {
		return err
	}
	if x.reference, err = newRunner(b, name, exact.kv, exact.config()); err != nil {
		b.Set.Close()
		return err
	}
	return x.language()
}

// language reads the text to measure on; for the demo it has one of its own.
func (x *reporting) language() error {
	x.report.Reference, x.original = x.reference.name, x.reference.build
	if x.text == "" && x.against != builtinText {
		return nil
	}
	text, err := corpus(x.text, true)
	if err != nil {
		return err
	}
	if err := x.reference.language(); err != nil {
		return err
	}
	ids, err := x.reference.tokenizer.Encode(text, false)
	if err != nil {
		return inputError(err)
	}
	x.ids = ids
	return nil
}

// print says what is on the page.
func (x *reporting) print(size int) error {
	w := x.cmd.OutOrStdout()
	for _, b := range x.report.Builds {
		measured := ""
		if m := b.Measured; m != nil {
			measured = fmt.Sprintf(", KL divergence %.5f, perplexity ratio %.4f", m.KLMean, m.Ratio)
		}
		if b.DominatedBy != "" {
			measured += ", beaten by " + b.DominatedBy
		}
		fmt.Fprintf(w, "%s: %s, %.4f bits per weight%s\n", b.Name, b.Format, b.BitsPerWeight, measured)
	}
	for _, e := range x.report.Exports {
		fmt.Fprintf(w, "%s: %s, keys and values %s, %d tensors on grids\n", e.Name, e.Scheme, e.KV, len(e.Tensors))
	}
	for _, m := range x.report.Missing {
		fmt.Fprintf(x.cmd.ErrOrStderr(), "%s: not on the page: %s\n", x.cmd.Name(), m)
	}
	_, err := fmt.Fprintf(w, "%s: %d bytes\n", x.out, size)
	return err
}
