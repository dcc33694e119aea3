package compressed

import (
	"encoding/binary"
	"fmt"
	"slices"

	"nibble/internal/kernel"
	"nibble/quant"
	"nibble/safetensors"
)

// linear is one quantized matrix.
type linear struct {
	module    string
	src       quant.Source
	n, k      int
	spec      quant.Spec
	groups    int
	ints      bool    // int-quantized
	perTensor bool    // one scale for all rows
	groupOf   []int32 // nil: natural
	names     []string
}

// Open checks the tensors of a module against one another.
func (r *reader) Open(module string, src quant.Source) (quant.Linear, error) {
	l := &linear{module: module, src: src}
	expect := r.Expect(module)
	var err error
	if _, packed := src.Lookup(module + ".weight_packed"); !packed && l.has(".weight") {
		err = l.openInts(expect)
	} else {
		err = l.openPacked(expect)
	}
	if err != nil {
		return nil, err
	}
	for _, s := range []string{".input_scale", ".input_zero_point"} {
		if l.has(s) {
			l.names = append(l.names, module+s)
		}
	}
	return l, nil
}

func (l *linear) has(suffix string) bool {
	_, ok := l.src.Lookup(l.module + suffix)
	return ok
}

func (l *linear) defect(tensor, kind, format string, args ...any) error {
	return &quant.Defect{Module: l.module, Tensor: tensor, Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// openInts checks weight I8 [N, K] and weight_scale [N, 1], [N] or [1].
func (l *linear) openInts(expect *quant.Spec) error {
	w, err := quant.Find(l.src, l.module, ".weight", 2, safetensors.I8)
	if err != nil {
		return err
	}
	l.ints, l.n, l.k = true, w.Shape[0], w.Shape[1]
	l.spec = quant.Spec{Bits: 8, Int8: expect != nil && expect.Int8}
	if l.has(".weight_zero_point") {
		return l.defect(l.module+".weight_zero_point", quant.Unsupported, "int-quantized weights with zero points: only symmetric ones are read")
	}
	l.names = []string{w.Name}
	return l.openScale(expect)
}

// openScale checks weight_scale, [N, G], or [N] or [1] for one group, and sets the groups.
func (l *linear) openScale(expect *quant.Spec) error {
	name := l.module + ".weight_scale"
	rank := 2
	if t, ok := l.src.Lookup(name); ok && len(t.Shape) == 1 {
		rank = 1
	}
	t, err := quant.Find(l.src, l.module, ".weight_scale", rank, quant.ScaleTypes...)
	if err != nil {
		return err
	}
	l.names = append(l.names, name)
	l.spec.Scale = t.DType
	if l.groups = 1; rank == 2 {
		l.groups = t.Shape[1]
	}
	if l.spec.Group, err = quant.FindGroup(l.module, name, l.k, l.groups, expect); err != nil {
		return err
	}
	if l.perTensor = slices.Equal(t.Shape, []int{1}); l.perTensor {
		return nil
	}
	return quant.CheckShape(t, l.module, "the weight", append([]int{l.n}, t.Shape[1:]...)...)
}

// openPacked checks the tensors of the pack-quantized layout.
func (l *linear) openPacked(expect *quant.Spec) error {
	w, err := quant.Find(l.src, l.module, ".weight_packed", 2, safetensors.I32, safetensors.U32)
	if err != nil {
		return err
	}
	l.names = []string{w.Name}
	if err := l.openShape(w, expect); err != nil {
		return err
	}
	if err := l.openScale(expect); err != nil {
		return err
	}
	if l.has(".weight_zero_point") {
		z, err := quant.Find(l.src, l.module, ".weight_zero_point", 2, safetensors.I32, safetensors.U32)
		if err != nil {
			return err
		}
		if err := quant.CheckShape(z, l.module, "weight_scale", words(l.n, l.spec.Bits), l.groups); err != nil {
			return err
		}
		l.spec.Zero = quant.Integer
		l.names = append(l.names, z.Name)
	}
	if l.has(".weight_g_idx") {
		t, err := quant.Find(l.src, l.module, ".weight_g_idx", 1, safetensors.I32, safetensors.I64)
		if err != nil {
			return err
		}
		if l.groupOf, err = quant.ReadGroupMap(l.src, l.module, t, l.k, l.spec.GroupSize(l.k), l.groups); err != nil {
			return err
		}
		l.names = append(l.names, t.Name)
	}
	return nil
}

// openShape sets rows, columns and width from weight_packed [N, words] and weight_shape. If several widths pack K columns
// into as many words, the config's is taken; without weight_shape rows are taken to fill their words.
func (l *linear) openShape(packed safetensors.Tensor, expect *quant.Spec) error {
	l.n = packed.Shape[0]
	inRow := packed.Shape[1]
	if !l.has(".weight_shape") {
		if expect == nil {
			return l.defect(l.module+".weight_shape", quant.MissingTensor, "without it and without a config for the module its width is unknown")
		}
		l.spec.Bits = expect.Bits
		l.k = 32 * inRow / expect.Bits
		return nil
	}
	t, err := quant.Find(l.src, l.module, ".weight_shape", 1, safetensors.I64, safetensors.I32)
	if err != nil {
		return err
	}
	if err := quant.CheckShape(t, l.module, "the format", 2); err != nil {
		return err
	}
	l.names = append(l.names, t.Name)
	p := make([]byte, t.Bytes())
	if err := l.src.ReadAt(t.Name, p, 0); err != nil {
		return err
	}
	n, k := int64(int32(binary.LittleEndian.Uint32(p))), int64(int32(binary.LittleEndian.Uint32(p[len(p)/2:])))
	if t.DType == safetensors.I64 {
		n, k = int64(binary.LittleEndian.Uint64(p)), int64(binary.LittleEndian.Uint64(p[8:]))
	}
	if n != int64(l.n) || k < 1 || k > 16*int64(inRow) {
		return l.defect(t.Name, quant.BadData, "[%d %d], where weight_packed is %v", n, k, packed.Shape)
	}
	l.k = int(k)
	widths := []int{2, 3, 4, 5, 6, 7, 8}
	if expect != nil {
		widths = append([]int{expect.Bits}, widths...)
	}
	for _, b := range widths {
		if words(l.k, b) == inRow {
			l.spec.Bits = b
			return nil
		}
	}
	return l.defect(packed.Name, quant.BadShape, "%d words for %d columns: no width of 2 to 8 bits packs densely into that many", inRow, l.k)
}

// Shape returns rows and columns.
func (l *linear) Shape() (n, k int) { return l.n, l.k }

// Spec returns what the tensors say.
func (l *linear) Spec() quant.Spec { return l.spec }

// Tensors returns the names of the module's tensors.
func (l *linear) Tensors() []string { return l.names }

// Rows reads a strip.
func (l *linear) Rows(row0, rows int) (*quant.Matrix, error) {
	if err := quant.CheckStrip(row0, rows, l.n); err != nil {
		return nil, err
	}
	m := quant.NewMatrix(rows, l.k, l.spec.Bits, l.spec.GroupSize(l.k), l.spec.Zero)
	m.GroupOf = l.groupOf
	if err := l.readCodes(m, row0); err != nil {
		return nil, err
	}
	if err := l.readScales(m, row0); err != nil {
		return nil, err
	}
	if m.Zero == quant.Symmetric {
		return m, nil
	}
	p := make([]byte, l.groups*quant.StreamBytes(rows, m.Bits)) // [words, groups]
	if err := l.src.ReadAt(l.module+".weight_zero_point", p, int64(row0*m.Bits/8)*int64(l.groups)); err != nil {
		return nil, err
	}
	z := make([]byte, len(p))
	kernel.Transpose32(z, p, words(rows, m.Bits), l.groups)
	m.SetZeroStreams(z)
	return m, nil
}

func (l *linear) readCodes(m *quant.Matrix, row0 int) error {
	if l.ints {
		if err := l.src.ReadAt(l.module+".weight", m.Codes, int64(row0)*int64(l.k)); err != nil {
			return err
		}
		flip(m.Codes, m.Codes) // q + 128 of an int8
		return nil
	}
	size := quant.StreamBytes(l.k, m.Bits)
	b, p := quant.Borrow(m.N * size)
	defer b.Return()
	if err := l.src.ReadAt(l.module+".weight_packed", p, int64(row0)*int64(size)); err != nil {
		return err
	}
	for r := range m.N {
		quant.UnpackBits(m.Codes[r*l.k:(r+1)*l.k], p[r*size:], m.Bits)
	}
	return nil
}

func (l *linear) readScales(m *quant.Matrix, row0 int) error {
	name, size := l.module+".weight_scale", l.spec.Scale.Bits()/8
	values, off := m.Scales, int64(row0)*int64(l.groups*size)
	if l.perTensor {
		values, off = m.Scales[:1], 0
	}
	p := make([]byte, len(values)*size)
	if err := l.src.ReadAt(name, p, off); err != nil {
		return err
	}
	quant.DecodeFloats(values, p, l.spec.Scale)
	if l.perTensor {
		for i := range m.Scales {
			m.Scales[i] = values[0]
		}
	}
	return quant.CheckFinite(l.module, name, m.Scales, row0, l.groups)
}
