package imatrix

import (
	"strings"

	"nibble/gguf"
	"nibble/gguf/block"
	"nibble/internal/half"
)

// Entry is what a tensor receives.
type Entry struct {
	Name   string
	Sums   []float32 // of the squares, for the columns of every matrix of a stack
	Counts []float32 // tokens, of every matrix
}

// chunk is the number of tokens that files count in.
const chunk = 512

// Write writes the file name, which ends in .gguf, in the folder dir. text is what it says of the text, tokens its length.
func Write(dir, name, text string, tokens int, entries []Entry) error {
	metadata := []gguf.Entry{{Key: "general.type", Value: "imatrix"}, {Key: "imatrix.datasets", Value: []string{text}},
		{Key: "imatrix.chunk_count", Value: uint32((tokens + chunk - 1) / chunk)}, {Key: "imatrix.chunk_size", Value: uint32(chunk)}}
	var specs []gguf.Spec
	for _, e := range entries {
		n := len(e.Counts)
		specs = append(specs, gguf.Spec{Name: e.Name + sums, Type: block.F32, Shape: []int{n, len(e.Sums) / n}},
			gguf.Spec{Name: e.Name + counts, Type: block.F32, Shape: []int{n, 1}})
	}
	plan, err := gguf.NewPlan(strings.TrimSuffix(name, ".gguf"), metadata, specs, 0)
	if err != nil {
		return err
	}
	w, err := gguf.Create(dir, plan)
	if err != nil {
		return err
	}
	defer w.Close()
	for _, e := range entries {
		for suffix, list := range map[string][]float32{sums: e.Sums, counts: e.Counts} {
			raw := make([]byte, 4*len(list))
			half.EncodeF32(raw, list)
			if err := w.WriteAt(e.Name+suffix, raw, 0); err != nil {
				return err
			}
		}
	}
	return w.Close()
}
