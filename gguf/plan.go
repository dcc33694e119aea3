package gguf

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"nibble/gguf/block"
	"nibble/internal/slots"
)

// Spec is a tensor that is to be written.
type Spec struct {
	Name  string
	Type  block.Type
	Shape []int // the last dimension is that of a row; empty for a single element
}

// Plan is the layout of a model, complete before the first byte of data is known.
type Plan struct {
	Files []PlanFile // at least one
	Bytes int64      // of all tensors, without padding
}

// PlanFile is the layout of one file.
type PlanFile struct {
	Name    string
	Header  []byte   // all that precedes the data
	Tensors []Tensor // in the order of their offsets
	Size    int64    // of the whole file, in bytes
}

const (
	maxWrittenName = 63    // bytes of the longest name that llama.cpp reads
	maxParts       = 65535 // split.count is a uint16
	maxAlignment   = 1 << 20
)

// NewPlan lays out tensors in the order given. The file is NAME.gguf. If maxPart is positive, and the tensors have more
// bytes than that, they fill parts called NAME-00001-of-0000N.gguf: a part takes tensors until the next one would bring it
// above maxPart bytes of tensor data. A tensor is never split, so a larger one gets a part for itself. The metadata is
// that of the first part. An entry general.alignment sets the alignment of all parts.
//
// It is an error if the metadata has a key that is not UTF-8, occurs twice or is one of those of parts, or a value of a
// type that no file holds; if a name is too long, is not UTF-8 or occurs twice; if a shape has too many dimensions, a
// negative one, or rows that are not whole blocks; if a size overflows, or if a header exceeds 256 MiB.
func NewPlan(name string, metadata []Entry, specs []Spec, maxPart int64) (*Plan, error) {
	p, err := newPlan(name, metadata, specs, maxPart)
	if err != nil {
		return nil, fmt.Errorf("gguf: plan: %w", err)
	}
	return p, nil
}

func newPlan(name string, metadata []Entry, specs []Spec, maxPart int64) (*Plan, error) {
	alignment, err := checkMetadata(metadata)
	if err != nil {
		return nil, err
	}
	parts, total, err := fillParts(specs, maxPart, alignment)
	if err != nil {
		return nil, err
	}
	if len(parts) > maxParts || len(parts) > 1 && len(specs) > math.MaxInt32 {
		return nil, fmt.Errorf("%d parts of %d tensors: there can be %d and %d", len(parts), len(specs), maxParts, math.MaxInt32)
	}
	p := &Plan{Bytes: total}
	for i, tensors := range parts {
		f := PlanFile{Name: name + ".gguf", Tensors: tensors}
		entries := metadata
		if len(parts) > 1 {
			f.Name = fmt.Sprintf("%s-%05d-of-%05d.gguf", name, i+1, len(parts))
			if i > 0 {
				entries = slices.DeleteFunc(slices.Clone(metadata), func(e Entry) bool { return e.Key != alignmentKey })
			}
			entries = append(slices.Clip(entries), Entry{splitNo, uint16(i)}, Entry{splitCount, uint16(len(parts))},
				Entry{splitTensors, int32(len(specs))})
		}
		f.Header = appendHeader(nil, entries, tensors, alignment)
		if len(f.Header) > maxHeader {
			return nil, fmt.Errorf("%s: %s: %d bytes exceed the limit of %d", f.Name, HeaderTooLarge, len(f.Header), maxHeader)
		}
		f.Size = int64(len(f.Header))
		for j := range tensors {
			tensors[j].Offset += int64(len(f.Header))
			f.Size = tensors[j].Offset + roundUp(tensors[j].Bytes, alignment)
		}
		p.Files = append(p.Files, f)
	}
	return p, nil
}

// checkMetadata returns the alignment, if all entries can be written.
func checkMetadata(metadata []Entry) (alignment int64, err error) {
	alignment = Alignment
	seen := make(map[string]bool, len(metadata))
	for _, e := range metadata {
		switch {
		case e.Key == "" || len(e.Key) > maxKey || !utf8.ValidString(e.Key):
			return 0, fmt.Errorf("key %.100q: it is not UTF-8 of 1 to %d bytes", e.Key, maxKey)
		case seen[e.Key]:
			return 0, fmt.Errorf("key %q: it occurs twice", e.Key)
		case strings.HasPrefix(e.Key, "split."):
			return 0, fmt.Errorf("key %q: the plan itself sets what parts have", e.Key)
		}
		seen[e.Key] = true
		if err := checkValue(e.Value, 0); err != nil {
			return 0, fmt.Errorf("key %q: %w", e.Key, err)
		}
		if e.Key == alignmentKey {
			a, ok := e.Value.(uint32)
			if !ok || a == 0 || a&(a-1) != 0 || a > maxAlignment {
				return 0, fmt.Errorf("key %q: %v is not a power of two up to %d of type uint32", e.Key, e.Value, maxAlignment)
			}
			alignment = int64(a)
		}
	}
	return alignment, nil
}

// fillParts checks the specs and distributes them. Offsets count from the start of the data.
func fillParts(specs []Spec, maxPart, alignment int64) (parts [][]Tensor, total int64, err error) {
	parts = [][]Tensor{nil}
	seen := make(map[string]bool, len(specs))
	filled, end, padded := int64(0), int64(0), int64(0) // of the part; of the part; of all parts
	for _, spec := range specs {
		size, err := checkSpec(spec)
		if err == nil && seen[spec.Name] {
			err = errors.New("the name occurs twice")
		}
		if err == nil && size > math.MaxInt64-maxHeader-2*alignment-padded {
			err = errors.New("the size of all tensors together overflows")
		}
		if err != nil {
			return nil, 0, fmt.Errorf("tensor %q: %w", spec.Name, err)
		}
		seen[spec.Name] = true
		last := len(parts) - 1
		if maxPart > 0 && len(parts[last]) > 0 && size > maxPart-filled {
			parts = append(parts, nil)
			last++
			filled, end = 0, 0
		}
		parts[last] = append(parts[last], Tensor{spec.Name, spec.Type, slices.Clone(spec.Shape), end, size})
		filled += size
		total += size
		end += roundUp(size, alignment)
		padded += roundUp(size, alignment)
	}
	return parts, total, nil
}

// checkSpec returns the size of a tensor in bytes, if it can be written.
func checkSpec(s Spec) (int64, error) {
	switch {
	case s.Name == "" || len(s.Name) > maxWrittenName || !utf8.ValidString(s.Name):
		return 0, fmt.Errorf("the name is not UTF-8 of 1 to %d bytes", maxWrittenName)
	case !s.Type.Known():
		return 0, fmt.Errorf("%s is not known", s.Type)
	case len(s.Shape) > maxDimensions:
		return 0, fmt.Errorf("%v has more than %d dimensions", s.Shape, maxDimensions)
	case slices.ContainsFunc(s.Shape, func(n int) bool { return n < 0 }):
		return 0, fmt.Errorf("%v has a negative dimension", s.Shape)
	}
	size, wrong := sizeOf(s.Type, s.Shape)
	if wrong != "" {
		return 0, fmt.Errorf("%s %v: %s", s.Type, s.Shape, wrong)
	}
	return size, nil
}

// slots is the plan as its files are written.
func (p *Plan) slots() []slots.File {
	files := make([]slots.File, len(p.Files))
	for i, f := range p.Files {
		files[i] = slots.File{Name: f.Name, Header: f.Header, Size: f.Size}
		for _, t := range f.Tensors {
			files[i].Slots = append(files[i].Slots, slots.Slot{Name: t.Name, Begin: t.Offset, Size: t.Bytes})
		}
	}
	return files
}
