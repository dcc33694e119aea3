package convert

import (
	"fmt"

	"nibble/build"
	"nibble/hf"
	"nibble/quant"
)

// Loss is what a quantized matrix lost against the original.
type Loss struct {
	Name   string      `json:"name"`
	SQNR   Decibel     `json:"sqnr_db"`
	Stated *Decibel    `json:"stated_sqnr_db,omitempty"` // by the build's report
	Noise  quant.Noise `json:"-"`
}

// Strays reports whether the measured figure is not the stated one: the report's has four decimals.
func (l *Loss) Strays() bool {
	if l.Stated == nil {
		return false
	}
	d := float64(l.SQNR - *l.Stated)
	return d > 1e-3 || d < -1e-3
}

// sameModel compares what the configs of a build and its original say about their sizes.
func sameModel(b, original *build.Build) error {
	x, y := b.Arch, original.Arch
	if x.Name != y.Name || x.Layers != y.Layers || x.Hidden != y.Hidden || x.Heads != y.Heads || x.KVHeads != y.KVHeads ||
		x.HeadDim != y.HeadDim || x.Vocab != y.Vocab || x.Experts != y.Experts || x.Intermediate < y.Intermediate {
		return fmt.Errorf("convert: the build is a %s of %d layers, hidden size %d, vocabulary %d, the original a %s of %d, %d, %d: "+
			"--against wants the model that the build was made of", x.Name, x.Layers, x.Hidden, x.Vocab, y.Name, y.Layers, y.Hidden, y.Vocab)
	}
	return nil
}

// lossJob measures one matrix against the original, in the blocks in which the quantizer accounted.
type lossJob struct {
	Loss
	rows   *rows
	blocks []quant.Noise
}

// loss prepares the measurement of a piece, nil without an original, or where the piece stands for multiples of its weights.
func (x *Expansion) loss(p *piece) (*lossJob, error) {
	if x.Against == nil {
		return nil, nil
	}
	r, err := original(x.Against, p)
	if err != nil {
		return nil, err
	}
	n, k := p.tensor.Out(), p.tensor.In()
	if p.linear != nil {
		n, k = p.linear.Shape()
	}
	if x.Build.Arch.Intermediate > x.Against.Arch.Intermediate { // the MLP is padded
		switch p.tensor.Role {
		case hf.GateUp:
			r.halves, r.n = 2, n
		case hf.Gate, hf.Up:
			r.n = n
		case hf.Down:
			r.k = k
		}
	}
	if r.n != n || r.k != k {
		return nil, fmt.Errorf("convert: %s is [%d,%d], the original's is [%d,%d]: --against wants the model that the build was made of",
			p.tensor.Name, n, k, r.out, r.in)
	}
	l := &lossJob{rows: r, blocks: make([]quant.Noise, (n+block-1)/block)}
	l.Name = p.tensor.Module()
	if t := x.stated[l.Name]; t != nil {
		if l.Stated = t.SQNR; t.Folded {
			return nil, nil
		}
	}
	return l, nil
}

// original finds the rows of the original that a piece was made of.
func original(src *build.Build, p *piece) (*rows, error) {
	name := p.tensor.Name
	for _, t := range src.Tensors {
		switch {
		case t.Source == "":
		case t.Name == name:
			return newRows(src.Model, t)
		case t.Name == p.tensor.PartOf:
			first := 0
			for _, part := range t.Parts {
				if part.Module == p.tensor.Module() {
					r, err := newRows(src.Model, t)
					if err == nil {
						r.first, r.out, r.n = first, part.Rows, part.Rows
					}
					return r, err
				}
				first += part.Rows
			}
		}
	}
	if p.tensor.Role == hf.Head { // untied by the quantizer
		if e := src.Row(hf.Embedding); e != nil {
			return newRows(src.Model, *e)
		}
	}
	return nil, fmt.Errorf("convert: %s: the original has no %s", src.In(src.Folder.Weights), name)
}

func (l *lossJob) add(w *worker, m *quant.Matrix, row0 int) error {
	weights, err := l.rows.read(w, row0, m.N)
	if err != nil {
		return err
	}
	account(w, m, weights, l.blocks, row0)
	return nil
}

func (l *lossJob) finish() error {
	for _, b := range l.blocks {
		l.Noise.Merge(b)
	}
	l.SQNR = Decibel(l.Noise.SQNR())
	return nil
}
