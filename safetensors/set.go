package safetensors

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"nibble/internal/source"
)

// SetFile is one file of a Set, by its name in the file system.
type SetFile struct {
	Name string
	File *File
}

// Set is the tensors of a checkpoint, over one or more files. Its methods may be called from several goroutines, but
// for Close.
type Set struct {
	files   []SetFile
	tensors []Tensor
	byName  map[string]place
}

// place says where a tensor of a Set is.
type place struct {
	file, tensor int // index into files and tensors
}

// OpenSet opens a checkpoint: the file called name or, if the name ends in ".index.json", all shards that this index
// names. Shards are named relative to the folder of the index and cannot be outside it. The files that fsys opens must
// implement [io.ReaderAt], as those of os.DirFS and embed.FS do. An index and shards that contradict one another are a
// [*FormatError], as is each file that breaks the format.
func OpenSet(fsys fs.FS, name string) (*Set, error) {
	s := &Set{byName: map[string]place{}}
	var err error
	if strings.HasSuffix(name, ".index.json") {
		err = s.openShards(fsys, name)
	} else {
		err = s.open(fsys, name)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// openShards opens the shards of an index, sorted by name, and holds the index against them.
func (s *Set) openShards(fsys fs.FS, index string) error {
	shardOf, err := readIndex(fsys, index)
	if err != nil {
		return err
	}
	var shards []string
	for _, shard := range shardOf {
		shards = append(shards, shard)
	}
	slices.Sort(shards)
	for _, shard := range slices.Compact(shards) {
		name := path.Join(path.Dir(index), shard)
		err := s.open(fsys, name)
		if errors.Is(err, fs.ErrNotExist) {
			return &FormatError{index, "", 0, MissingShard, fmt.Sprintf("%s does not exist", name)}
		}
		if err != nil {
			return err
		}
		f := s.files[len(s.files)-1].File
		for _, t := range f.Tensors() {
			switch listed, ok := shardOf[t.Name]; {
			case !ok:
				return &FormatError{name, t.Name, f.DataStart() + t.Begin, UnlistedTensor, fmt.Sprintf("%s lacks it", index)}
			case listed != shard:
				return &FormatError{name, t.Name, f.DataStart() + t.Begin, MisplacedTensor,
					fmt.Sprintf("%s says %s", index, listed)}
			}
		}
	}
	// Every tensor that was found is in the index, so the index lists more exactly if one was not found.
	if len(shardOf) > len(s.byName) {
		var missing []string
		for name := range shardOf {
			if _, ok := s.byName[name]; !ok {
				missing = append(missing, name)
			}
		}
		name := slices.Min(missing)
		return &FormatError{index, name, 0, MissingTensor, fmt.Sprintf("%s lacks it", shardOf[name])}
	}
	return nil
}

// open adds a file to the set.
func (s *Set) open(fsys fs.FS, name string) error {
	f, err := parse(source.OpenIn(fsys, name))
	if err != nil {
		return err
	}
	for _, t := range f.Tensors() {
		s.byName[t.Name] = place{len(s.files), len(s.tensors)}
		s.tensors = append(s.tensors, t)
	}
	s.files = append(s.files, SetFile{name, f})
	return nil
}

// Tensors returns all tensors, in the order of the files and of the offsets in each. The slice belongs to the Set.
func (s *Set) Tensors() []Tensor { return s.tensors }

// Bytes returns what all tensors take.
func (s *Set) Bytes() (n int64) {
	for _, t := range s.tensors {
		n += t.Bytes()
	}
	return n
}

// Lookup returns the tensor called name.
func (s *Set) Lookup(name string) (Tensor, bool) {
	p, ok := s.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return s.tensors[p.tensor], true
}

// ReadAt fills p from byte off of the tensor called name, with the errors of [File.ReadAt].
func (s *Set) ReadAt(name string, p []byte, off int64) error {
	at, ok := s.byName[name]
	if !ok {
		return fmt.Errorf("safetensors: tensor %q: not in the checkpoint", name)
	}
	return s.files[at.file].File.ReadAt(s.tensors[at.tensor], p, off)
}

// Files returns the files, sorted by name. The slice belongs to the Set.
func (s *Set) Files() []SetFile { return s.files }

// FileOf returns the name of the file that holds a tensor, "" if there is no such tensor.
func (s *Set) FileOf(name string) string {
	p, ok := s.byName[name]
	if !ok {
		return ""
	}
	return s.files[p.file].Name
}

// Close closes all files.
func (s *Set) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.File.Close())
	}
	return errors.Join(errs...)
}
