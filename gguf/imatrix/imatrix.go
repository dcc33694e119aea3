// Package imatrix reads and writes the files of llama-imatrix: for every matrix of a GGUF model, how much each of its columns counts.
//
// A figure is the sum, or the mean, of the squares of what entered a column while a text ran through the model. Only their
// ratios inside a matrix matter. Of a stack of experts there are the columns of all, one expert behind the other.
//
// The older form has no magic: the number of entries (4 bytes); for each, the length of a tensor's name (4), the name, the
// number of calls (4), the number of values (4), and these as float32. What follows is not read. The newer form is a GGUF
// file with general.type "imatrix", whose tensors NAME.in_sum2 [matrices of a stack, columns] have the sums; NAME.counts
// [matrices, 1] says of how many tokens each are. imatrix.datasets names texts, imatrix.chunk_count and imatrix.chunk_size say
// how many tokens there were. That form is written.
package imatrix

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"nibble/gguf"
	"nibble/gguf/block"
	"nibble/internal/half"
	"nibble/internal/source"
)

// ErrCorrupt is what an error wraps if a file breaks the format.
var ErrCorrupt = errors.New("imatrix: corrupt file")

const (
	maxName   = 4096    // bytes
	maxValues = 1 << 26 // of a tensor
)

// Read reads a file of either form: the values of each tensor, all from 0 on and finite.
func Read(path string) (map[string][]float32, error) {
	f, err := source.Open(path)
	if err != nil {
		return nil, fmt.Errorf("imatrix: %w", err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(io.NewSectionReader(f, 0, f.Size), 1<<16)
	magic, _ := r.Peek(4)
	var values map[string][]float32
	if string(magic) == "GGUF" {
		values, err = readGGUF(path)
	} else {
		values, err = readOld(r, f.Size)
	}
	if err == nil {
		err = check(values)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return values, nil
}

// check refuses what is no weight.
func check(values map[string][]float32) error {
	if len(values) == 0 {
		return fmt.Errorf("%w: it has no values", ErrCorrupt)
	}
	for name, list := range values {
		for i, x := range list {
			if !(x >= 0 && x <= math.MaxFloat32) {
				return fmt.Errorf("%w: %q: value %d is %v", ErrCorrupt, name, i, x)
			}
		}
	}
	return nil
}

// readOld reads the older form, from a file of size bytes.
func readOld(r io.Reader, size int64) (map[string][]float32, error) {
	left := size
	take := func(n int64, what string) ([]byte, error) {
		if n > left {
			return nil, fmt.Errorf("%w: it ends in %s", ErrCorrupt, what)
		}
		left -= n
		p := make([]byte, n)
		_, err := io.ReadFull(r, p)
		return p, err
	}
	number := func(most int64, what string) (int64, error) {
		p, err := take(4, what)
		if err != nil {
			return 0, err
		}
		n := int64(int32(binary.LittleEndian.Uint32(p)))
		if n < 0 || n > most {
			return 0, fmt.Errorf("%w: byte %d: %s is %d", ErrCorrupt, size-left-4, what, n)
		}
		return n, nil
	}
	entries, err := number(size/16+1, "the number of entries")
	if err != nil {
		return nil, err
	}
	values := map[string][]float32{}
	for range entries {
		length, err := number(maxName, "the length of a name")
		if err != nil {
			return nil, err
		}
		name, err := take(length, "a name")
		if err != nil {
			return nil, err
		}
		if _, err := number(math.MaxInt32, "the number of calls"); err != nil {
			return nil, err
		}
		count, err := number(maxValues, "the number of values")
		if err != nil {
			return nil, err
		}
		raw, err := take(4*count, "values")
		if err != nil {
			return nil, err
		}
		list := make([]float32, count)
		half.DecodeF32(list, raw)
		values[string(name)] = list
	}
	return values, nil
}

// sums and counts are what the names of tensors end in.
const (
	sums   = ".in_sum2"
	counts = ".counts"
)

// readGGUF reads the newer form.
func readGGUF(path string) (map[string][]float32, error) {
	set, err := gguf.OpenSet(os.DirFS(filepath.Dir(path)), filepath.Base(path))
	if err != nil {
		return nil, err
	}
	defer set.Close()
	kind, _ := set.Value("general.type")
	if kind, _ := kind.(string); kind != "imatrix" {
		return nil, fmt.Errorf("%w: general.type is %q, not imatrix: llama-imatrix and --write-imatrix write such files", ErrCorrupt, kind)
	}
	values := map[string][]float32{}
	for _, t := range set.Tensors() {
		name, ok := strings.CutSuffix(t.Name, sums)
		if !ok {
			continue
		}
		if t.Type != block.F32 || t.Elements() > maxValues {
			return nil, fmt.Errorf("%w: %s: %s %v, where F32 is expected", ErrCorrupt, t.Name, t.Type, t.Shape)
		}
		raw, list := make([]byte, t.Bytes), make([]float32, t.Elements())
		if err := set.ReadAt(t.Name, raw, 0); err != nil {
			return nil, err
		}
		if set.BigEndian() {
			if err := t.Type.Swap(raw); err != nil {
				return nil, err
			}
		}
		half.DecodeF32(list, raw)
		values[name] = list
	}
	return values, nil
}
