package report

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"nibble/build"
	"nibble/convert"
	"nibble/hf"
)

// NewBuild lists what a build is made of; r is its own report, nil if it has none.
func NewBuild(name string, b *build.Build, r *convert.Report) *Build {
	x := &Build{Name: name, Architecture: b.Arch.Name, Format: "float", Files: []File{}, Matrices: []Matrix{}}
	if b.Reader != nil {
		x.Format = b.Reader.Format()
	}
	if b.Origin != nil {
		x.Format = "GGUF"
		for _, f := range b.Origin {
			x.Files = append(x.Files, File{f.Name, f.Size})
		}
	} else {
		for _, name := range b.Files {
			if info, err := fs.Stat(b.FS, name); err == nil { // one that has gone meanwhile is not listed
				x.Files = append(x.Files, File{name, info.Size()})
			}
		}
	}
	for _, t := range b.Set.Tensors() {
		x.TensorBytes += t.Bytes()
	}
	for i := range b.Tensors {
		x.Parameters += b.Tensors[i].Elements()
	}
	if r == nil {
		x.ownMatrices(b)
	} else {
		x.TensorBytes = cmp.Or(r.Totals.TensorBytes, x.TensorBytes)
		x.Parameters = cmp.Or(r.Totals.Parameters, x.Parameters)
		x.Made = &Made{Tool: r.Tool, Time: r.Time, Settings: settings(b, r.Flags), Sources: r.Source.Files, Calibration: r.Calibration,
			Notes: append([]string{}, r.Notes...)}
		x.SQNR, x.SQNRMin = &r.Totals.SQNR, &r.Totals.SQNRMin
		x.statedMatrices(b, r)
	}
	if x.Parameters > 0 {
		x.BitsPerWeight = 8 * float64(x.TensorBytes) / float64(x.Parameters)
	}
	return x
}

// ownMatrices lists the matrices of a build without a report.
func (x *Build) ownMatrices(b *build.Build) {
	for i := range b.Tensors {
		t := &b.Tensors[i]
		l := b.Linears[t.Module()]
		if !t.Role.Linear() && t.Role != hf.Head && t.Role != hf.Embedding || t.Source == "" && l == nil {
			continue
		}
		m := Matrix{Name: t.Module(), Role: t.Role.String(), Layer: t.Layer, module: t.Module()}
		if t.Source == "" {
			n, k := l.Shape()
			s := l.Spec()
			m.Shape, m.Width, m.Group, m.Method = []int{n, k}, s.Bits, s.GroupSize(k), s.Method
			for _, name := range l.Tensors() {
				s, _ := b.Set.Lookup(name)
				m.Bytes += s.Bytes()
			}
		} else {
			s, _ := b.Set.Lookup(t.Source)
			m.Shape, m.Method, m.Bytes = []int{t.Out(), t.In()}, s.DType.String(), t.Elements()*int64(s.DType.Bits())/8
		}
		x.add(m)
	}
}

// statedMatrices lists the matrices that the report of a build states.
func (x *Build) statedMatrices(b *build.Build, r *convert.Report) {
	table := map[string]*hf.Tensor{}
	for i := range b.Tensors {
		table[b.Tensors[i].Module()] = &b.Tensors[i]
	}
	for i := range r.Tensors {
		t := &r.Tensors[i]
		m := Matrix{Name: t.Name, Shape: t.Shape, Method: t.Method, Width: t.Bits, Group: t.Group, Bytes: t.Bytes, Kept: t.Kept, SQNR: t.SQNR,
			Fallback: t.Fallback, Folded: t.Folded, Loss: (*float64)(t.Loss)}
		if t.Max != nil {
			m.Max = float64(*t.Max)
		}
		m.Role, m.Layer = place(t.Name)
		for _, module := range []string{t.Name, strings.TrimSuffix(t.Source, ".weight")} {
			if row := table[module]; row != nil {
				m.Role, m.Layer, m.module = row.Role.String(), row.Layer, module
				break
			}
		}
		x.add(m)
	}
}

func (x *Build) add(m Matrix) {
	m.Bits = 8 * float64(m.Bytes) / float64(max(m.weights(), 1))
	x.Matrices = append(x.Matrices, m)
}

// place reads role and layer from the name of a matrix that no table knows: the last part, and the first number.
func place(name string) (role string, layer int) {
	parts := strings.Split(strings.TrimSuffix(name, ".weight"), ".")
	layer = -1
	for _, p := range parts {
		if n, err := strconv.Atoi(p); err == nil && n >= 0 {
			layer = n
			break
		}
	}
	return parts[len(parts)-1], layer
}

// settings writes the flags that a report states as a command line.
func settings(b *build.Build, flags map[string]any) string {
	line := []string{"quantize", "MODEL"}
	int8 := false
	for _, l := range b.Linears {
		int8 = l.Spec().Int8
		break // all have it or none
	}
	if int8 {
		line = append(line, "--scheme", "W8A8")
	}
	first := []string{"format", "type", "bits", "group", "zero", "method"}
	rank := func(name string) int { return (slices.Index(first, name) + len(first) + 1) % (len(first) + 1) }
	names := make([]string, 0, len(flags))
	for name := range flags {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	for _, name := range names {
		flag := "--" + strings.ReplaceAll(name, "_", "-")
		switch v := flags[name].(type) {
		case string:
			switch {
			case int8 && (name == "format" || name == "zero"):
			case name == "zero" && v == "symmetric":
				line = append(line, "--sym")
			case name == "zero":
				line = append(line, "--asym")
			case name == "scale_dtype":
				line = append(line, flag, word(strings.ToLower(v)))
			default:
				line = append(line, flag, word(v))
			}
		case float64:
			if int8 && (name == "bits" || name == "group") || name == "max_shard_size" && v == 5e9 {
				continue
			}
			line = append(line, flag, strconv.FormatFloat(v, 'f', -1, 64))
		case bool:
			switch {
			case name == "signed_scale":
				line = append(line, flag, map[bool]string{true: "on", false: "off"}[v])
			case v:
				line = append(line, flag)
			}
		case []any:
			if name == "recipe" {
				line = append(line, flag, fmt.Sprintf("FILE (%d rules)", len(v)))
				continue
			}
			for _, one := range v[:min(len(v), 64)] {
				line = append(line, flag, word(fmt.Sprint(one)))
			}
		}
	}
	return strings.Join(line, " ")
}

// word quotes what a shell would take apart, and shortens what nobody reads.
func word(s string) string {
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	if strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune("-_./=,:+@", r) && !isPlain(r) }) >= 0 || s == "" {
		return strconv.Quote(s)
	}
	return s
}

func isPlain(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}
