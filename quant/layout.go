package quant

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"nibble/safetensors"
)

// Columns stores p, a strip of columns of a row-major tensor: rows equal runs, stride bytes apart, the first at byte off.
func (put Put) Columns(tensor int, off, stride int64, rows int, p []byte) error {
	size := len(p) / rows
	if int64(size) == stride {
		return put(tensor, off, p)
	}
	for r := range rows {
		if err := put(tensor, off+int64(r)*stride, p[r*size:(r+1)*size]); err != nil {
			return err
		}
	}
	return nil
}

const (
	readWhole   = 64 << 10 // about what ReadColumns reads at once where it reads what is between columns, too
	readBetween = 4 << 10  // bytes that take about as long as a call of the system
)

// ReadColumns is the inverse of Columns. Where little is between the columns of two rows it is read with them.
func ReadColumns(src Source, name string, off, stride int64, rows int, p []byte) error {
	size := len(p) / rows
	if int64(size) == stride {
		return src.ReadAt(name, p, off)
	}
	if stride-int64(size) > readBetween {
		for r := range rows {
			if err := src.ReadAt(name, p[r*size:(r+1)*size], off+int64(r)*stride); err != nil {
				return err
			}
		}
		return nil
	}
	step := max(readWhole/int(stride), 1)
	b, whole := Borrow(step * int(stride))
	defer b.Return()
	for first := 0; first < rows; first += step {
		n := min(step, rows-first)
		if err := src.ReadAt(name, whole[:(n-1)*int(stride)+size], off+int64(first)*stride); err != nil {
			return err
		}
		for r := range n {
			copy(p[(first+r)*size:(first+r+1)*size], whole[r*int(stride):])
		}
	}
	return nil
}

// ScaleColumns stores the scales of m, a strip of n rows from row0, in a tensor [G, n] of type d.
func (put Put) ScaleColumns(tensor int, m *Matrix, d safetensors.DType, row0, n int) error {
	size := d.Bits() / 8
	p := make([]byte, len(m.Scales)*size) // [G, m.N]
	EncodeFloats(p, transpose(m.Scales, m.N, m.Groups()), d)
	return put.Columns(tensor, int64(row0*size), int64(n*size), m.Groups(), p)
}

// ReadScaleColumns is the inverse of ScaleColumns.
func ReadScaleColumns(src Source, module, name string, m *Matrix, d safetensors.DType, row0, n int) error {
	size := d.Bits() / 8
	p := make([]byte, len(m.Scales)*size)
	if err := ReadColumns(src, name, int64(row0*size), int64(n*size), m.Groups(), p); err != nil {
		return err
	}
	DecodeFloats(m.Scales, p, d)
	m.Scales = transpose(m.Scales, m.Groups(), m.N)
	return CheckFinite(module, name, m.Scales, row0, m.Groups())
}

// transpose returns the transpose of p, a matrix of rows by cols.
func transpose(p []float32, rows, cols int) []float32 {
	t := make([]float32, len(p))
	for r := range rows {
		for c, f := range p[r*cols : (r+1)*cols] {
			t[c*rows+r] = f
		}
	}
	return t
}

// Find returns the tensor called module+suffix. It must have one of the types and rank dimensions of at least 1.
func Find(src Source, module, suffix string, rank int, types ...safetensors.DType) (safetensors.Tensor, error) {
	name := module + suffix
	t, ok := src.Lookup(name)
	switch {
	case !ok:
		return t, &Defect{module, name, MissingTensor, "the module has other quantized tensors but not this one"}
	case !slices.Contains(types, t.DType):
		return t, &Defect{module, name, BadType, fmt.Sprintf("%s, where the layout has %s", t.DType, join(types))}
	case len(t.Shape) != rank || slices.ContainsFunc(t.Shape, func(d int) bool { return d < 1 }):
		return t, &Defect{module, name, BadShape, fmt.Sprintf("%v, where the layout has %d dimensions of at least 1", t.Shape, rank)}
	}
	return t, nil
}

