package gguf

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"

	"nibble/internal/source"
)

// The entries of a part.
const (
	splitNo      = "split.no"
	splitCount   = "split.count"
	splitTensors = "split.tensors.count"
)

// partName takes the name of a part to pieces.
var partName = regexp.MustCompile(`^((?s:.*)-)([0-9]{5})-of-([0-9]{5})\.gguf$`)

// SetFile is one file of a Set, by its name in the file system.
type SetFile struct {
	Name string
	File *File
}

// Set is the tensors of a model, over one or more files. Its methods may be called from several goroutines, but for Close.
type Set struct {
	files   []SetFile
	tensors []Tensor
	byName  map[string]place
}

// place says where a tensor of a Set is.
type place struct {
	file, tensor int // index into files and tensors
}

// OpenSet opens the model of the file called name, with all other parts if it is one of several, whichever it is. The
// files that fsys opens must implement [io.ReaderAt], as those of os.DirFS and embed.FS do. Parts that contradict one
// another are a [*FormatError], as is each file that breaks the format.
func OpenSet(fsys fs.FS, name string) (*Set, error) {
	s := &Set{byName: map[string]place{}}
	if err := s.openAll(fsys, name); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Set) openAll(fsys fs.FS, name string) error {
	f, err := parse(source.OpenIn(fsys, name))
	if err != nil {
		return err
	}
	_, one := f.byKey[splitNo]
	_, two := f.byKey[splitCount]
	if count, _ := f.count(splitCount); !one && !two || count == 1 {
		return s.add(name, f)
	}
	if err := f.Close(); err != nil { // it is opened again in its place
		return fmt.Errorf("gguf: %w", err)
	}
	base, number, count, err := splitPartName(name)
	if err != nil {
		return err
	}
	if number < 1 || number > count {
		return &FormatError{name, "", 0, InvalidSplit, fmt.Sprintf("part %d of %d", number, count)}
	}
	for i := range count {
		part := fmt.Sprintf("%s%05d-of-%05d.gguf", base, i+1, count)
		f, err := parse(source.OpenIn(fsys, part))
		if errors.Is(err, fs.ErrNotExist) {
			return &FormatError{name, "", 0, MissingPart, fmt.Sprintf("%s does not exist", part)}
		}
		if err != nil {
			return err
		}
		if err := s.add(part, f); err != nil {
			return err
		}
		if err := s.checkPart(part, f, i, count); err != nil {
			return err
		}
	}
	total, _ := s.files[0].File.count(splitTensors)
	if total != int64(len(s.tensors)) {
		return &FormatError{s.files[0].Name, splitTensors, 0, InvalidSplit,
			fmt.Sprintf("%d tensors, but the parts have %d", total, len(s.tensors))}
	}
	return nil
}

// splitPartName returns the name of a part up to its number, the number and the count.
func splitPartName(name string) (base string, number, count int, err error) {
	m := partName.FindStringSubmatch(name)
	if m == nil {
		return "", 0, 0, &FormatError{name, "", 0, InvalidSplit, "a part is called NAME-00001-of-00002.gguf"}
	}
	number, _ = strconv.Atoi(m[2]) // five digits
	count, _ = strconv.Atoi(m[3])
	return m[1], number, count, nil
}

// count returns the value of an entry that is an integer.
func (f *File) count(key string) (int64, bool) {
	value, _ := f.Value(key)
	return integer(value)
}

// checkPart holds the entries of part i, counted from 0, against its name and the parts before it.
func (s *Set) checkPart(name string, f *File, i, count int) error {
	first := s.files[0].File
	total, _ := first.count(splitTensors)
	for _, want := range []struct {
		key   string
		value int64
	}{{splitNo, int64(i)}, {splitCount, int64(count)}, {splitTensors, total}} {
		got, ok := f.count(want.key)
		if !ok {
			return &FormatError{name, want.key, 0, InvalidSplit, "the entry is missing, or not an integer"}
		}
		if got != want.value {
			return &FormatError{name, want.key, 0, InvalidSplit, fmt.Sprintf("%d, where %d is expected", got, want.value)}
		}
	}
	if f.bigEndian != first.bigEndian {
		return &FormatError{name, "", 4, InvalidSplit, "its byte order is not that of part 1"}
	}
	return nil
}

// add takes over a file.
func (s *Set) add(name string, f *File) error {
	s.files = append(s.files, SetFile{name, f})
	for _, t := range f.Tensors() {
		if p, ok := s.byName[t.Name]; ok {
			return &FormatError{name, t.Name, t.Offset, Duplicate, fmt.Sprintf("the tensor: %s has it", s.files[p.file].Name)}
		}
		s.byName[t.Name] = place{len(s.files) - 1, len(s.tensors)}
		s.tensors = append(s.tensors, t)
	}
	return nil
}

// Metadata returns the entries of the first file. The slice belongs to the Set.
func (s *Set) Metadata() []Entry { return s.files[0].File.Metadata() }

// Value returns the value of a key of the first file's metadata.
func (s *Set) Value(key string) (any, bool) { return s.files[0].File.Value(key) }

// Tensors returns all tensors, in the order of the files and in that of each. The slice belongs to the Set.
func (s *Set) Tensors() []Tensor { return s.tensors }

// Lookup returns the tensor called name.
func (s *Set) Lookup(name string) (Tensor, bool) {
	p, ok := s.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return s.tensors[p.tensor], true
}

// BigEndian reports whether the numbers of the data are big-endian.
func (s *Set) BigEndian() bool { return s.files[0].File.BigEndian() }

// ReadAt fills p from byte off of the tensor called name, with the errors of [File.ReadAt].
func (s *Set) ReadAt(name string, p []byte, off int64) error {
	at, ok := s.byName[name]
	if !ok {
		return fmt.Errorf("gguf: tensor %q: not in the model", name)
	}
	return s.files[at.file].File.ReadAt(s.tensors[at.tensor], p, off)
}

// Files returns the files in their order. The slice belongs to the Set.
func (s *Set) Files() []SetFile { return s.files }

// Close closes all files.
func (s *Set) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.File.Close())
	}
	return errors.Join(errs...)
}
