package convert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"nibble/build"
	"nibble/calib"
	"nibble/gguf"
	"nibble/internal/stage"
	"nibble/internal/version"
	"nibble/safetensors"
)

// Run is one execution of a plan.
type Run struct {
	*Plan
	Out      string
	Mode     stage.Mode
	Progress Progress // may be nil

	Resumed int                      // jobs that were found finished
	Started func(finished, all int)  // told before the work starts what an earlier run left; may be nil
	Loaded  func(s *calib.Sequences) // told what the calibration text gave; may be nil
	Stage   Stage                    // told what calibration is about; may be nil

	dir       *stage.Dir
	out       output
	journal   *journal
	done      map[string]entry // finished before this run
	outcomes  map[string]*outcome
	sums      map[string]string // SHA-256 of the source's files
	sequences *calib.Sequences
	scaled    map[*Item]*scaling // items that are not as in the source
	share     *share             // nil: all of the plan
	unchanged func() error       // of the source
	began     time.Time
}

// output are the files that a plan lays out.
type output interface {
	WriteAt(tensor string, p []byte, off int64) error
	ReadAt(tensor string, p []byte, off int64) error
	Close() error
}

// Stage is told which matrices of a layer, -1 for the head, are calibrated next, and the mean loss of those before: the squared
// error of their outputs over the outputs, 0 at first.
type Stage func(layer int, stage string, loss float64)

// ErrInterrupted is the cause when the context ended. What is finished stays for a resume.
var ErrInterrupted = errors.New("interrupted")

// Quantize runs the plan and returns the report of the build. After an error other than ErrInterrupted nothing is left
// of the output.
//
// check, which may be nil, looks at the finished folder before it gets its name; what it returns goes into the report.
func (r *Run) Quantize(ctx context.Context, check func(dir string) (measured any, err error)) (*Report, error) {
	if err := r.loadSequences(ctx); err != nil {
		return nil, err
	}
	if err := r.open(); err != nil {
		return nil, err
	}
	report, err := r.quantize(ctx, check)
	return report, finish(ctx, r.dir, err)
}

// Unmeasured is the error of a check that could not measure a build with which nothing is wrong. The build stays for a
// resume: hours of work are not lost to a text that is too short.
type Unmeasured struct{ Err error }

// Unwrap returns the cause.
func (u *Unmeasured) Unwrap() error { return u.Err }

// Error is the cause.
func (u *Unmeasured) Error() string { return u.Err.Error() }

// finish ends a run: the folder was committed, is left for a resume, or goes.
func finish(ctx context.Context, dir *stage.Dir, err error) error {
	var unmeasured *Unmeasured
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unmeasured) && ctx.Err() == nil:
		dir.Leave()
		return fmt.Errorf("%w; the build itself is done: --resume without --check finishes it", err)
	case ctx.Err() != nil:
		dir.Leave()
		return fmt.Errorf("%w; --resume continues from %s", ErrInterrupted, dir.Path())
	}
	dir.Abort()
	return err
}

func (r *Run) quantize(ctx context.Context, check func(dir string) (any, error)) (*Report, error) {
	defer r.out.Close()
	defer r.journal.close()
	if err := r.work(ctx, r.jobs()); err != nil {
		return nil, err
	}
	report := r.report(r.outcomes, r.sums)
	if r.sequences != nil {
		report.Calibration.set(r.sequences)
	}
	if err := r.complete(ctx, report, check); err != nil {
		return nil, err
	}
	return report, nil
}

// work does the jobs and what is decided while sequences run through the model.
func (r *Run) work(ctx context.Context, jobs []*job) error {
	if r.Started != nil {
		r.Started(r.Resumed, r.Resumed+len(jobs))
	}
	err := run(ctx, jobs, r.Threads, r.Progress)
	if err != nil || r.sequences == nil {
		return err
	}
	return r.calibrate(ctx)
}

// complete writes what is not weights, lets check look at the folder, and gives it its name.
func (r *Run) complete(ctx context.Context, report *Report, check func(dir string) (any, error)) error {
	if err := errors.Join(r.out.Close(), writeFiles(r.dir.Path(), r.Source.Model, r.texts)); err != nil {
		return err
	}
	if err := r.unchanged(); err != nil {
		return err
	}
	if check != nil {
		var err error
		if report.Check, err = check(r.dir.Path()); err != nil {
			return err
		}
	}
	if err := r.writeCard(report); err != nil {
		return err
	}
	if err := r.prove(ctx, report); err != nil {
		return err
	}
	raw, err := report.encode(r.Files[len(r.Files)-1].Size)
	if err != nil {
		return err
	}
	if err := stage.WriteFile(filepath.Join(r.dir.Path(), ReportName), raw); err != nil {
		return err
	}
	if err := errors.Join(r.journal.close(), stage.Discard(filepath.Join(r.dir.Path(), journalName))); err != nil {
		return err
	}
	return r.dir.Commit()
}

