package convert

import (
	"context"
	"errors"
	"path/filepath"

	"nibble/calib"
	"nibble/internal/stage"
)

// GGUFRun is one execution of a plan.
type GGUFRun struct {
	*GGUFPlan
	Mode     stage.Mode
	Progress Progress                 // may be nil
	Started  func(finished, all int)  // told before the work starts what an earlier run left; may be nil
	Loaded   func(s *calib.Sequences) // told what the calibration text gave; may be nil
	Stage    Stage                    // told what calibration is about; may be nil

	// Check looks at the finished file, in its folder, before it gets its place; what it returns goes into the report. May be nil.
	Check func(file string) (measured any, err error)
}

// Quantize writes the files and the report. After an error other than ErrInterrupted nothing is left of them.
func (r *GGUFRun) Quantize(ctx context.Context) (*Report, error) {
	x := r.run()
	if err := x.loadSequences(ctx); err != nil {
		return nil, err
	}
	if err := x.open(); err != nil {
		return nil, err
	}
	report, err := r.quantize(ctx, x, nil)
	return report, finish(ctx, x.dir, err)
}

// Merge joins the parts of Work below PartsFolder(r.Out) to the files: the bytes that Quantize writes. The parts stay.
func (r *GGUFRun) Merge(ctx context.Context) (*Report, error) {
	x := r.run()
	p, err := x.openParts()
	if err != nil {
		return nil, err
	}
	if err := x.open(); err != nil {
		return nil, err
	}
	report, err := r.quantize(ctx, x, p)
	return report, finish(ctx, x.dir, err)
}

// run is the run of the work.
func (r *GGUFRun) run() *Run {
	return &Run{Plan: r.plan, Out: r.Out, Mode: r.Mode, Progress: r.Progress, Started: r.Started, Loaded: r.Loaded, Stage: r.Stage}
}

// quantize does the work, or takes it from parts.
func (r *GGUFRun) quantize(ctx context.Context, x *Run, p *parts) (report *Report, err error) {
	defer x.out.Close()
	defer x.journal.close()
	if p != nil {
		err = x.join(ctx, p)
	} else {
		err = x.work(ctx, x.jobs())
	}
	if err != nil {
		return nil, err
	}
	if err := x.out.Close(); err != nil {
		return nil, err
	}
	if err := x.unchanged(); err != nil {
		return nil, err
	}
	report = r.report(x.outcomes, x.sums)
	if x.sequences != nil {
		report.Calibration.set(x.sequences)
	}
	if p != nil && p.calibration() != nil {
		report.Calibration = p.calibration()
	}
	if r.Check != nil {
		if report.Check, err = r.Check(filepath.Join(x.dir.Path(), r.Files[0].Name)); err != nil {
			return nil, err
		}
	}
	if err := x.prove(ctx, report); err != nil {
		return nil, err
	}
	last := r.Files[len(r.Files)-1]
	raw, err := report.encode(last.Size)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(x.journal.close(), stage.WriteFile(filepath.Join(x.dir.Path(), last.Name), raw)); err != nil {
		return nil, err
	}
	var names []string
	for _, f := range r.Files {
		names = append(names, f.Name)
	}
	return report, x.dir.CommitFiles(names...)
}
