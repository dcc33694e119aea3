package safetensors

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Spec is a tensor that is to be written.
type Spec struct {
	Name  string
	DType DType
	Shape []int // empty for a scalar
}

// Plan is the layout of a checkpoint, complete before the first byte of data is known.
type Plan struct {
	Files     []PlanFile // at least one
	TotalSize int64      // bytes of all tensors, headers not counted
}

// PlanFile is the layout of one file.
type PlanFile struct {
	Name    string
	Header  []byte   // all that precedes the data: length, JSON and padding
	Tensors []Tensor // in the order of their offsets
	Size    int64    // of the whole file, in bytes
}

// NewPlan lays out tensors. They fill shards in the order given: a shard takes tensors until the next one would bring
// it above maxShard bytes of tensor data. A tensor is never split, so a larger one gets a shard for itself. If maxShard
// is not positive, or one shard is enough, the only file is model.safetensors. Every file carries the metadata, none if
// it is nil.
//
// It is an error if a name is not UTF-8, is "__metadata__" or occurs twice, if a shape has a negative dimension or does
// not fill whole bytes, if a size overflows, or if a header exceeds 100,000,000 bytes.
func NewPlan(specs []Spec, metadata map[string]string, maxShard int64) (*Plan, error) {
	for key, value := range metadata {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return nil, fmt.Errorf("safetensors: plan: metadata %q: not UTF-8", key)
		}
	}
	shards, total, err := fillShards(specs, maxShard)
	if err != nil {
		return nil, err
	}
	p := &Plan{TotalSize: total}
	for i, tensors := range shards {
		name := "model.safetensors"
		if len(shards) > 1 {
			name = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		}
		end := arrange(tensors)
		header, err := encodeHeader(tensors, metadata)
		if err != nil {
			return nil, fmt.Errorf("safetensors: plan: %s: %w", name, err)
		}
		p.Files = append(p.Files, PlanFile{name, header, tensors, int64(len(header)) + end})
	}
	return p, nil
}

// fillShards checks the specs and distributes them. Begin of each tensor is 0 and End its size.
func fillShards(specs []Spec, maxShard int64) (shards [][]Tensor, total int64, err error) {
	shards = [][]Tensor{nil}
	seen := make(map[string]bool, len(specs))
	filled := int64(0)
	for _, spec := range specs {
		size, err := checkSpec(spec)
		if err == nil && seen[spec.Name] {
			err = errors.New("the name occurs twice")
		}
		if err == nil && size > math.MaxInt64-maxHeader-lengthBytes-total {
			err = fmt.Errorf("%s: all tensors together", ValidationOverflow)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("safetensors: plan: tensor %q: %w", spec.Name, err)
		}
		seen[spec.Name] = true
		last := len(shards) - 1
		if maxShard > 0 && len(shards[last]) > 0 && size > maxShard-filled {
			shards = append(shards, nil)
			last++
			filled = 0
		}
		t := Tensor{Name: spec.Name, DType: spec.DType, Shape: slices.Clone(spec.Shape), End: size}
		shards[last] = append(shards[last], t)
		filled += size
		total += size
	}
	return shards, total, nil
}

// checkSpec returns the size of a tensor in bytes, if it can be written.
func checkSpec(s Spec) (int64, error) {
	if s.Name == metadataKey {
		return 0, errors.New("the name is reserved")
	}
	if !utf8.ValidString(s.Name) {
		return 0, errors.New("the name is not UTF-8")
	}
	if s.DType >= numDTypes {
		return 0, fmt.Errorf("dtype %d does not exist", s.DType)
	}
	if slices.ContainsFunc(s.Shape, func(n int) bool { return n < 0 }) {
		return 0, fmt.Errorf("%v has a negative dimension", s.Shape)
	}
	size, broken := sizeOf(s.DType, s.Shape)
	if broken != "" {
		return 0, fmt.Errorf("%s: %s %v", broken, s.DType, s.Shape)
	}
	return size, nil
}

// arrange sorts the tensors of a file and lays them back to back. It returns the end of the last one.
func arrange(tensors []Tensor) int64 {
	slices.SortFunc(tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.DType, b.DType), cmp.Compare(a.Name, b.Name))
	})
	end := int64(0)
	for i := range tensors {
		t := &tensors[i]
		t.Begin, t.End = end, end+t.End
		end = t.End
	}
	return end
}

// encodeHeader returns all that precedes the data of a file.
func encodeHeader(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	b := make([]byte, lengthBytes, 256)
	b = append(b, '{')
	if metadata != nil {
		b = append(appendQuoted(b, metadataKey), ":{"...)
		for _, key := range sortedKeys(metadata) {
			b = append(appendQuoted(b, key), ':')
			b = append(appendQuoted(b, metadata[key]), ',')
		}
		b = append(dropComma(b), "},"...)
	}
	for _, t := range tensors {
		b = append(appendQuoted(b, t.Name), `:{"dtype":"`...)
		b = append(b, t.DType.String()...)
		b = append(b, `","shape":[`...)
		for _, n := range t.Shape {
			b = append(strconv.AppendInt(b, int64(n), 10), ',')
		}
		b = append(dropComma(b), `],"data_offsets":[`...)
		b = append(strconv.AppendInt(b, t.Begin, 10), ',')
		b = append(strconv.AppendInt(b, t.End, 10), "]},"...)
	}
	b = append(dropComma(b), '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	n := len(b) - lengthBytes
	if n > maxHeader {
		return nil, fmt.Errorf("%s: %d bytes exceed the limit of %d", HeaderTooLarge, n, maxHeader)
	}
	binary.LittleEndian.PutUint64(b, uint64(n))
	return b, nil
}

// Index returns the text of model.safetensors.index.json, nil if the plan has one file, which needs none.
func (p *Plan) Index() []byte {
	if len(p.Files) == 1 {
		return nil
	}
	shardOf := map[string]string{}
	for _, f := range p.Files {
		for _, t := range f.Tensors {
			shardOf[t.Name] = f.Name
		}
	}
	b := fmt.Appendf(nil, "{\n  \"metadata\": {\n    \"total_size\": %d\n  },\n  \"weight_map\": {", p.TotalSize)
	for _, name := range sortedKeys(shardOf) {
		b = append(appendQuoted(append(b, "\n    "...), name), ": "...)
		b = append(appendQuoted(b, shardOf[name]), ',')
	}
	return append(dropComma(b), "\n  }\n}\n"...)
}
