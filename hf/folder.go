package hf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Folder is a model folder that has not been looked into further than its list of files.
type Folder struct {
	Path       string // where it is; "" for one that is not on disk
	FS         fs.FS  // its files; they implement io.ReaderAt
	Config     []byte // config.json; nil if there is none
	Legacy     []byte // quantize_config.json or quant_config.json, the old places of quantization options
	LegacyName string
	Weights    string       // the safetensors file, or the index of several
	Files      []string     // regular files
	Left       []string     // what else is there: folders, links that lead nowhere, pipes
	Origin     []StoredFile // what FS makes all files of; nil for a folder that is stored as it is

	// Seen are the files when the folder was opened, before weights were read.
	Seen map[string]fs.FileInfo
}

// StoredFile is a file that holds weights.
type StoredFile struct {
	Name    string
	Size    int64
	Tensors int
}

// ErrNoModel is the cause where a path or hub id leads to no model.
var ErrNoModel = errors.New("no model")

// Find opens the folder that a MODEL argument names: a folder, a .safetensors file beside its config, or a hub id
// ("Qwen/Qwen3-0.6B", also "…@revision") in the local Hugging Face cache.
func Find(model string) (*Folder, error) {
	info, err := os.Stat(model)
	switch {
	case err == nil && info.IsDir():
		return NewFolder(model, os.DirFS(model), "")
	case err == nil && strings.HasSuffix(model, ".safetensors"):
		dir, name := filepath.Split(model)
		if dir == "" {
			dir = "."
		}
		return NewFolder(filepath.Clean(dir), os.DirFS(dir), name)
	case err == nil && slices.Contains(pickled, filepath.Ext(model)):
		return nil, pickleError(model)
	case err == nil:
		return nil, fmt.Errorf("hf: %s: %w: want a folder, a .safetensors or .gguf file, or a hub id", model, ErrNoModel)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("hf: %w", err)
	}
	dir, err := hubFolder(model)
	if err != nil {
		return nil, err
	}
	return NewFolder(dir, os.DirFS(dir), "")
}

// pickled are the extensions of weights that only unpickling, which runs code, could read.
var pickled = []string{".bin", ".pt", ".pth", ".ckpt"}

func pickleError(name string) error {
	return fmt.Errorf("hf: %s: pickled weights are not read, because unpickling runs code from the file; "+
		"convert them once: python -c \"from transformers import AutoModelForCausalLM as M; "+
		"M.from_pretrained('FOLDER').save_pretrained('NEW', safe_serialization=True)\"", name)
}

// NewFolder lists a folder. weights names the safetensors file to take; "" finds it.
func NewFolder(path string, fsys fs.FS, weights string) (*Folder, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("hf: %w", err)
	}
	f := &Folder{Path: path, FS: fsys, Weights: weights, Seen: map[string]fs.FileInfo{}}
	for _, e := range entries {
		// Through links; nothing but a regular file is opened, for a pipe would wait for its writer.
		if info, err := fs.Stat(fsys, e.Name()); err == nil && info.Mode().IsRegular() {
			f.Files = append(f.Files, e.Name())
			f.Seen[e.Name()] = info
		} else {
			f.Left = append(f.Left, e.Name())
		}
	}
	if f.Weights == "" {
		if f.Weights, err = f.findWeights(); err != nil {
			return nil, err
		}
	}
	if f.Config, err = f.small("config.json"); err != nil {
		return nil, err
	}
	for _, name := range []string{"quantize_config.json", "quant_config.json"} {
		if f.Legacy == nil {
			if f.Legacy, err = f.small(name); err != nil {
				return nil, err
			}
			f.LegacyName = name
		}
	}
	return f, nil
}

// small reads a file of at most maxConfig bytes, nil if it is not there.
func (f *Folder) small(name string) ([]byte, error) {
	if !slices.Contains(f.Files, name) {
		return nil, nil
	}
	file, err := f.FS.Open(name)
	if err != nil {
		return nil, fmt.Errorf("hf: %s: %w", f.In(name), err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxConfig+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("hf: %s: %w", f.In(name), err)
	case len(b) > maxConfig:
		return nil, fmt.Errorf("hf: %s: more than %d bytes", f.In(name), maxConfig)
	}
	return b, nil
}

// In names a file of the folder in messages.
func (f *Folder) In(name string) string {
	if f.Path == "" {
		return name
	}
	return filepath.Join(f.Path, name)
}

// findWeights chooses the safetensors file: model.safetensors, an index, or the only one there is.
func (f *Folder) findWeights() (string, error) {
	const single = "model.safetensors"
	if slices.Contains(f.Files, single) {
		return single, nil
	}
	var tensors, indexes []string
	pickle := ""
	for _, name := range f.Files {
		switch ext := filepath.Ext(name); {
		case strings.HasSuffix(name, ".safetensors.index.json"):
			indexes = append(indexes, name)
		case ext == ".safetensors":
			tensors = append(tensors, name)
		case slices.Contains(pickled, ext) && name != "training_args.bin":
			pickle = name
		}
	}
	switch {
	case len(indexes) == 1:
		return indexes[0], nil
	case len(indexes) > 1:
		return "", fmt.Errorf("hf: %s: %w: several indexes (%s); give the folder only one", f.Path, ErrNoModel, strings.Join(indexes, ", "))
	case len(tensors) == 1:
		return tensors[0], nil
	case len(tensors) > 1:
		return "", fmt.Errorf("hf: %s: %w: several safetensors files (%s …) and no model.safetensors.index.json; "+
			"name one file, or restore the index", f.Path, ErrNoModel, tensors[0])
	case pickle != "":
		return "", pickleError(f.In(pickle))
	}
	return "", fmt.Errorf("hf: %s: %w: neither model.safetensors nor an index in this folder", f.Path, ErrNoModel)
}

// Carry lists the files of the folder that a conversion copies as they are: everything but weights of any kind, the
// configs that it writes itself, and what earlier runs left. skipped lists the others that it does not write anew.
func (f *Folder) Carry() (carry, skipped []string) {
	skipped = append(skipped, f.Left...)
	for _, name := range f.Files {
		ext := strings.ToLower(filepath.Ext(name))
		switch {
		case name == f.Weights, name == "config.json", name == "quantize_config.json", name == "quant_config.json",
			name == "quantization_config.json", name == "quantization_report.json", name == "README.nibble.md":
		case ext == ".safetensors", strings.HasSuffix(name, ".index.json"), strings.HasPrefix(name, ".nibble"),
			slices.Contains(pickled, ext), ext == ".gguf", ext == ".onnx", ext == ".h5", ext == ".msgpack":
			skipped = append(skipped, name)
		default:
			carry = append(carry, name)
		}
	}
	return carry, skipped
}
