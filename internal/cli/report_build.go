package cli

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"nibble/build"
	"nibble/convert"
	"nibble/fidelity"
	"nibble/npu"
	"nibble/report"
)

// open adds a build that an argument names.
func (x *reporting) open(arg string) error {
	folder, name, err := openModel([]string{arg})
	if err != nil {
		return err
	}
	b, err := x.source.open(folder)
	if err != nil {
		return err
	}
	if !x.quiet {
		notes(x.cmd, b.Notes)
	}
	if b.Origin != nil {
		name = filepath.Base(arg)
	}
	if x.ids == nil {
		defer b.Set.Close()
		return x.build(b, &runner{name: name, build: b})
	}
	r, err := newRunner(b, name, x.kv, x.config())
	if err != nil {
		b.Set.Close()
		return err
	}
	defer r.close()
	return x.build(b, r)
}

// build adds a build; r has a model if there is a text.
func (x *reporting) build(b *build.Build, r *runner) error {
	made, err := ownReport(b)
	if err != nil {
		return err
	}
	y := report.NewBuild(r.name, b, made)
	x.report.Builds = append(x.report.Builds, y)
	if made == nil {
		x.report.Missing = append(x.report.Missing, r.name+": how it was made; there is no report of ours beside it.")
	}
	if x.original != nil {
		missing, err := y.Compare(x.cmd.Context(), b, x.original)
		if err != nil {
			return inputError(err)
		}
		x.report.Missing = append(x.report.Missing, missing...)
	}
	if x.ids == nil {
		return nil
	}
	y.Measured, err = x.measure(r)
	return err
}

// measure runs the text through the reference and a build.
func (x *reporting) measure(b *runner) (*report.Measured, error) {
	context := x.windowContext(x.reference, b)
	if err := cmp.Or(x.windowing.check(context), enough(x.ids, context), inputError(fidelity.Compatible(x.reference.Model, b.Model)),
		x.fit(x.cmd, context, x.reference, b)); err != nil {
		return nil, err
	}
	collect := report.NewCollector(x.ids, context, func(ids []int32) (string, error) { return x.reference.tokenizer.Decode(ids, false) })
	c, err := fidelity.Compare(x.cmd.Context(), x.reference.Model, b.Model, x.ids, fidelity.Options{Context: context, Stride: x.stride, MaxWindows: x.maxWindows,
		Front: x.reference.front, KV: b.kv, Progress: windowProgress(x.cmd, x.quiet), Scored: collect.Add})
	if err != nil {
		return nil, err
	}
	name := "the demo's text"
	if x.text != "" {
		name = filepath.Base(x.text)
	}
	x.report.Text = &report.Text{Name: name, Tokens: len(x.ids), Context: context, Stride: stride(x.stride, context), Windows: c.Windows,
		Activations: x.activations, KV: x.cache}
	return collect.Measured(c)
}

// ownReport reads the report beside a build, nil if there is none.
func ownReport(b *build.Build) (*convert.Report, error) {
	files, name := b.FS, convert.ReportName
	if b.Origin != nil {
		files, name = os.DirFS(filepath.Dir(b.Path)), convert.GGUFReport(filepath.Base(b.Path))
	}
	raw, err := readReport(files, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := report.ParseBuild(name, raw)
	return r, inputError(err)
}

// readReport reads a file of a bounded size.
func readReport(files fs.FS, name string) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, inputError(err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, report.MostBytes+1))
	return raw, inputError(err)
}

// export adds what export wrote.
func (x *reporting) export(dir string) error {
	raw, err := readReport(os.DirFS(dir), npu.ReportFile)
	if err != nil {
		return err
	}
	e, err := report.ParseExport(filepath.Join(dir, npu.ReportFile), raw)
	if err != nil {
		return inputError(err)
	}
	e.Name = filepath.Base(dir)
	if abs, err := filepath.Abs(dir); err == nil {
		e.Name = filepath.Base(abs)
	}
	x.report.Exports = append(x.report.Exports, e)
	return nil
}
