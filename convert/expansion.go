package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"nibble/build"
	"nibble/hf"
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
	Files   []File
	Notes   []string

	report *Report                  // of the build; nil if it has none
	stated map[string]*ReportTensor // what the report states of a module
	pieces []piece
	texts  []text
	head   bool // the head is left out: it equals the embedding it was tied to
}

// piece is a tensor of the build and where it goes.
type piece struct {
	tensor hf.Tensor
	linear quant.Linear // nil for a float tensor
	target string       // output tensor
	at     int64        // first element in it
}

// NewExpansion plans the expansion of a build.
func NewExpansion(b *build.Build, dtype safetensors.DType, maxShard int64) (*Expansion, error) {
	switch {
	case b.Reader == nil && b.Origin == nil:
		return nil, fmt.Errorf("convert: %s is not quantized: nothing to expand", b.In("config.json"))
	case len(b.Defects) > 0:
		return nil, fmt.Errorf("convert: %s: %w", b.In(b.Folder.Weights), b.Defects[0])
	case len(b.Missing) > 0:
		return nil, fmt.Errorf("convert: %s: %s is missing, in float and quantized", b.In(b.Folder.Weights), b.Missing[0])
	}
	x := &Expansion{Build: b, DType: dtype, MaxShard: maxShard, Threads: 1}
	var err error
	if x.report, err = ReadReport(b); err != nil {
		return nil, err
	}
	x.stated = map[string]*ReportTensor{}
	if x.report != nil {
		for i := range x.report.Tensors {
			x.stated[x.report.Tensors[i].Name] = &x.report.Tensors[i]
		}
	}
	if err := x.untie(); err != nil {
		return nil, err
	}
	if err := x.layOut(); err != nil {
		return nil, err
	}
	return x, x.files()
}

// ReadReport reads the report beside a build, nil if there is none.
func ReadReport(b *build.Build) (*Report, error) {
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
	config, err := x.config()
	if err != nil {
		return err
	}
	if index := x.Weights.Index(); index != nil {
		x.texts = append(x.texts, text{indexName, index})
	}
	x.texts = append(x.texts, text{"config.json", config})
	var skipped []string
	if x.Files, skipped, err = listFiles(x.Build.Model, x.Weights, x.texts); err != nil {
		return err
	}
	if len(skipped) > 0 {
		x.Notes = append(x.Notes, "not carried over: "+strings.Join(skipped, ", "))
	}
	return nil
}

// Bytes returns the size of the whole output.
func (x *Expansion) Bytes() int64 { return totalSize(x.Files) }

// Matrices returns the number of quantized matrices; of a GGUF file, that of all.
func (x *Expansion) Matrices() int {
	n := 0
	for i := range x.pieces {
		if x.pieces[i].linear != nil || x.Build.Origin != nil && len(x.pieces[i].tensor.Shape) > 1 {
			n++
		}
	}
	return n
}
