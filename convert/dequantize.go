package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"nibble/build"
	"nibble/hf"
	"nibble/internal/stage"
	"nibble/quant"
	"nibble/safetensors"
)

// Expansion turns a build into a plain checkpoint: every quantized matrix becomes the floats that its loaders compute
// with, under the names and in the shapes of the original architecture.
type Expansion struct {
	Build    *build.Build
	DType    safetensors.DType // BF16, F16 or F32, of all float tensors
	Against  *build.Build      // the original, to measure the loss; nil: do not
	MaxShard int64
	Threads  int

	Weights *safetensors.Plan
	Config  []byte
	Files   []File
	Notes   []string

	report *Report // of the build; nil if it has none
	pieces []piece
	head   bool // the head is left out: it equals the embedding it was tied to
}

// piece is a tensor of the build and where it goes.
type piece struct {
	tensor hf.Tensor
	linear quant.Linear // nil for a float tensor
	target string       // output tensor
	at     int64        // first element in it
}

// Loss is what a quantized matrix lost against the original.
type Loss struct {
	Name   string   `json:"name"`
	SQNR   Decibel  `json:"sqnr_db"`
	Stated *Decibel `json:"stated_sqnr_db,omitempty"` // by the build's report
	noise  quant.Noise
}

// NewExpansion plans the expansion of a build.
func NewExpansion(b *build.Build, dtype safetensors.DType, maxShard int64) (*Expansion, error) {
	switch {
	case b.Reader == nil:
		return nil, fmt.Errorf("convert: %s is not quantized: nothing to expand", b.In("config.json"))
	case len(b.Defects) > 0:
		return nil, fmt.Errorf("convert: %s: %w", b.In(b.Folder.Weights), b.Defects[0])
	case len(b.Missing) > 0:
		return nil, fmt.Errorf("convert: %s: %s is missing, in float and quantized", b.In(b.Folder.Weights), b.Missing[0])
	}
	x := &Expansion{Build: b, DType: dtype, MaxShard: maxShard, Threads: 1}
	var err error
	if x.report, err = readReport(b); err != nil {
		return nil, err
	}
	if err := x.untie(); err != nil {
		return nil, err
	}
	if err := x.layOut(); err != nil {
		return nil, err
	}
	if x.Config, err = x.config(); err != nil {
		return nil, err
	}
	return x, x.files()
}

// readReport reads the report beside a build, nil if there is none.
func readReport(b *build.Build) (*Report, error) {
	f, err := b.FS.Open(ReportName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, 256<<20))
	if err != nil {
		return nil, err
	}
	r := new(Report)
	if json.Unmarshal(raw, r) != nil || r.Tensors == nil {
		return nil, nil // another tool's file of that name
	}
	return r, nil
}

// untie leaves out the head of a model that was tied, if it still equals the embedding.
func (x *Expansion) untie() error {
	if x.report == nil || !x.report.Source.Tied {
		return nil
	}
	same, err := x.Build.HeadIsEmbedding()
	x.head = same
	return err
}

// layOut places every tensor, in the order of the architecture.
func (x *Expansion) layOut() error {
	b := x.Build
	stacked := x.report != nil && x.report.Source.StackedExperts
	var specs []safetensors.Spec
	have := map[string]bool{}
	add := func(name string, d safetensors.DType, shape []int) {
		if !have[name] {
			have[name] = true
			specs = append(specs, safetensors.Spec{Name: name, DType: d, Shape: shape})
		}
	}
	filled := map[string]int64{} // rows of a fused matrix that earlier parts took, in elements
	for _, t := range b.Tensors {
		if t.Role == hf.Head && x.head {
			continue
		}
		p := piece{tensor: t, target: t.Name}
		d := x.DType
		if t.Source == "" {
			p.linear = b.Linears[t.Module()]
		} else if s, _ := b.Set.Lookup(t.Source); !s.DType.IsFloat() {
			d = s.DType
		}
		name, shape, at := t.Stack()
		switch {
		case t.PartOf != "":
			whole := b.Arch.Tensor(t.PartOf)
			p.target, p.at = whole.Name, filled[whole.Name]
			filled[whole.Name] += t.Elements()
			add(whole.Name, d, whole.Shape)
		case stacked && name != "":
			p.target, p.at = name, at
			add(name, d, shape)
		default:
			add(t.Name, d, t.Shape)
		}
		x.pieces = append(x.pieces, p)
	}
	var err error
	x.Weights, err = safetensors.NewPlan(specs, map[string]string{"format": "pt"}, x.MaxShard)
	return err
}

