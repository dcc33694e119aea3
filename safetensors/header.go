package safetensors

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

const metadataKey = "__metadata__"

// entry is a tensor and the place in the header that describes it.
type entry struct {
	Tensor
	at int64 // byte of the file
}

// parseHeader fills in the tensors and the metadata from the text of the header, and checks all of it.
func (f *File) parseHeader(text []byte) error {
	s := &scanner{text: text, file: f.in.Name, base: lengthBytes, kind: InvalidHeaderDeserialization}
	var entries []entry
	haveMetadata := false
	err := s.object(func(key []byte) error {
		s.tensor = string(key)
		if s.tensor != metadataKey {
			if _, ok := f.byName[s.tensor]; ok {
				return s.fail(s.kind, "the name occurs twice")
			}
			f.byName[s.tensor] = len(entries)
			e := entry{at: s.offset()}
			e.Name = s.tensor
			err := parseTensor(s, &e.Tensor)
			entries = append(entries, e)
			return err
		}
		if haveMetadata {
			return s.fail(s.kind, "the name occurs twice")
		}
		haveMetadata = true
		var err error
		f.metadata, err = parseMetadata(s)
		return err
	})
	if err == nil {
		s.tensor = ""
		err = s.end()
	}
	if err != nil {
		return err
	}
	// The sort is stable: tensors without bytes that share an offset stay in the order of the header.
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.End, b.End))
	})
	return f.checkLayout(entries)
}

// parseMetadata reads the value of __metadata__: an object of strings, or null for none.
func parseMetadata(s *scanner) (map[string]string, error) {
	if s.peek() == 'n' {
		return nil, s.skip()
	}
	m := map[string]string{}
	err := s.object(func(key []byte) error {
		if _, ok := m[string(key)]; ok {
			return s.fail(s.kind, "key %q occurs twice", key)
		}
		value, err := s.str()
		m[string(key)] = string(value)
		return err
	})
	return m, err
}

// tensorFields are the fields that describe a tensor. Each occurs once, in any order.
var tensorFields = [...]struct {
	name  string
	parse func(*scanner, *Tensor) error
}{{"dtype", parseType}, {"shape", parseShape}, {"data_offsets", parseOffsets}}

// parseTensor reads the object that describes a tensor into t.
func parseTensor(s *scanner, t *Tensor) error {
	var seen [len(tensorFields)]bool
	err := s.object(func(key []byte) error {
		for i, field := range tensorFields {
			if string(key) != field.name {
				continue
			}
			if seen[i] {
				return s.fail(s.kind, "field %s occurs twice", field.name)
			}
			seen[i] = true
			return field.parse(s, t)
		}
		return s.skip()
	})
	if err != nil {
		return err
	}
	for i, field := range tensorFields {
		if !seen[i] {
			return s.fail(s.kind, "field %s is missing", field.name)
		}
	}
	return nil
}

func parseType(s *scanner, t *Tensor) error {
	name, err := s.str()
	if err != nil {
		return err
	}
	var ok bool
	if t.DType, ok = ParseDType(string(name)); !ok {
		return s.fail(s.kind, "unknown dtype %q", name)
	}
	return nil
}

func parseShape(s *scanner, t *Tensor) error {
	t.Shape = make([]int, 0, 4)
	return s.array(func() error {
		n, err := s.uint()
		if err != nil {
			return err
		}
		if n > math.MaxInt {
			return s.fail(ValidationOverflow, "dimension %d", n)
		}
		t.Shape = append(t.Shape, int(n))
		return nil
	})
}

func parseOffsets(s *scanner, t *Tensor) error {
	var offsets [2]int64
	n := 0
	err := s.array(func() error {
		if n == len(offsets) {
			return s.fail(s.kind, "data_offsets has more than two numbers")
		}
		v, err := s.uint()
		if err != nil {
			return err
		}
		if v > math.MaxInt64 {
			return s.fail(InvalidOffset, "%d is beyond any file", v)
		}
		offsets[n] = int64(v)
		n++
		return nil
	})
	if err == nil && n < len(offsets) {
		err = s.fail(s.kind, "data_offsets has fewer than two numbers")
	}
	t.Begin, t.End = offsets[0], offsets[1]
	return err
}

// checkLayout checks that the tensors, sorted by their offsets, are as large as their shapes say and cover the data,
// and keeps them.
func (f *File) checkLayout(entries []entry) error {
	end := int64(0)
	f.tensors = make([]Tensor, len(entries))
	for i, e := range entries {
		corrupt := func(kind Kind, format string, args ...any) error {
			return &FormatError{f.in.Name, e.Name, e.at, kind, fmt.Sprintf(format, args...)}
		}
		if e.Begin != end || e.End < e.Begin {
			return corrupt(InvalidOffset, "[%d,%d] where the tensor before ends at %d", e.Begin, e.End, end)
		}
		size, broken := sizeOf(e.DType, e.Shape)
		if broken != "" {
			return corrupt(broken, "%s %v", e.DType, e.Shape)
		}
		if e.Bytes() != size {
			return corrupt(TensorInvalidInfo, "[%d,%d] for %d bytes of %s %v", e.Begin, e.End, size, e.DType, e.Shape)
		}
		end = e.End
		f.tensors[i] = e.Tensor
		f.byName[e.Name] = i
	}
	if have := f.in.Size - f.start; end != have {
		return &FormatError{f.in.Name, "", f.start + min(end, have), MetadataIncompleteBuffer,
			fmt.Sprintf("the tensors have %d bytes, the file %d", end, have)}
	}
	return nil
}
