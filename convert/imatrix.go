package convert

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"nibble/build"
	"nibble/calib"
	"nibble/gguf/imatrix"
	"nibble/gguf/names"
	"nibble/hf"
	"nibble/internal/stage"
	"nibble/quant"
	"nibble/runtime"
)

// Imatrix runs a text through a float model and writes the mean squares of what enters the columns of its matrices, for whoever
// quantizes the GGUF form of the model.
type Imatrix struct {
	Source      *build.Build
	Calibration *Calibration
	Text        string // what the file says of the text
	Threads     int
	Loaded      func(s *calib.Sequences) // told what the text gave; may be nil
	Stage       Stage                    // told what comes next; may be nil
}

// Write writes the file out, whose name ends in .gguf, and returns how many matrices it is about. After an error nothing is left.
func (x *Imatrix) Write(ctx context.Context, out string, overwrite bool) (int, error) {
	if filepath.Ext(out) != ".gguf" {
		return 0, fmt.Errorf("convert: %s: the name of a GGUF file ends in .gguf", out)
	}
	sequences, err := x.Calibration.Load(ctx)
	if err != nil {
		return 0, err
	}
	if x.Loaded != nil {
		x.Loaded(sequences)
	}
	dir, _, err := stage.Open(out, stage.Anew(overwrite))
	if err != nil {
		return 0, err
	}
	list, err := x.entries(ctx, dir.Path(), sequences)
	if err == nil {
		err = imatrix.Write(dir.Path(), filepath.Base(out), x.Text, sequences.Tokens(), list)
	}
	if err == nil {
		return len(list), dir.CommitFiles(filepath.Base(out))
	}
	if dir.Abort(); ctx.Err() != nil {
		err = ErrInterrupted
	}
	return 0, err
}

// entries are the sums of all matrices that a text reaches, under the names of the GGUF file.
func (x *Imatrix) entries(ctx context.Context, dir string, s *calib.Sequences) (list []imatrix.Entry, err error) {
	inputs, err := x.pass(ctx, dir, s)
	if err != nil {
		return nil, err
	}
	tensors, _, err := names.Tensors(x.Source.Model)
	if err != nil {
		return nil, err
	}
	for _, t := range tensors {
		e := imatrix.Entry{Name: t.Name}
		for _, source := range t.Sources {
			m := inputs[source.Name]
			if m == nil {
				break
			}
			e.Counts = append(e.Counts, float32(m.Tokens))
			for _, v := range m.Diag {
				e.Sums = append(e.Sums, float32(v*float64(m.Tokens)))
			}
		}
		if n := len(e.Counts); n > 0 && n == len(t.Sources) {
			list = append(list, e)
		}
	}
	return list, nil
}

// pass shows the text to the model, and returns what the matrices receive, by the names of the source.
func (x *Imatrix) pass(ctx context.Context, dir string, s *calib.Sequences) (inputs map[string]*calib.Moment, err error) {
	pass, err := calib.NewPass(x.Source, s.IDs, calib.PassConfig{Dir: dir, Mode: runtime.A16, Threads: x.Threads,
		Step: func(layer int, name string) {
			if x.Stage != nil {
				x.Stage(layer, name, 0)
			}
		}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pass.Close()) }()
	inputs = map[string]*calib.Moment{}
	learn := func(in *calib.Input) (map[string]quant.Linear, error) {
		for _, t := range in.Tensors {
			inputs[t.Name] = in.Plain
		}
		return nil, nil
	}
	if err := pass.Begin(); err != nil {
		return nil, err
	}
	for i := range x.Source.Arch.Layers {
		if err := pass.Layer(ctx, i, learn); err != nil {
			return nil, err
		}
	}
	head := x.Source.Row(hf.Head)
	if head == nil {
		head = x.Source.Row(hf.Embedding)
	}
	return inputs, pass.Head(ctx, []hf.Tensor{*head}, learn)
}