// config is the build's config.json without what quantization added.
func (x *Expansion) config() ([]byte, error) {
	c := x.Build.Config
	var err error
	for _, key := range []string{"quantization_config", "compression_config"} {
		if c, err = c.Delete(key); err != nil {
			return nil, err
		}
	}
	name := map[safetensors.DType]string{safetensors.BF16: `"bfloat16"`, safetensors.F16: `"float16"`, safetensors.F32: `"float32"`}[x.DType]
	if key := c.DTypeKey(); key != "" {
		if c, err = c.Set(key, []byte(name)); err != nil {
			return nil, err
		}
	}
	if x.head {
		if c, err = c.Set("tie_word_embeddings", []byte("true")); err != nil {
			return nil, err
		}
	}
	return c.Raw(), nil
}

func (x *Expansion) files() error {
	for _, f := range x.Weights.Files {
		x.Files = append(x.Files, File{f.Name, f.Size})
	}
	if index := x.Weights.Index(); index != nil {
		x.Files = append(x.Files, File{indexName, int64(len(index))})
	}
	x.Files = append(x.Files, File{"config.json", int64(len(x.Config))})
	carry, skipped := x.Build.Carry()
	for _, name := range carry {
		info, err := fs.Stat(x.Build.FS, name)
		if err != nil {
			return err
		}
		x.Files = append(x.Files, File{name, info.Size()})
	}
	for _, name := range skipped {
		x.Notes = append(x.Notes, "not carried over: "+name)
	}
	return nil
}

// Bytes returns the size of the whole output.
func (x *Expansion) Bytes() int64 {
	var n int64
	for _, f := range x.Files {
		n += f.Size
	}
	return n
}

// Run writes the plain checkpoint to the folder out, and returns what every quantized matrix lost if the original is
// known.
func (x *Expansion) Run(ctx context.Context, out string, mode stage.Mode, progress Progress) ([]*Loss, error) {
	if err := room(out, x.Bytes()); err != nil {
		return nil, err
	}
	dir, _, err := stage.Open(out, mode)
	if err != nil {
		return nil, err
	}
	losses, err := x.run(ctx, dir, progress)
	if err != nil {
		dir.Abort()
		if ctx.Err() != nil {
			err = ErrInterrupted
		}
		return nil, err
	}
	return losses, nil
}

func (x *Expansion) run(ctx context.Context, dir *stage.Dir, progress Progress) ([]*Loss, error) {
	w, err := safetensors.Create(dir.Path(), x.Weights)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	var jobs []*job
	var losses []*Loss
	for i := range x.pieces {
		p := &x.pieces[i]
		if p.linear == nil {
			jobs = append(jobs, x.float(p, w))
			continue
		}
		loss, err := x.loss(p)
		if err != nil {
			return nil, err
		}
		if loss != nil {
			losses = append(losses, &loss.Loss)
		}
		jobs = append(jobs, x.expand(p, w, loss))
	}
	if err := run(ctx, jobs, x.Threads, progress); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	own := map[string][]byte{"config.json": x.Config}
	if index := x.Weights.Index(); index != nil {
		own[indexName] = index
	}
	for name, content := range own {
		if err := os.WriteFile(filepath.Join(dir.Path(), name), content, 0o666); err != nil {
			return nil, err
		}
	}
	carry, _ := x.Build.Carry()
	for _, name := range carry {
		if err := copyFile(x.Build.FS, name, dir.Path()); err != nil {
			return nil, err
		}
	}
	return losses, dir.Commit()
}