func join(types []safetensors.DType) string {
	var names []string
	for _, t := range types {
		names = append(names, t.String())
	}
	return strings.Join(names, " or ")
}

// ScaleTypes are the types in which scales are read.
var ScaleTypes = []safetensors.DType{safetensors.F16, safetensors.BF16, safetensors.F32}

// CheckShape returns a defect unless the tensor has the shape that the module's other tensors imply.
func CheckShape(t safetensors.Tensor, module, implied string, want ...int) error {
	if slices.Equal(t.Shape, want) {
		return nil
	}
	return &Defect{module, t.Name, BadShape, fmt.Sprintf("%v, where %s implies %v", t.Shape, implied, want)}
}

// FindGroup returns the group size of k columns in g groups: the one the config says if it gives that many, otherwise
// the only one that gives full groups, or a defect of the tensor that holds the groups if none does.
func FindGroup(module, tensor string, k, g int, config *Spec) (int, error) {
	if config != nil {
		if size := config.GroupSize(k); size > 0 && size <= k && (k-1)/size+1 == g {
			return config.Group, nil
		}
	}
	if k%g == 0 {
		return k / g, nil
	}
	detail := fmt.Sprintf("%d groups of %d columns cannot be equal", g, k)
	if config != nil {
		detail += fmt.Sprintf(", and the config says %s", config)
	}
	return 0, &Defect{module, tensor, BadShape, detail}
}

// ReadGroupMap reads a tensor of k group numbers, I32 or I64. It returns nil for natural order, k/group.
func ReadGroupMap(src Source, module string, t safetensors.Tensor, k, group, groups int) ([]int32, error) {
	if err := CheckShape(t, module, "the number of columns", k); err != nil {
		return nil, err
	}
	p := make([]byte, t.Bytes())
	if err := src.ReadAt(t.Name, p, 0); err != nil {
		return nil, err
	}
	size := len(p) / k
	m, natural := make([]int32, k), true
	for i := range m {
		g := int64(int32(binary.LittleEndian.Uint32(p[i*size:])))
		if t.DType == safetensors.I64 {
			g = int64(binary.LittleEndian.Uint64(p[i*size:]))
		}
		if g < 0 || g >= int64(groups) {
			return nil, &Defect{module, t.Name, BadData, fmt.Sprintf("column %d is in group %d of %d", i, g, groups)}
		}
		m[i] = int32(g)
		natural = natural && int(g) == i/group
	}
	if natural {
		return nil, nil
	}
	return m, nil
}

// CheckStrip verifies that rows row0 to row0+rows can be read from a linear of n rows.
func CheckStrip(row0, rows, n int) error {
	if row0 < 0 || row0%32 != 0 || rows < 1 || rows > n-row0 {
		return fmt.Errorf("quant: rows %d to %d of %d: a strip starts at a multiple of 32 and ends in the matrix", row0, row0+rows, n)
	}
	return nil
}

// CheckFinite returns a defect if one of the scales or float zeros read from a tensor, [rows, groups] from row0, is not
// finite.
func CheckFinite(module, tensor string, f []float32, row0, groups int) error {
	if i := NonFinite(f); i >= 0 {
		return &Defect{module, tensor, BadData, fmt.Sprintf("row %d, group %d is %v", row0+i/groups, i%groups, f[i])}
	}
	return nil
}

// ModuleOf returns the tensor's name without the first of the suffixes that it ends in, or "".
func ModuleOf(tensor string, suffixes ...string) string {
	for _, s := range suffixes {
		if m, ok := strings.CutSuffix(tensor, s); ok {
			return m
		}
	}
	return ""
}

// ErrNoModules says why there is no config.
var ErrNoModules = errors.New("no module is quantized, so there is nothing for a quantization_config to say")

// FloatLinear reports whether the module is a linear left in float, which a config may have to name.
func (m *Module) FloatLinear() bool {
	return m.Spec == nil && !m.Embed && (m.Class == "Linear" || m.Head)
}

// IsHead reports whether a module's name is that of an output head.
func IsHead(module string) bool { return module == "lm_head" || strings.HasSuffix(module, ".lm_head") }
