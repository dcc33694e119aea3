package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strings"

	"nibble/build"
	"nibble/gguf"
	codec "nibble/gguf/block"
	"nibble/gguf/mix"
	"nibble/gguf/names"
	"nibble/hf"
	"nibble/tokenizer"
)

// GGUFSettings are everything that decides a GGUF file, apart from the source.
type GGUFSettings struct {
	Mix *mix.Mix
	mix.Options
	Name        string               // of the model
	Weights     map[string][]float32 // of the columns by tensor, one behind the other for every expert; nil: none
	WeightsFrom string               // where they come from, for the report
	Calibration *Calibration         // makes the weights; nil: they are as given
	Threads     int
}

// GGUFPlan is everything about a GGUF file that is known before weights are read.
type GGUFPlan struct {
	GGUFSettings
	Source  *build.Build
	Out     string // the file
	Tensors []GGUFTensor
	File    *gguf.Plan
	Files   []File // the file and the report beside it
	Params  int64  // weights of the source
	Notes   []string
}

// GGUFTensor is a tensor of the file.
type GGUFTensor struct {
	names.Tensor
	Type codec.Type
}

// NewGGUF plans a file. out is its name, which ends in .gguf.
func NewGGUF(src *build.Build, s GGUFSettings, out string) (*GGUFPlan, error) {
	if src.Reader != nil {
		return nil, fmt.Errorf("convert: %s is already quantized (%s); dequantize it first, or start from the original", src.In("config.json"), src.Reader.Format())
	}
	base, ok := strings.CutSuffix(filepath.Base(out), ".gguf")
	if !ok || base == "" {
		return nil, fmt.Errorf("convert: %s: the name of a GGUF file ends in .gguf", out)
	}
	p := &GGUFPlan{GGUFSettings: s, Source: src, Out: out}
	metadata, notes, err := names.Settings(src.Arch)
	if err != nil {
		return nil, err
	}
	p.Notes = append(p.Notes, src.Notes...)
	p.Notes = append(p.Notes, notes...)
	list, left, err := names.Tensors(src.Model)
	if err != nil {
		return nil, err
	}
	if len(left) > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d tensors have no place in a GGUF file and are left out, %s for one", len(left), left[0]))
	}
	metadata = append(metadata, gguf.Entry{Key: "general.name", Value: s.Name}, gguf.Entry{Key: "general.quantization_version", Value: uint32(2)},
		gguf.Entry{Key: "general.file_type", Value: s.Mix.FileType})
	vocabulary, err := p.tokenizer()
	if err != nil {
		return nil, err
	}
	specs := p.choose(metadata[0].Value.(string), list)
	if p.File, err = gguf.NewPlan(base, append(metadata, vocabulary...), specs, 0); err != nil {
		return nil, err
	}
	for i := range src.Tensors {
		p.Params += src.Tensors[i].Elements()
	}
	p.Files = []File{{base + ".gguf", p.File.Files[0].Size}}
	size, err := p.reportSize()
	p.Files = append(p.Files, File{base + reportSuffix, size})
	return p, err
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
		return []gguf.Entry{{Key: "tokenizer.ggml.model", Value: "none"}}, nil
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
func (p *GGUFPlan) choose(arch string, list []names.Tensor) []gguf.Spec {
	a := p.Source.Arch
	m := mix.Model{Arch: arch, Layers: a.Layers, Heads: a.Heads, KVHeads: a.KVHeads, Experts: a.Experts, Tied: true,
		Weighted: p.Weights != nil || p.Calibration != nil}
	for i := range list {
		m.Tied = m.Tied && list[i].Name != "output.weight"
	}
	var specs []gguf.Spec
	for i := range list {
		layer := -1
		if s := list[i].Sources; len(s) > 0 {
			layer = s[0].Layer
		}
		t := GGUFTensor{list[i], codec.F32}
		if !t.F32 {
			t.Type = p.Mix.Type(m, p.Options, t.Name, t.Shape, layer)
		}
		p.Tensors = append(p.Tensors, t)
		specs = append(specs, gguf.Spec{Name: t.Name, Type: t.Type, Shape: t.Shape})
	}
	return specs
}

// BitsPerWeight counts all bytes of all tensors over all weights of the source.
func (p *GGUFPlan) BitsPerWeight() float64 { return 8 * float64(p.File.Bytes) / float64(p.Params) }

// Bytes returns the size of the output.
func (p *GGUFPlan) Bytes() int64 { return totalSize(p.Files) }

// Costs returns the input bytes of every job, by name, for a progress display.
func (p *GGUFPlan) Costs() map[string]int64 {
	costs := map[string]int64{}
	for i := range p.Tensors {
		for _, s := range p.Tensors[i].Sources {
			x, _ := p.Source.Set.Lookup(s.Source)
			costs[s.Name] = s.Elements() * int64(x.DType.Bits()) / 8
		}
	}
	return costs
}

// Layers names the part of the model that a job belongs to.
func (p *GGUFPlan) Layers() map[string]string {
	layers := map[string]string{}
	for i := range p.Tensors {
		for _, s := range p.Tensors[i].Sources {
			layers[s.Name] = layerName(s)
		}
	}
	return layers
}

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

// hashes returns the SHA-256 of the source's files.
func (p *GGUFPlan) hashes(ctx context.Context) (map[string]string, error) {
	sums := map[string]string{}
	for _, f := range p.Source.Stored() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		sum, err := hashFile(p.Source.FS, f.Name)
		if err != nil {
			return nil, err
		}
		sums[f.Name] = sum
	}
	return sums, nil
}
