package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"unicode"

	"nibble/build"
	"nibble/internal/parallel"
	"nibble/quant"
)

// Deviation is what is not as a report says.
type Deviation struct {
	Name string `json:"name"` // of a file or a matrix; "" for the build as a whole
	What string `json:"what"`
}

// String is the line for people. Names come from files: what a terminal would obey becomes a question mark.
func (d Deviation) String() string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.TrimPrefix(d.Name+": "+d.What, ": "))
}

// VerifyFiles hashes files, and returns what is not as listed, in the order of the list. Names come from a report: those that leave the
// folder are not followed.
func VerifyFiles(ctx context.Context, files fs.FS, list []SourceFile, threads int) ([]Deviation, error) {
	found := make([]string, len(list))
	err := parallel.Each(ctx, len(list), threads, func(i int) error {
		found[i] = verifyFile(files, list[i])
		return nil
	})
	if err != nil {
		return nil, err
	}
	var all []Deviation
	for i, what := range found {
		if what != "" {
			all = append(all, Deviation{list[i].Name, what})
		}
	}
	return all, nil
}

func verifyFile(files fs.FS, f SourceFile) string {
	info, err := fs.Stat(files, f.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "is not there"
	case err != nil:
		return err.Error()
	case !info.Mode().IsRegular():
		return "is no file"
	case info.Size() != f.Size:
		return fmt.Sprintf("has %d bytes, the report says %d", info.Size(), f.Size)
	}
	sum, err := hashFile(files, f.Name)
	switch {
	case err != nil:
		return err.Error()
	case sum != f.SHA256:
		return fmt.Sprintf("has SHA-256 %s, the report says %s", sum, f.SHA256)
	}
	return ""
}

// VerifySizes derives the figures of a report from the tensors of the build, and returns those that differ.
func VerifySizes(b *build.Build, r *Report) (all []Deviation) {
	wrong := func(name, format string, args ...any) {
		all = append(all, Deviation{name, fmt.Sprintf(format, args...)})
	}
	bytes, quantized := b.Set.Bytes(), int64(0)
	for i := range r.Tensors {
		t := &r.Tensors[i]
		n := int64(1)
		for _, d := range t.Shape {
			n *= int64(d)
		}
		if t.SQNR != nil {
			quantized += n
		}
		if b.Origin == nil {
			for _, what := range verifyMatrix(b, t) {
				wrong(t.Name, "%s", what)
			}
		}
	}
	if x := &r.Totals; b.Origin == nil && bytes != x.TensorBytes {
		wrong("", "%d bytes of tensors, the report says %d", bytes, x.TensorBytes)
	} else if quantized != x.Quantized {
		wrong("", "%d weights of quantized matrices, the report says %d", quantized, x.Quantized)
	}
	if x := &r.Totals; x.Parameters > 0 {
		if bits := math.Round(8e4*float64(x.TensorBytes)/float64(x.Parameters)) / 1e4; math.Abs(bits-x.BitsPerWeight) > 1e-9 {
			wrong("", "%.4f bits per weight, the report says %v", bits, x.BitsPerWeight)
		}
	}
	return all
}

// verifyMatrix compares a matrix with its tensors.
func verifyMatrix(b *build.Build, t *ReportTensor) (what []string) {
	l := b.Linears[t.Name]
	names := []string{t.Name + ".weight"}
	switch {
	case t.Bits > 0 && l == nil:
		return []string{"is quantized in the report, not in the file"}
	case t.Bits == 0 && l != nil:
		return []string{"is quantized in the file, not in the report"}
	case l != nil:
		names = l.Tensors()
		n, k := l.Shape()
		s := l.Spec()
		is := func(bits, group int, zero string, shape []int) string {
			return fmt.Sprintf("%d-bit, groups of %d, %s, %v", bits, group, zero, shape)
		}
		have, want := is(s.Bits, s.GroupSize(k), s.Zero.String(), []int{n, k}), is(t.Bits, t.Group, t.Zero, t.Shape)
		if t.Zero == quant.Symmetric.String() { // tensors of a symmetric grid may show zero points
			have = is(s.Bits, s.GroupSize(k), t.Zero, []int{n, k})
		}
		if have != want {
			what = append(what, have+", the report says "+want)
		}
	}
	var bytes int64
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		x, ok := b.Set.Lookup(name)
		if !ok {
			return what // a row of the table under another name
		}
		bytes += x.Bytes()
	}
	if bytes != t.Bytes {
		what = append(what, fmt.Sprintf("takes %d bytes, the report says %d", bytes, t.Bytes))
	}
	return what
}
