package convert

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"nibble/build"
	"nibble/gguf"
	codec "nibble/gguf/block"
	"nibble/gguf/mix"
	"nibble/gguf/names"
	"nibble/hf"
	"nibble/loader"
	"nibble/quant"
	"nibble/safetensors"
	"nibble/tokenizer"
)

// GGUFSettings are everything that decides a GGUF file, apart from the source.
type GGUFSettings struct {
	Mix *mix.Mix
	mix.Options
	Allotment   *Allotment           // that decides in place of the mixture; nil: none
	Name        string               // of the model
	Weights     map[string][]float32 // of the columns by tensor, one behind the other for every expert; nil: none
	WeightsFrom string               // where they come from, for the report
	Method      string               // quant.Search, or one that passes errors on; "" is search
	Calibration *Calibration         // what the method looks at; nil: the weights alone
	Command     string               // as in Settings
	Measured    bool                 // the report will say how the build did on a text
	MaxShard    int64                // bytes of tensors in a file; 0: there is one
	MaxMemory   int64                // 0: no limit
	MemoryOf    string               // as in Settings
	Threads     int
}

// Analysis are the settings of the analysis by which the types of such a file are chosen.
func (s GGUFSettings) Analysis() Settings {
	return Settings{Calibration: s.Calibration, MaxMemory: s.MaxMemory, MemoryOf: s.MemoryOf, Threads: s.Threads}
}

// GGUFPlan is everything about a GGUF file that is known before weights are read.
type GGUFPlan struct {
	GGUFSettings
	Source  *build.Build
	Out     string // the file
	Tensors []GGUFTensor
	File    *gguf.Plan
	Files   []File // the files, and the report beside them
	Params  int64  // weights of the source
	Notes   []string

	plan *Plan // of the work

	// What does not depend on types: the file's name without its ending, the metadata before the number of the mixture and behind it, and
	// the tensors.
	base                 string
	settings, vocabulary []gguf.Entry
	list                 []names.Tensor
}

// GGUFTensor is a tensor of the file.
type GGUFTensor struct {
	names.Tensor
	Type codec.Type
}

// The names of the embedding and of a head that is not the embedding.
const (
	ggufEmbedding = "token_embd.weight"
	ggufHead      = "output.weight"
)

// GGUFMethods are the methods that make GGUF files. None of them scales: norms stay as they are.
var GGUFMethods = []string{quant.Search, quant.GPTQ, quant.Best}

// NewGGUF plans a file. out is its name, which ends in .gguf.
func NewGGUF(src *build.Build, s GGUFSettings, out string) (*GGUFPlan, error) {
	p, err := prepareGGUF(src, s, out)
	if err != nil {
		return nil, err
	}
	return p, p.layOut()
}

// prepareGGUF plans all but the types.
func prepareGGUF(src *build.Build, s GGUFSettings, out string) (*GGUFPlan, error) {
	if src.Reader != nil {
		return nil, fmt.Errorf("convert: %s is %w (%s); dequantize it first, or start from the original", src.In("config.json"), ErrQuantized, src.Reader.Format())
	}
	base, ok := strings.CutSuffix(filepath.Base(out), ".gguf")
	if !ok || base == "" {
		return nil, fmt.Errorf("convert: %s: the name of a GGUF file ends in .gguf", out)
	}
	s.Method = cmp.Or(s.Method, quant.Search)
	if !slices.Contains(GGUFMethods, s.Method) {
		return nil, fmt.Errorf("convert: method %q in a GGUF file: it can be %s", s.Method, strings.Join(GGUFMethods, ", "))
	} else if (quant.Spec{Method: s.Method}).FeedsBack() && s.Calibration == nil {
		return nil, fmt.Errorf("convert: method %q needs calibration", s.Method)
	}
	p := &GGUFPlan{GGUFSettings: s, Source: src, Out: out, base: base}
	var notes []string
	var err error
	if p.settings, notes, err = names.Settings(src.Arch); err != nil {
		return nil, err
	}
	p.Notes = append(p.Notes, src.Notes...)
	p.Notes = append(p.Notes, notes...)
	var left []string
	if p.list, left, err = names.Tensors(src.Model); err != nil {
		return nil, err
	}
	if len(left) > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d tensors have no place in a GGUF file and are left out, %s for one", len(left), left[0]))
	}
	p.settings = append(p.settings, gguf.Entry{Key: "general.name", Value: s.Name}, gguf.Entry{Key: "general.quantization_version", Value: uint32(2)})
	for i := range src.Tensors {
		p.Params += src.Tensors[i].Elements()
	}
	p.vocabulary, err = p.tokenizer()
	return p, err
}

