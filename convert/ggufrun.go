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
	if err := r.checkWeights(); err != nil {
		return nil, err
	}
	x := &Run{Plan: r.plan, Out: r.Out, Mode: r.Mode, Progress: r.Progress, Started: r.Started, Loaded: r.Loaded, Stage: r.Stage}
	if err := x.loadSequences(ctx); err != nil {
		return nil, err
	}
	if err := x.open(); err != nil {
		return nil, err
	}
	report, err := r.quantize(ctx, x)
	return report, finish(ctx, x.dir, err)
}

func (r *GGUFRun) quantize(ctx context.Context, x *Run) (*Report, error) {
	defer x.out.Close()
	if err := x.work(ctx, x.jobs()); err != nil {
		return nil, err
	}
	if err := x.out.Close(); err != nil {
		return nil, err
	}
	if err := x.unchanged(); err != nil {
		return nil, err
	}
	report := r.report(x.outcomes, x.sums)
	if x.sequences != nil {
		report.Calibration.set(x.sequences)
	}
	if r.Check != nil {
		var err error
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
