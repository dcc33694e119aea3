package awq

import (
	"fmt"
	"slices"

	"nibble/quant"
	"nibble/safetensors"
)

// linear is one quantized matrix.
type linear struct {
	module string
	src    quant.Source
	n, k   int
	groups int
	spec   quant.Spec
	padded int // gemv: scales in a row, padding included; 0: gemm
	names  []string
}

// Open checks the tensors of a module against one another.
func (r *reader) Open(module string, src quant.Source) (quant.Linear, error) {
	qw, err := quant.Find(src, module, ".qweight", 2, safetensors.I32, safetensors.U32)
	if err != nil {
		return nil, err
	}
	sc, err := quant.Find(src, module, ".scales", 2, quant.ScaleTypes...)
	if err != nil {
		return nil, err
	}
	l := &linear{module: module, src: src, spec: quant.Spec{Bits: 4, Scale: sc.DType}, names: []string{qw.Name, sc.Name}}
	expect := r.Expect(module)
	if r.gemv {
		err = l.shapeGEMV(qw, sc, r.spec)
	} else {
		err = l.shapeGEMM(qw, sc, expect)
	}
	if err == nil {
		err = l.openZeros(expect)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// shapeGEMM takes rows and groups from scales [G, N], columns from qweight [K, N/8].
func (l *linear) shapeGEMM(qw, sc safetensors.Tensor, expect *quant.Spec) error {
	l.k, l.groups, l.n = qw.Shape[0], sc.Shape[0], sc.Shape[1]
	if l.n%8 != 0 {
		return &quant.Defect{Module: l.module, Tensor: sc.Name, Kind: quant.BadShape,
			Detail: fmt.Sprintf("%d rows, where a word of qweight holds 8", l.n)}
	}
	if err := quant.CheckShape(qw, l.module, "scales", l.k, l.n/8); err != nil {
		return err
	}
	var err error
	l.spec.Group, err = quant.FindGroup(l.module, sc.Name, l.k, l.groups, expect)
	return err
}

// shapeGEMV takes rows and columns from qweight [N, K/8] and the group size from the config, since scales [N, 8W] and
// qzeros [N, W] are padded.
func (l *linear) shapeGEMV(qw, sc safetensors.Tensor, config quant.Spec) error {
	l.n, l.k = qw.Shape[0], 8*qw.Shape[1]
	group := min(config.GroupSize(l.k), l.k)
	l.spec.Group = config.Group
	l.groups = (l.k-1)/group + 1
	l.padded = 8 * paddedWords(l.groups, group)
	return quant.CheckShape(sc, l.module, "the shape of qweight and the config's group size", l.n, l.padded)
}

// paddedWords returns W, the words of zero points in a row of the gemv layout.
func paddedWords(groups, group int) int {
	m := 1
	switch {
	case group < 64:
		m = 4
	case group < 128:
		m = 2
	}
	w := (groups + 7) / 8
	return (w + m - 1) / m * m
}

// openZeros checks qzeros and sets the kind of zero: symmetric if the config says so and the stored ones, if there are
// any, are all 8.
func (l *linear) openZeros(expect *quant.Spec) error {
	symmetric := expect != nil && expect.Zero == quant.Symmetric
	name := l.module + ".qzeros"
	if _, ok := l.src.Lookup(name); !ok && symmetric {
		return nil
	}
	t, err := quant.Find(l.src, l.module, ".qzeros", 2, safetensors.I32, safetensors.U32)
	if err != nil {
		return err
	}
	want := []int{l.groups, l.n / 8}
	if l.padded > 0 {
		want = []int{l.n, l.padded / 8}
	}
	if err := quant.CheckShape(t, l.module, "qweight and scales", want...); err != nil {
		return err
	}
	l.names = append(l.names, name)
	l.spec.Zero = quant.Integer
	if !symmetric {
		return nil
	}
	zeros := make([]uint8, l.n*l.groups)
	if err := l.zeros(zeros, 0, l.n); err != nil {
		return err
	}
	if !slices.ContainsFunc(zeros, func(z uint8) bool { return z != 8 }) {
		l.spec.Zero = quant.Symmetric
	}
	return nil
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
	m := quant.NewMatrix(rows, l.k, 4, min(l.spec.GroupSize(l.k), l.k), l.spec.Zero)
	if err := l.codes(m.Codes, row0, rows); err != nil {
		return nil, err
	}
	if err := l.readScales(m, row0); err != nil {
		return nil, err
	}
	if m.Zero == quant.Integer {
		return m, l.zeros(m.Zeros, row0, rows)
	}
	return m, nil
}

func (l *linear) codes(dst []uint8, row0, rows int) error {
	if l.padded > 0 {
		return l.nibbles(dst, ".qweight", row0, rows, l.k, l.k)
	}
	return l.columns(dst, ".qweight", row0, rows, l.k)
}

func (l *linear) zeros(dst []uint8, row0, rows int) error {
	if l.padded > 0 {
		return l.nibbles(dst, ".qzeros", row0, rows, l.padded, l.groups)
	}
	return l.columns(dst, ".qzeros", row0, rows, l.groups)
}

func (l *linear) readScales(m *quant.Matrix, row0 int) error {
	name := l.module + ".scales"
	if l.padded == 0 {
		return quant.ReadScaleColumns(l.src, l.module, name, m, l.spec.Scale, row0, l.n)
	}
	size := l.padded * l.spec.Scale.Bits() / 8
	p := make([]byte, m.N*size)
	if err := l.src.ReadAt(name, p, int64(row0*size)); err != nil {
		return err
	}
	for r := range m.N {
		quant.DecodeFloats(m.Scales[r*l.groups:(r+1)*l.groups], p[r*size:], l.spec.Scale)
	}
	return quant.CheckFinite(l.module, name, m.Scales, row0, l.groups)
}

// columns reads a strip of a gemm tensor [height, N/8] as codes [rows, height]. The strip is read in whole words.
func (l *linear) columns(codes []uint8, suffix string, row0, rows, height int) error {
	whole := (rows + 7) / 8 * 8
	b, p := quant.Borrow(height * whole / 2)
	defer b.Return()
	if err := quant.ReadColumns(l.src, l.module+suffix, int64(row0/2), int64(l.n/2), height, p); err != nil {
		return err
	}
	if rows == whole {
		unpackColumns(codes, p, rows, height)
		return nil
	}
	all := make([]uint8, whole*height)
	unpackColumns(all, p, whole, height)
	copy(codes, all)
	return nil
}

// nibbles reads a strip of a gemv tensor whose rows hold width codes, of which the first used ones count.
func (l *linear) nibbles(codes []uint8, suffix string, row0, rows, width, used int) error {
	b, p := quant.Borrow(rows * width / 2)
	defer b.Return()
	if err := l.src.ReadAt(l.module+suffix, p, int64(row0*width/2)); err != nil {
		return err
	}
	for r := range rows {
		quant.UnpackBits(codes[r*used:(r+1)*used], p[r*width/2:], 4)
	}
	return nil
}