// layOut chooses the types, and fixes every byte that is not a weight and the place of those that are.
func (p *GGUFPlan) layOut() (err error) {
	specs := p.choose()
	metadata := slices.Concat(p.settings, []gguf.Entry{{Key: "general.file_type", Value: p.FileType()}}, p.vocabulary)
	if p.File, err = gguf.NewPlan(p.base, metadata, specs, p.MaxShard); err != nil {
		return err
	}
	for _, f := range p.File.Files {
		p.Files = append(p.Files, File{f.Name, f.Size})
	}
	if err := cmp.Or(p.checkWeights(), p.items()); err != nil {
		return err
	}
	p.Files = append(p.Files, File{p.base + reportSuffix, p.reportSize()})
	p.plan.Files = p.Files
	return nil
}

// items lists the work: a matrix or vector of the source, or a computed tensor, each.
func (p *GGUFPlan) items() error {
	p.plan = &Plan{Settings: Settings{Allotment: p.Allotment, Calibration: p.Calibration, Measured: p.Measured, MaxMemory: p.MaxMemory, MemoryOf: p.MemoryOf, Threads: p.Threads},
		Source: p.Source, Params: p.Params, gguf: p}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		size := blockBytes(t.Type, t.Shape)
		if len(t.Sources) == 0 {
			it := Item{Outputs: stored(t.Name, size), place: &place{tensor: t}}
			it.Name = t.Name
			p.plan.Items = append(p.plan.Items, it)
			continue
		}
		size /= int64(len(t.Sources))
		for j, s := range t.Sources {
			it := Item{Tensor: *s, Outputs: stored(t.Name, size), place: &place{t, j, int64(j) * size}}
			if it.Name = s.Name; len(s.Shape) >= 2 {
				it.Module = loader.NewModule(s)
				it.Name = s.Name
				it.Spec, it.solve = blockSpec(t.Type, p.Method), blockSolver(t.Type)
				var err error
				if it.rows, err = newRows(p.Source.Model, *s); err != nil {
					return err
				}
			}
			p.plan.Items = append(p.plan.Items, it)
		}
	}
	if err := p.plan.memory(); err != nil {
		return err
	}
	p.Threads = p.plan.Threads
	return nil
}

// Work returns the plan of the work, for Parts of it.
func (p *GGUFPlan) Work() *Plan { return p.plan }

// apart returns a copy of the plan. Items of a GGUF file, which may be parts of a tensor, have tensors of their own in it, by their
// names.
func (p *Plan) apart() *Plan {
	q := *p
	if p.gguf == nil {
		return &q
	}
	q.Items = slices.Clone(p.Items)
	for i := range q.Items {
		it := &q.Items[i]
		alone := *it.place
		alone.first = 0
		it.place, it.Outputs = &alone, stored(it.Name, bytesOf(it.Outputs[0]))
	}
	return &q
}

// stored is the output of an item: so many bytes of a tensor.
func stored(name string, size int64) []safetensors.Spec {
	return []safetensors.Spec{{Name: name, DType: safetensors.U8, Shape: []int{int(size)}}}
}

// blockBytes returns the bytes of a tensor.
func blockBytes(t codec.Type, shape []int) int64 {
	n := int64(t.Bytes())
	for i, d := range shape {
		if i == len(shape)-1 {
			d /= t.Size()
		}
		n *= int64(d)
	}
	return n
}

// digest writes what decides the file, apart from the source.
func (p *GGUFPlan) digest(w io.Writer) {
	for _, f := range p.File.Files {
		fmt.Fprintf(w, "%s %x\n", f.Name, sha256.Sum256(f.Header))
	}
	for _, t := range p.Tensors {
		for _, x := range p.Weights[t.Name] {
			fmt.Fprintf(w, "%x ", math.Float32bits(x))
		}
	}
}