// float converts a float tensor, or copies one that is not.
func (x *Expansion) float(p *piece, w *safetensors.Writer) *job {
	s, _ := x.Build.Set.Lookup(p.tensor.Source)
	from := int64(s.DType.Bits())
	to := from
	if s.DType.IsFloat() {
		to = int64(x.DType.Bits())
	}
	const chunk = 1 << 20 // elements
	n := p.tensor.Elements()
	return &job{name: p.tensor.Name, rows: max(1, int((n+chunk-1)/chunk)), strip: 1, cost: min(n, chunk) * from / 8,
		run: func(k *worker, row0, _ int) error {
			first := int64(row0) * chunk
			count := min(chunk, n-first)
			raw := grow(&k.raw, int(count*from/8))
			if err := x.Build.Set.ReadAt(p.tensor.Source, raw, (p.tensor.Offset+first)*from/8); err != nil {
				return err
			}
			if s.DType.IsFloat() && s.DType != x.DType {
				floats := grow(&k.floats, int(count))
				decode(s.DType, floats, raw)
				raw = grow(&k.raw, int(count*to/8))
				encode(x.DType, raw, floats)
			}
			return w.WriteAt(p.target, raw, (p.at+first)*to/8)
		}}
}

// expand dequantizes a matrix strip by strip.
func (x *Expansion) expand(p *piece, w *safetensors.Writer, loss *lossJob) *job {
	n, k := p.linear.Shape()
	size := int64(x.DType.Bits() / 8)
	strip := max(block, (2<<20)/k/block*block)
	j := &job{name: p.tensor.Module(), rows: n, strip: strip, cost: int64(k) / 2}
	j.run = func(wk *worker, row0, rows int) error {
		m, err := p.linear.Rows(row0, rows)
		if err != nil {
			return err
		}
		if loss != nil {
			if err := loss.add(wk, m, row0); err != nil {
				return err
			}
		}
		if p.tensor.Transposed {
			return x.columns(p, w, wk, m, row0, n)
		}
		row, raw := grow(&wk.row, k), grow(&wk.raw, rows*k*int(size))
		for i := range rows {
			m.DequantizeRow(row, i)
			encode(x.DType, raw[i*k*int(size):], row)
		}
		return w.WriteAt(p.target, raw, (p.at+int64(row0)*int64(k))*size)
	}
	if loss != nil {
		j.done = loss.finish
	}
	return j
}

// columns stores rows of a matrix that its architecture keeps as [in, out].
func (x *Expansion) columns(p *piece, w *safetensors.Writer, wk *worker, m *quant.Matrix, row0, out int) error {
	size := int64(x.DType.Bits() / 8)
	all := grow(&wk.floats, m.N*m.K)
	for i := range m.N {
		m.DequantizeRow(all[i*m.K:(i+1)*m.K], i)
	}
	line, raw := grow(&wk.row, m.N), grow(&wk.raw, m.N*int(size))
	for k := range m.K {
		for i := range line {
			line[i] = all[i*m.K+k]
		}
		encode(x.DType, raw, line)
		if err := w.WriteAt(p.target, raw, (p.at+int64(k)*int64(out)+int64(row0))*size); err != nil {
			return err
		}
	}
	return nil
}

// lossJob measures one matrix against the original, in the blocks in which the quantizer accounted.
type lossJob struct {
	Loss
	rows   *rows
	blocks []quant.Noise
}

// loss prepares the measurement of a piece, nil without an original.
func (x *Expansion) loss(p *piece) (*lossJob, error) {
	if x.Against == nil {
		return nil, nil
	}
	r, err := original(x.Against, p)
	if err != nil {
		return nil, err
	}
	n, k := p.linear.Shape()
	if n != r.n {
		if p.tensor.Role == hf.GateUp {
			r.halves = 2
		}
		r.n = n
	}
	r.k = k
	if r.out > n || r.in > k {
		return nil, fmt.Errorf("convert: %s is [%d,%d], the original's is [%d,%d]", p.tensor.Name, n, k, r.out, r.in)
	}
	l := &lossJob{rows: r, blocks: make([]quant.Noise, (n+block-1)/block)}
	l.Name = p.tensor.Module()
	if x.report != nil {
		for _, t := range x.report.Tensors {
			if t.Name == l.Name {
				l.Stated = t.SQNR
			}
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
	row := grow(&w.row, m.K)
	for n := range m.N {
		m.DequantizeRow(row, n)
		l.blocks[(row0+n)/block].Add(weights[n*m.K:(n+1)*m.K], row)
	}
	return nil
}

func (l *lossJob) finish() error {
	for _, b := range l.blocks {
		l.noise.Merge(b)
	}
	l.SQNR = Decibel(l.noise.SQNR())
	return nil
}
