// Package view shows a GGUF model as the folder of a Hugging Face checkpoint.
//
// The folder exists in memory only. Its config.json and tokenizer files are made from the metadata; its model.safetensors
// has the tensors under the names and in the shapes of the checkpoint, and reads them from the GGUF files whenever it is
// read: rows of q and k back in their order, norms without the 1 that was added, the experts of a stack one by one.
//
// A matrix of blocks that are codes with scales (nibble/gguf/block: Grid) is the tensor MODULE.TYPE of bytes, [rows, bytes
// of a row], and config.json has a quantization_config of quant_method "gguf", for which [Open] is the reader. All other
// blocks, and in a folder opened Plain all blocks, are float32: the very values of the decoder.
package view

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nibble/gguf"
	"nibble/gguf/block"
	"nibble/gguf/names"
	"nibble/hf"
	"nibble/safetensors"
)

// weights is the name of the file that has the tensors.
const weights = "model.safetensors"

// Folder opens the model of a GGUF file, or of any part of one. With plain there are no blocks in it.
func Folder(path string, plain bool) (*hf.Folder, error) {
	dir, name := filepath.Dir(path), filepath.Base(path)
	v := &files{real: os.DirFS(dir), name: name, made: map[string][]byte{}}
	set, err := gguf.OpenSet(v.real, name)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	f, err := v.folder(set, plain)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f.Path = path
	return f, nil
}

// folder fills in the files.
func (v *files) folder(set *gguf.Set, plain bool) (*hf.Folder, error) {
	config, err := names.Config(set, dtype(set))
	if err != nil {
		return nil, err
	}
	parsed, err := hf.ParseConfig(config)
	if err != nil {
		return nil, err
	}
	arch, err := hf.Describe(parsed)
	if err != nil {
		return nil, err
	}
	if err := v.place(set, arch, plain); err != nil {
		return nil, err
	}
	if !plain {
		if parsed, err = parsed.Set("quantization_config", []byte(`{"quant_method": "gguf"}`)); err != nil {
			return nil, err
		}
		config = parsed.Raw()
	}
	v.made["config.json"] = config
	f := &hf.Folder{FS: v, Config: config, Weights: weights, Files: []string{"config.json", weights}, Seen: map[string]fs.FileInfo{}}
	tokenizer, settings, err := names.Tokenizers(set)
	switch {
	case err == nil:
		v.made["tokenizer.json"], v.made["tokenizer_config.json"] = tokenizer, settings
		f.Files = append(f.Files, "tokenizer.json", "tokenizer_config.json")
	case !errors.Is(err, fs.ErrNotExist):
		v.missing = err
		f.Left = append(f.Left, fmt.Sprintf("the tokenizer (%s)", err))
	}
	for _, file := range set.Files() {
		if f.Seen[file.Name], err = fs.Stat(v, file.Name); err != nil {
			return nil, err
		}
		f.Origin = append(f.Origin, hf.StoredFile{Name: file.Name, Size: file.File.Size(), Tensors: len(file.File.Tensors())})
	}
	return f, nil
}

// Lossy returns the name and the type of a tensor that is not in float, "" if there is none.
func Lossy(path string) (tensor, kind string, err error) {
	set, err := gguf.OpenSet(os.DirFS(filepath.Dir(path)), filepath.Base(path))
	if err != nil {
		return "", "", err
	}
	defer set.Close()
	for _, t := range set.Tensors() {
		if t.Type.Size() > 1 {
			return t.Name, t.Type.String(), nil
		}
	}
	return "", "", nil
}

// dtype is the type that the config states: that of the matrices in float, or bfloat16 where all are blocks.
func dtype(set *gguf.Set) string {
	name := "bfloat16"
	for _, t := range set.Tensors() {
		switch {
		case len(t.Shape) < 2:
		case t.Type == block.BF16:
			return "bfloat16"
		case t.Type == block.F16:
			name = "float16"
		case t.Type == block.F32 && name != "float16":
			name = "float32"
		}
	}
	if slices.ContainsFunc(set.Tensors(), func(t gguf.Tensor) bool { return t.Type.Size() > 1 }) && name == "float32" {
		return "bfloat16"
	}
	return name
}