// tokenizer returns the entries of the tokenizer. A model without files of one gets an entry that says so.
func (p *GGUFPlan) tokenizer() ([]gguf.Entry, error) {
	read := func(name string) ([]byte, error) {
		raw, err := fs.ReadFile(p.Source.FS, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return raw, err
	}
	raw, err := read("tokenizer.json")
	if err != nil {
		return nil, err
	}
	if raw == nil {
		if _, err := fs.Stat(p.Source.FS, "tokenizer.model"); err == nil {
			return nil, fmt.Errorf("convert: %s is there without a tokenizer.json: only that is converted", p.Source.In("tokenizer.model"))
		}
		p.Notes = append(p.Notes, "there is no tokenizer.json, so the file has no tokenizer")
		return []gguf.Entry{{Key: "tokenizer.ggml.model", Value: names.None}}, nil
	}
	config, err := read("tokenizer_config.json")
	if err != nil {
		return nil, err
	}
	template, err := tokenizer.ChatTemplate(p.Source.FS)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return names.Tokenizer(raw, config, template, p.Source.Row(hf.Embedding).Out())
}

// choose gives every tensor its type.
func (p *GGUFPlan) choose() (specs []gguf.Spec) {
	a := p.Source.Arch
	m := mix.Model{Arch: p.settings[0].Value.(string), Layers: a.Layers, Heads: a.Heads, KVHeads: a.KVHeads, Experts: a.Experts, Tied: tiedGGUF(p.list),
		Weighted: p.Weights != nil || p.Calibration != nil}
	for i := range p.list {
		layer := -1
		if s := p.list[i].Sources; len(s) > 0 {
			layer = s[0].Layer
		}
		t := GGUFTensor{p.list[i], codec.F32}
		switch {
		case t.F32:
		case p.Allotment != nil:
			t.Type = p.Allotment.types[t.Name] // F32 for what has none
		default:
			t.Type = p.Mix.Type(m, p.Options, t.Name, t.Shape, layer)
		}
		p.Tensors = append(p.Tensors, t)
		specs = append(specs, gguf.Spec{Name: t.Name, Type: t.Type, Shape: t.Shape})
	}
	return specs
}

// tiedGGUF reports whether the head of a file is its embedding.
func tiedGGUF(list []names.Tensor) bool {
	return !slices.ContainsFunc(list, func(t names.Tensor) bool { return t.Name == ggufHead })
}

// FileType is the number that general.file_type has, that of the mixture; where each tensor has a type of its own, that of the type of most weights.
func (p *GGUFPlan) FileType() uint32 {
	if p.Allotment == nil {
		return p.Mix.FileType
	}
	weights, most := map[codec.Type]int64{}, codec.F32
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if _, chosen := p.Allotment.types[t.Name]; chosen {
			weights[t.Type] += blockBytes(codec.F32, t.Shape) / 4
		}
	}
	for _, t := range slices.Sorted(maps.Keys(weights)) {
		if weights[t] > weights[most] {
			most = t
		}
	}
	return mix.FileType(most)
}

// BitsPerWeight counts all bytes of all tensors over all weights of the source.
func (p *GGUFPlan) BitsPerWeight() float64 { return bitsPerWeight(p.File.Bytes, p.Params) }

// Bytes returns the size of the output.
func (p *GGUFPlan) Bytes() int64 { return totalSize(p.Files) }

// Costs returns the input bytes of every job, by name, for a progress display.
func (p *GGUFPlan) Costs() map[string]int64 { return p.plan.Costs() }

// Layers names the part of the model that a job belongs to.
func (p *GGUFPlan) Layers() map[string]string { return p.plan.Layers() }

// checkWeights refuses weights that do not fit the tensors.
func (p *GGUFPlan) checkWeights() error {
	met := 0
	for i := range p.Tensors {
		t := &p.Tensors[i]
		w, ok := p.Weights[t.Name]
		if !ok || len(t.Shape) < 2 {
			continue
		}
		met++
		want := t.Shape[len(t.Shape)-1] * len(t.Sources)
		if len(w) != want {
			return fmt.Errorf("convert: %s: %d weights of columns, the tensor has %d", t.Name, len(w), want)
		}
		for _, x := range w {
			if !(x >= 0 && x <= math.MaxFloat32) {
				return fmt.Errorf("convert: %s: the weight of a column is %v", t.Name, x)
			}
		}
	}
	if p.Weights != nil && met == 0 {
		return errors.New("convert: the weights of columns are for none of the model's tensors")
	}
	return nil
}
