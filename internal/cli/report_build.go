package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"nibble/build"
	"nibble/convert"
	"nibble/fidelity"
	"nibble/npu"
	"nibble/report"
	"nibble/runtime"
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
	if len(x.waiting) > 0 && !roomFor(b) {
		if err := x.measure(); err != nil {
			b.Set.Close()
			return err
		}
	}
	r, err := newRunner(b, name, x.kv, x.config())
	if err != nil {
		b.Set.Close()
		return err
	}
	return x.build(b, r)
}

// roomFor reports whether free memory holds a build twice: its weights, and what it takes to measure it.
func roomFor(b *build.Build) bool {
	room, known := freeMemory()
	return !known || room.bytes > 2*b.Set.Bytes()
}

// build adds a build; r has a model if there is a text, and is then closed when it is measured.
func (x *reporting) build(b *build.Build, r *runner) error {
	y := new(report.Build)
	if x.ids != nil {
		x.waiting = append(x.waiting, waiting{r, y})
	}
	made, err := ownReport(b)
	if err != nil {
		return err
	}
	*y = *report.NewBuild(r.name, b, made)
	x.report.Builds = append(x.report.Builds, y)
	if made == nil {
		x.report.Missing = append(x.report.Missing, r.name+": how it was made; there is no report of ours beside it.")
	}
	if x.original == nil {
		return nil
	}
	missing, err := y.Compare(x.cmd.Context(), b, x.original)
	x.report.Missing = append(x.report.Missing, missing...)
	return inputError(err)
}

// waiting is a loaded build that is to be measured.
type waiting struct {
	*runner
	build *report.Build
}

// measure runs the text once through the reference, and beside it through all builds that wait, and closes those.
func (x *reporting) measure() error {
	defer x.drop()
	if len(x.waiting) == 0 {
		return nil
	}
	models := []*runner{x.reference}
	for _, b := range x.waiting {
		models = append(models, b.runner)
	}
	context := x.windowContext(models...)
	if err := cmp.Or(x.windowing.check(context), enough(x.ids, context), x.fit(x.cmd, context, models...)); err != nil {
		return err
	}
	var builds []*runtime.Model
	var collected []*report.Collector
	for _, b := range x.waiting {
		if err := fidelity.Compatible(x.reference.Model, b.Model); err != nil {
			return inputError(fmt.Errorf("%s: %w", b.name, err))
		}
		builds = append(builds, b.Model)
		collected = append(collected, report.NewCollector(x.ids, context, func(ids []int32) (string, error) { return x.reference.tokenizer.Decode(ids, false) }))
	}
	list, err := fidelity.CompareAll(x.cmd.Context(), x.reference.Model, builds, x.ids, fidelity.Options{Context: context, Stride: x.stride, MaxWindows: x.maxWindows,
		Front: x.reference.front, KV: x.kv, Progress: windowProgress(x.cmd, x.quiet), Scored: func(build int, p fidelity.Position) { collected[build].Add(p) }})
	if err != nil {
		return err
	}
	name := "the demo's text"
	if x.text != "" {
		name = filepath.Base(x.text)
	}
	x.report.Text = &report.Text{Name: name, Tokens: len(x.ids), Context: context, Stride: stride(x.stride, context), Windows: list[0].Windows,
		Activations: x.activations, KV: x.cache}
	for i, c := range list {
		if x.waiting[i].build.Measured, err = collected[i].Measured(c); err != nil {
			return err
		}
	}
	return nil
}

// drop closes the builds that wait.
func (x *reporting) drop() {
	for _, b := range x.waiting {
		b.close()
	}
	x.waiting = nil
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
	if info, err := fs.Stat(files, name); err == nil && !info.Mode().IsRegular() { // opening a pipe would wait for its writer
		return nil, inputError(fmt.Errorf("%s: not a regular file", name))
	}
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