// open takes the unfinished folder, new or as an earlier run left it.
func (r *Run) open() (err error) {
	r.began = time.Now()
	if r.unchanged, err = Watch(r.Source); err != nil {
		return err
	}
	r.outcomes = map[string]*outcome{}
	if r.sums == nil { // a merge has them from the parts
		r.sums = map[string]string{}
	}
	space := r.activations()
	if err := room(r.Out, r.Bytes()+space); err != nil && r.Mode != stage.Resume {
		if space > 0 {
			err = fmt.Errorf("%w; %d MB are for the activations of %d tokens of calibration, fewer --samples take less", err, space/1e6, r.sequences.Tokens())
		}
		return err
	}
	dir, resumed, err := stage.Open(r.Out, r.Mode)
	if err != nil {
		return err
	}
	if r.dir = dir; resumed {
		switch err = r.resume(); {
		case err == nil:
			return nil
		case !errors.Is(err, fs.ErrNotExist):
			dir.Leave()
			return fmt.Errorf("%w; --overwrite starts again", err)
		}
		// Killed before the journal was there: nothing is lost by starting again.
		if err := dir.Abort(); err != nil {
			return err
		}
		if r.dir, _, err = stage.Open(r.Out, stage.Fresh); err != nil {
			return err
		}
	}
	if err := r.create(); err != nil {
		r.dir.Abort()
		return err
	}
	return nil
}

func (r *Run) create() error {
	plan, err := r.head()
	if err != nil {
		return err
	}
	if r.Weights == nil {
		r.out, err = gguf.Create(r.dir.Path(), r.gguf.File)
	} else {
		r.out, err = safetensors.Create(r.dir.Path(), r.Weights)
	}
	if err != nil {
		return err
	}
	r.journal, err = createJournal(filepath.Join(r.dir.Path(), journalName), plan)
	return err
}

func (r *Run) resume() error {
	plan, err := r.head()
	if err != nil {
		return err
	}
	if r.journal, r.done, err = resumeJournal(filepath.Join(r.dir.Path(), journalName), plan); err != nil {
		return err
	}
	if r.Weights == nil {
		r.out, err = gguf.Reopen(r.dir.Path(), r.gguf.File)
	} else {
		r.out, err = safetensors.Reopen(r.dir.Path(), r.Weights)
	}
	if err != nil {
		r.journal.close()
		return err
	}
	return nil
}

// activations is the space that a pass of the calibration sequences takes beside the output.
func (r *Run) activations() int64 {
	if r.sequences == nil {
		return 0
	}
	return calib.Space(r.Source.Arch, r.sequences.Tokens(), r.drifts())
}

// room reports a file system that is too small before anything is written.
func room(out string, need int64) error {
	free, err := stage.Free(filepath.Dir(out))
	if err != nil {
		return err
	}
	if free < need {
		return fmt.Errorf("no space for %s: it takes %d bytes, %d are free", out, need, free)
	}
	return nil
}

// digest covers everything that decides the output: a journal written under another digest is of no use.
func (r *Run) digest() (string, error) {
	h := sha256.New()
	r.describe(h)
	if r.sequences != nil {
		fmt.Fprintf(h, "%s %t %s\n", r.sequences.Digest(), r.Calibration.Independent, r.Calibration.Kernel)
	}
	if err := identify(h, r.Source); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// describe writes everything that decides the output but what the source's files and the calibration text hold.
func (p *Plan) describe(h io.Writer) {
	fmt.Fprintf(h, "nibble %s\n", version.Number())
	if p.gguf != nil {
		p.gguf.digest(h)
	}
	for _, t := range p.texts {
		fmt.Fprintf(h, "%s %d %s\n", t.name, len(t.content), t.content)
	}
	if p.Weights != nil {
		for _, f := range p.Weights.Files {
			fmt.Fprintf(h, "%s %x\n", f.Name, sha256.Sum256(f.Header))
		}
	}
	for i := range p.Items {
		it := &p.Items[i]
		fmt.Fprintf(h, "%s %s %d", it.Name, it.Tensor.Source, it.Tensor.Offset)
		if s := it.Spec; s != nil {
			fmt.Fprintf(h, " %d %d %d %s %s %t %t", s.Bits, s.Group, s.Zero, s.Method, s.Scale, s.Signed, s.Int8)
		}
		fmt.Fprintln(h)
	}
}

// identify writes what tells one state of a model's files from another without reading them.
func identify(w io.Writer, b *build.Build) error {
	for _, f := range b.Stored() {
		info, err := fs.Stat(b.FS, f.Name)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s %d %d\n", f.Name, info.Size(), info.ModTime().UnixNano())
	}
	return nil
}

// SourceDigest names a state of a model: its config and its files, by size and time.
func SourceDigest(b *build.Build) (string, error) {
	h := sha256.New()
	h.Write(b.Config.Raw())
	if err := identify(h, b); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
