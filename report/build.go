package report

import (
	"cmp"
	"io/fs"
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
	x.TensorBytes = b.Set.Bytes()
	for i := range b.Tensors {
		x.Parameters += b.Tensors[i].Elements()
	}
	if r == nil {
		x.ownMatrices(b)
	} else {
		x.TensorBytes = cmp.Or(r.Totals.TensorBytes, x.TensorBytes)
		x.Parameters = cmp.Or(r.Totals.Parameters, x.Parameters)
		x.Made = &Made{Tool: r.Tool, Command: r.Command, Run: r.Run, Sources: r.Source.Files, Calibration: r.Calibration,
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
		if !t.Role.Matrix() || t.Source == "" && l == nil {
			continue
		}
		m := Matrix{Name: t.Module(), Role: t.Role.String(), Layer: t.Layer, module: t.Module()}
		if t.Source == "" {
			n, k := l.Shape()
			s := l.Spec()
			m.Shape, m.Width, m.Group, m.Method = []int{n, k}, s.Bits, s.GroupSize(k), s.Method
			m.Bytes = b.Bytes(l)
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
