package view

import (
	"cmp"
	"fmt"
	"strings"

	"nibble/gguf/block"
	"nibble/internal/half"
	"nibble/internal/kernel"
	"nibble/quant"
	"nibble/safetensors"
)

// Open returns the reader of folders that [Folder] opens.
func Open() quant.Reader { return reader{} }

type reader struct{}

// Format names what the files are.
func (reader) Format() string { return "GGUF" }

// split takes the type off the name of a tensor of blocks.
func split(tensor string) (module string, t block.Type) {
	at := strings.LastIndexByte(tensor, '.')
	t, ok := block.Parse(tensor[at+1:])
	if _, grid := t.Grid(); !ok || !grid || at < 1 {
		return "", 0
	}
	return tensor[:at], t
}

// Module returns the module of a tensor of blocks.
func (reader) Module(tensor string, _ quant.Source) string {
	module, _ := split(tensor)
	return module
}

// Expect returns nil: the tensors alone say how they are quantized.
func (reader) Expect(string) *quant.Spec { return nil }

// Open finds the tensor of a module.
func (reader) Open(module string, src quant.Source) (quant.Linear, error) {
	for t := block.Q4_0; t <= block.IQ4_XS; t++ {
		g, ok := t.Grid()
		if !ok {
			continue
		}
		x, ok := src.Lookup(module + "." + t.String())
		if !ok {
			continue
		}
		if x.DType != safetensors.U8 || len(x.Shape) != 2 || x.Shape[0] < 1 || x.Shape[1] < 1 || x.Shape[1]%t.Bytes() != 0 {
			return nil, &quant.Defect{Module: module, Tensor: x.Name, Kind: quant.BadShape,
				Detail: fmt.Sprintf("%s %v is no matrix of blocks", x.DType, x.Shape)}
		}
		return &linear{module: module, src: src, tensor: x, kind: t, grid: g, n: x.Shape[0], k: x.Shape[1] / t.Bytes() * t.Size()}, nil
	}
	return nil, &quant.Defect{Module: module, Kind: quant.MissingTensor, Detail: "no tensor of blocks"}
}

// linear is a matrix of blocks.
type linear struct {
	module string
	src    quant.Source
	tensor safetensors.Tensor
	kind   block.Type
	grid   block.Grid
	n, k   int
}

// Shape returns rows and columns.
func (l *linear) Shape() (n, k int) { return l.n, l.k }

// Spec returns the grid. Scales are products of numbers of 16 bits with integers: they take float32.
func (l *linear) Spec() quant.Spec {
	s := quant.Spec{Bits: l.grid.Bits, Group: l.grid.Size, Zero: quant.Symmetric, Scale: safetensors.F16}
	if l.grid.Biases {
		s.Zero = quant.Float
	}
	if l.kind.Size() > 32 {
		s.Scale = safetensors.F32
	}
	return s
}

// Tensors returns the tensor of blocks.
func (l *linear) Tensors() []string { return []string{l.tensor.Name} }

// Kind returns the type of the blocks.
func (l *linear) Kind() block.Type { return l.kind }

// Levels takes rows of a type with scales in two levels apart, block by block: as many rows as there is room for their codes.
func (l *linear) Levels(blocks []kernel.KRow, codes []uint8, row0 int) error {
	buffer, raw, err := l.raw(row0, len(codes)/l.k)
	if err != nil {
		return err
	}
	defer buffer.Return()
	size := l.kind.Bytes()
	d := make([]float32, 2*len(blocks))
	d, dmin := d[:len(blocks)], d[len(blocks):]
	for i := range blocks {
		l.kind.Levels(&blocks[i], (*[kernel.KColumns]uint8)(codes[i*kernel.KColumns:]), raw[i*size:][:size])
		d[i], dmin[i] = half.FromF16(blocks[i].D), half.FromF16(blocks[i].DMin)
	}
	per := l.k / kernel.KColumns
	return cmp.Or(quant.CheckFinite(l.module, l.tensor.Name, d, row0, per), quant.CheckFinite(l.module, l.tensor.Name, dmin, row0, per))
}

// raw reads the blocks of rows into memory that is to be returned.
func (l *linear) raw(row0, rows int) (*quant.Buffer, []byte, error) {
	if err := quant.CheckStrip(row0, rows, l.n); err != nil {
		return nil, nil, err
	}
	size := l.tensor.Shape[1]
	buffer, raw := quant.Borrow(rows * size)
	if err := l.src.ReadAt(l.tensor.Name, raw, int64(row0)*int64(size)); err != nil {
		buffer.Return()
		return nil, nil, err
	}
	return buffer, raw, nil
}

// Rows takes rows apart.
func (l *linear) Rows(row0, rows int) (*quant.Matrix, error) {
	return l.rows(row0, rows, func(m *quant.Matrix, raw []byte) { l.kind.Split(m.Codes, m.Scales, m.Bias, raw) })
}

// Numbers is Rows for IQ4_NL, but that codes are the numbers of levels.
func (l *linear) Numbers(row0, rows int) (*quant.Matrix, error) {
	return l.rows(row0, rows, func(m *quant.Matrix, raw []byte) { block.SplitNumbers(m.Codes, m.Scales, raw) })
}

func (l *linear) rows(row0, rows int, split func(m *quant.Matrix, raw []byte)) (*quant.Matrix, error) {
	buffer, raw, err := l.raw(row0, rows)
	if err != nil {
		return nil, err
	}
	defer buffer.Return()
	s := l.Spec()
	m := quant.NewMatrix(rows, l.k, s.Bits, s.Group, s.Zero)
	split(m, raw)
	groups := m.Groups()
	if err := quant.CheckFinite(l.module, l.tensor.Name, m.Scales, row0, groups); err != nil {
		return nil, err
	}
	return m, quant.CheckFinite(l.module, l.tensor.Name, m.Bias, row0, groups)
}
