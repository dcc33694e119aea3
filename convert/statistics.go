package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"nibble/build"
	"nibble/calib"
	"nibble/hf"
	"nibble/internal/stage"
	"nibble/runtime"
)

// inputs shows what the matrices of a model receive: a pass of the sequences, or what an earlier one of the float model has left.
type inputs interface {
	Layer(ctx context.Context, index int, solve calib.Solve) error
	Head(ctx context.Context, head []hf.Tensor, solve calib.Solve) error
}

// statistics are those of a float model and a text in a folder of caches.
type statistics struct {
	*Calibration
	src           *build.Build
	model, tokens string // checksums
	kind          calib.Kind
}

func (s *statistics) key(kind calib.Kind) string {
	return calib.StatisticsKey(s.model, s.tokens+s.Kernel, runtime.A16, kind)
}

// open returns what an earlier run has left, nil if that is nothing. Diagonals alone are added up in another way than those of
// moments.
func (s *statistics) open() (*calib.Replay, error) {
	if s == nil {
		return nil, nil
	}
	last := calib.Aheads
	if s.kind == calib.Diagonals {
		last = calib.Diagonals
	}
	for kind := s.kind; kind <= last; kind++ {
		r, err := calib.OpenReplay(s.Cache, s.key(kind), kind, s.src.Tensors)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && s.Reused != nil {
			s.Reused(r.Name())
		}
		return r, err
	}
	return nil, nil
}

// statistics returns where the run's are kept; nil if it has no cache, or its layers do not see float predecessors.
func (r *Run) statistics() (*statistics, error) {
	c := r.Calibration
	if c.Cache == "" || !c.Independent {
		return nil, nil
	}
	s := &statistics{Calibration: c, src: r.Source, tokens: r.sequences.Digest(), kind: calib.Diagonals}
	if r.full() {
		s.kind = calib.Moments
	}
	if slices.ContainsFunc(r.Items, func(it Item) bool { return it.Spec != nil && it.out != nil }) {
		s.kind = calib.Aheads
	}
	var err error
	s.model, err = ModelDigest(r.Source)
	return s, err
}

// headTensor is the matrix that makes the logits; of a tied model as it is when it is taken out of the embedding.
func headTensor(b *build.Build) hf.Tensor {
	if head := b.Row(hf.Head); head != nil {
		return *head
	}
	head := *b.Row(hf.Embedding)
	head.Name, head.Role, head.Input = headName(b), hf.Head, ""
	return head
}

// recording returns the file that a pass of the float model writes for later runs, nil for none.
func (s *statistics) recording(wanted bool) (*calib.Recorder, error) {
	if s == nil || !wanted {
		return nil, nil
	}
	if err := room(filepath.Join(s.Cache, "what matrices receive"), calib.StatisticsSpace(s.src, s.kind)); err != nil {
		return nil, fmt.Errorf("--calib-cache: %w", err)
	}
	r, err := calib.NewRecorder(s.Cache, s.key(s.kind), s.kind)
	if errors.Is(err, stage.ErrInUse) { // another run writes the same
		return nil, nil
	}
	return r, err
}