// computed are tensors that the config says in other words.
var computed = []string{"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}

// place finds the tensors of an architecture, and lays the file of weights out.
func (v *files) place(set *gguf.Set, arch *hf.Architecture, plain bool) error {
	rows := slices.Clone(arch.Tensors)
	if arch.Tied {
		rows = slices.DeleteFunc(rows, func(t hf.Tensor) bool { return t.Role == hf.Head })
	}
	list, _, err := names.Tensors(&hf.Model{Arch: arch, Tensors: rows})
	if err != nil {
		return err
	}
	used := map[string]bool{}
	var specs []safetensors.Spec
	for i := range list {
		t, ok := set.Lookup(list[i].Name)
		if !ok || len(list[i].Sources) == 0 {
			continue // what has to be there is missed when the model is opened
		}
		used[t.Name] = true
		if !t.Type.CanDecode() {
			return fmt.Errorf("tensor %s is %s, which is not read", t.Name, t.Type)
		}
		switch rows := list[i].Shape[0]; {
		case !slices.Equal(t.Shape, list[i].Shape):
			return fmt.Errorf("tensor %s is %v, the metadata demands %v: %w", t.Name, t.Shape, list[i].Shape, hf.ErrMismatch)
		case len(t.Shape) == 1 && t.Type.Size() > 1:
			return fmt.Errorf("tensor %s is %s: vectors are floats: %w", t.Name, t.Type, hf.ErrMismatch)
		case list[i].Heads > 0 && rows%(2*list[i].Heads) != 0:
			return fmt.Errorf("tensor %s has %d rows for %d heads, whose halves take turns: %w", t.Name, rows, list[i].Heads, hf.ErrMismatch)
		}
		for part := range list[i].Sources {
			p := newPart(&list[i], t, part, set.BigEndian(), plain)
			v.parts = append(v.parts, p)
			specs = append(specs, p.spec)
		}
	}
	for _, t := range set.Tensors() {
		if !used[t.Name] && !slices.Contains(computed, t.Name) {
			return fmt.Errorf("tensor %s has no place in %s: %w", t.Name, arch.Name, hf.ErrMismatch)
		}
	}
	plan, err := safetensors.NewPlan(specs, map[string]string{"format": "pt"}, 0)
	if err != nil {
		return err
	}
	v.tensors = set.Tensors()
	v.header, v.size = plan.Files[0].Header, plan.Files[0].Size
	byName := map[string]int64{}
	for _, t := range plan.Files[0].Tensors {
		byName[t.Name] = int64(len(v.header)) + t.Begin
	}
	for i := range v.parts {
		v.parts[i].begin = byName[v.parts[i].spec.Name]
	}
	slices.SortFunc(v.parts, func(a, b *part) int { return int(min(max(a.begin-b.begin, -1), 1)) })
	return nil
}

// files is the file system of such a folder: what is made, and the GGUF files themselves.
type files struct {
	real    fs.FS
	name    string // of the GGUF file that was named
	made    map[string][]byte
	missing error // why there is no tokenizer

	header  []byte
	size    int64
	parts   []*part // in the order of their places
	tensors []gguf.Tensor
}

// Open opens a file.
func (v *files) Open(name string) (fs.File, error) {
	if raw, ok := v.made[name]; ok {
		return newText(name, raw), nil
	}
	switch {
	case name == weights:
		return v.openWeights()
	case strings.HasPrefix(name, "tokenizer.") && v.missing != nil:
		return nil, v.missing
	case filepath.Ext(name) == ".gguf":
		return v.real.Open(name)
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// openWeights opens the GGUF files again. They must be those that were there before.
func (v *files) openWeights() (fs.File, error) {
	set, err := gguf.OpenSet(v.real, v.name)
	if err != nil {
		return nil, err
	}
	same := slices.EqualFunc(set.Tensors(), v.tensors, func(a, b gguf.Tensor) bool {
		return a.Name == b.Name && a.Type == b.Type && a.Offset == b.Offset && slices.Equal(a.Shape, b.Shape)
	})
	if !same {
		return nil, errors.Join(fmt.Errorf("%s has changed since it was opened", v.name), set.Close())
	}
	return &data{files: v, set: set}, nil
}
