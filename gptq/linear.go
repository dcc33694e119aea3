package gptq

import (
	"encoding/binary"
	"fmt"

	"nibble/internal/kernel"
	"nibble/quant"
	"nibble/safetensors"
)

// linear is one quantized matrix.
type linear struct {
	module  string
	src     quant.Source
	n, k    int
	spec    quant.Spec
	groups  int
	zeros   convention
	groupOf []int32 // nil: natural
	names   []string
}

// Open checks the tensors of a module against one another. The width follows from qzeros and scales, whose columns are
// zero points and rows; the number of columns from qweight or g_idx; the kind of zero from the zero points themselves.
func (r *reader) Open(module string, src quant.Source) (quant.Linear, error) {
	l := &linear{module: module, src: src, zeros: r.zeros}
	qw, err := quant.Find(src, module, ".qweight", 2, safetensors.I32, safetensors.U32)
	if err != nil {
		return nil, err
	}
	sc, err := quant.Find(src, module, ".scales", 2, quant.ScaleTypes...)
	if err != nil {
		return nil, err
	}
	l.names = []string{qw.Name, sc.Name}
	l.groups, l.n = sc.Shape[0], sc.Shape[1]
	l.spec.Scale = sc.DType
	if err := quant.CheckShape(qw, module, "scales", qw.Shape[0], l.n); err != nil {
		return nil, err
	}
	expect := r.Expect(module)
	if err := l.openZeros(expect); err != nil {
		return nil, err
	}
	if r.planar && l.spec.Bits != 4 {
		return nil, &quant.Defect{Module: module, Tensor: qw.Name, Kind: quant.Unsupported,
			Detail: fmt.Sprintf("checkpoint_format gptq_p with %d bits: only its 4-bit layout is known", l.spec.Bits)}
	}
	bits := 32 * qw.Shape[0]
	if l.k = bits / l.spec.Bits; bits%l.spec.Bits != 0 {
		return nil, &quant.Defect{Module: module, Tensor: qw.Name, Kind: quant.BadShape,
			Detail: fmt.Sprintf("%d words of a column hold no whole number of %d-bit codes", qw.Shape[0], l.spec.Bits)}
	}
	if l.spec.Group, err = quant.FindGroup(module, sc.Name, l.k, l.groups, expect); err != nil {
		return nil, err
	}
	if _, ok := src.Lookup(module + ".g_idx"); ok {
		t, err := quant.Find(src, module, ".g_idx", 1, safetensors.I32, safetensors.I64)
		if err != nil {
			return nil, err
		}
		l.names = append(l.names, t.Name)
		if l.groupOf, err = quant.ReadGroupMap(src, module, t, l.k, l.spec.GroupSize(l.k), l.groups); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// openZeros sets the width and the kind of zero. Absent zero points mean a symmetric grid of the width that the config
// says. Under sym:true they are looked at all the same: constants of M or M−1 are a symmetric grid under either
// convention, anything else is not what the config says and is decoded as it is stored.
func (l *linear) openZeros(expect *quant.Spec) error {
	name := l.module + ".qzeros"
	if _, ok := l.src.Lookup(name); !ok {
		if expect == nil || expect.Zero != quant.Symmetric {
			return &quant.Defect{Module: l.module, Tensor: name, Kind: quant.MissingTensor, Detail: "only sym:true can do without zero points"}
		}
		l.spec.Bits = expect.Bits
		return nil
	}
	t, err := quant.Find(l.src, l.module, ".qzeros", 2, safetensors.I32, safetensors.U32)
	if err != nil {
		return err
	}
	l.names = append(l.names, name)
	bits := 32 * t.Shape[1] / l.n
	if bits < 2 || bits > 8 || bits*l.n != 32*t.Shape[1] {
		return &quant.Defect{Module: l.module, Tensor: name, Kind: quant.BadShape,
			Detail: fmt.Sprintf("%d words for %d rows, where a width of 2 to 8 bits implies a 32nd of that many words per row", t.Shape[1], l.n)}
	}
	l.spec.Bits = bits
	if err := quant.CheckShape(t, l.module, "scales", l.groups, t.Shape[1]); err != nil {
		return err
	}
	l.spec.Zero = quant.Integer
	if expect == nil || expect.Zero != quant.Symmetric {
		return nil
	}
	p := make([]byte, t.Bytes())
	if err := l.src.ReadAt(name, p, 0); err != nil {
		return err
	}
	if constant(p, t.Shape[1]*4, l.n, bits) {
		l.spec.Zero = quant.Symmetric
	}
	return nil
}

// constant reports whether all codes of streams of n codes, size bytes each, are M or all are M−1.
func constant(p []byte, size, n, bits int) bool {
	codes := make([]uint8, n)
	var first uint8
	for g := 0; g < len(p); g += size {
		quant.UnpackBits(codes, p[g:g+size], bits)
		if g == 0 {
			first = codes[0]
		}
		for _, z := range codes {
			if z != first {
				return false
			}
		}
	}
	mid := uint8(1) << (bits - 1)
	return first == mid || first == mid-1
}

// Shape returns rows and columns.
func (l *linear) Shape() (n, k int) { return l.n, l.k }

// Spec returns what the tensors say.
func (l *linear) Spec() quant.Spec { return l.spec }

// Tensors returns the names of the module's tensors.
func (l *linear) Tensors() []string { return l.names }

// Rows reads a strip: columns of qweight, scales and qzeros.
func (l *linear) Rows(row0, rows int) (*quant.Matrix, error) {
	if err := quant.CheckStrip(row0, rows, l.n); err != nil {
		return nil, err
	}
	m := quant.NewMatrix(rows, l.k, l.spec.Bits, l.spec.GroupSize(l.k), l.spec.Zero)
	m.GroupOf = l.groupOf
	words := l.k * m.Bits / 32
	b, p := quant.Borrow(4 * words * rows) // [words, rows]
	defer b.Return()
	if err := quant.ReadColumns(l.src, l.module+".qweight", 4*int64(row0), 4*int64(l.n), words, p); err != nil {
		return nil, err
	}
	b, streams := quant.Borrow(len(p)) // [rows, words]
	defer b.Return()
	kernel.Transpose32(streams, p, words, rows)
	for r := range rows {
		quant.UnpackBits(m.Codes[r*l.k:(r+1)*l.k], streams[4*r*words:4*(r+1)*words], m.Bits)
	}

	if err := quant.ReadScaleColumns(l.src, l.module, l.module+".scales", m, l.spec.Scale, row0, l.n); err != nil {
		return nil, err
	}
	if l.spec.Zero == quant.Symmetric {
		return m, nil
	}

	p = make([]byte, l.groups*quant.StreamBytes(rows, m.Bits)) // [groups, words]
	if err := quant.ReadColumns(l.src, l.module+".qzeros", int64(row0*m.Bits/8), int64(l.n*m.Bits/8), l.groups, p); err != nil {
		return nil, err
	}
	l.setZeros(m, p)
	return m, nil
}

// setZeros undoes the file's convention. A carry can only be undone in words that hold whole codes; at other widths
// every code is taken by itself.
func (l *linear) setZeros(m *quant.Matrix, p []byte) {
	if l.zeros == carry && 32%m.Bits == 0 {
		for i := 0; i < len(p); i += 4 {
			binary.LittleEndian.PutUint32(p[i:], binary.LittleEndian.Uint32(p[i:])+ones(m.Bits))
		}
	}
	m.SetZeroStreams(p)
	if l.zeros == wrap || l.zeros == carry && 32%m.Bits != 0 {
		top := uint8(1<<m.Bits - 1)
		for i, z := range m.Zeros {
			m.Zeros[i] = (z + 1) & top
		}
	}
}
