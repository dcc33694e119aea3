package runtime

import (
	"encoding/binary"

	"nibble/internal/half"
	"nibble/internal/kernel"
	"nibble/quant"
	"nibble/safetensors"
)

// storage is the form in which a matrix is kept.
type storage uint8

const (
	floats  storage = iota // rows of the file's type
	pairs                  // panels of bfloat16
	codes4                 // panels of codes of up to four bits
	codes8                 // panels of codes of up to eight
	leveled                // panels with scales in two levels
)

// matrix is a weight matrix [n, k] as it is kept in memory.
type matrix struct {
	n, k    int
	bias    []float32 // [n]; nil for none
	storage storage
	raw     []byte // floats: [n, k] of dtype; else the panels of package kernel
	dtype   safetensors.DType

	// Of panels:
	cols  *columns
	per   int // rows of this matrix in a panel: all, or half where gate and up share them
	first int // place of its first row there

	// Of codes:
	bits   int
	zero   quant.Zero
	scale  kernel.Float  // type of scales and biases, the smallest that holds them exactly
	scales []byte        // [panels, groups, 32] of scale
	zeros  []byte        // [panels, groups, 32], of an integer zero
	biases []byte        // [panels, groups, 32] of scale, of a float zero
	kind   kernel.KBlock // of scales in two levels
	order  []int32       // column of the checkpoint at every place, where groups are not contiguous there; nil otherwise
}

// panels returns the number of panels, or for floats of as many rows.
func (m *matrix) panels() int { return (m.n + m.per - 1) / m.per }

// rows returns the rows of a panel.
func (m *matrix) rows(panel int) (lo, hi int) { return panel * m.per, min((panel+1)*m.per, m.n) }

// place returns where a row is.
func (m *matrix) place(row int) (panel, lane int) { return row / m.per, m.first + row%m.per }

// panelBytes returns the size of a panel.
func (m *matrix) panelBytes() int {
	switch m.storage {
	case codes4:
		return m.cols.padded * kernel.PanelRows / 2
	case codes8:
		return m.cols.padded * kernel.PanelRows
	case leveled:
		return m.k / kernel.KColumns * m.kind.KBytes()
	}
	return m.cols.padded * kernel.PanelRows * 2
}

// mid is the code that is zero without a zero point.
func (m *matrix) mid() int { return 1 << (m.bits - 1) }

// bytes returns the memory of a matrix.
func (m *matrix) bytes() int64 {
	n := int64(len(m.raw) + len(m.scales) + len(m.zeros) + len(m.biases))
	if m.storage != floats {
		n = n * int64(m.per) / kernel.PanelRows
	}
	return n + 4*int64(len(m.bias))
}

// point makes a product read panels.
func (m *matrix) point(k *kernel.Product, panel, count int) {
	part := func(b []byte, size int) []byte {
		if b == nil {
			return nil
		}
		return b[panel*size : (panel+count)*size]
	}
	k.Codes, k.Panels, k.Groups = part(m.raw, m.panelBytes()), int64(count), int64(m.cols.groups)
	k.Scales, k.Zeros, k.Biases = nil, nil, nil
	if m.storage != pairs && m.storage != leveled {
		per := m.cols.groups * kernel.PanelRows
		k.Scales, k.Zeros, k.Biases = part(m.scales, per*m.scale.Size()), part(m.zeros, per), part(m.biases, per*m.scale.Size())
		k.Type, k.Mid = m.scale, int64(m.mid())
	}
}

// row writes row n to dst in float32, exactly as a file of its format dequantizes, in the matrix' own column order.
// scratch has room for the padded row.
func (m *matrix) row(dst []float32, scratch []uint8, n int) {
	dst = dst[:m.k]
	switch {
	case m.storage == floats && m.dtype == safetensors.BF16:
		half.DecodeBF16(dst, m.raw[2*n*m.k:])
	case m.storage == floats && m.dtype == safetensors.F16:
		half.DecodeF16(dst, m.raw[2*n*m.k:])
	case m.storage == floats:
		half.DecodeF32(dst, m.raw[4*n*m.k:])
	case m.storage == pairs:
		m.rowOfPairs(dst, n)
	case m.storage == leveled:
		m.rowOfLevels(dst, n)
	default:
		m.rowOfCodes(dst, scratch, n)
	}
}

// natural writes row n in the checkpoint's column order, as a lookup table needs it.
func (m *matrix) natural(dst, spare []float32, scratch []uint8, n int) {
	if m.order == nil {
		m.row(dst, scratch, n)
		return
	}
	m.row(spare, scratch, n)
	for i, c := range m.order {
		dst[c] = spare[i]
	}
}

func (m *matrix) rowOfPairs(dst []float32, n int) {
	panel, lane := m.place(n)
	from := m.raw[panel*m.panelBytes()+4*lane:]
	for _, s := range m.cols.spans {
		for i := range s.n {
			at := s.at + i
			pair := at/4*2 + at%2 // of four columns the first step has 0 and 2, the second 1 and 3
			dst[s.lo+i] = half.FromBF16(binary.LittleEndian.Uint16(from[pair*kernel.StepBytes+at%4/2*2:]))
		}
	}
}

func (m *matrix) rowOfCodes(dst []float32, codes []uint8, n int) {
	panel, lane := m.place(n)
	from := m.raw[panel*m.panelBytes()+4*lane:]
	codes = codes[:m.cols.padded]
	if m.storage == codes4 {
		for i := 0; i < len(codes); i += 8 {
			v := binary.LittleEndian.Uint32(from[i/8*kernel.StepBytes:])
			binary.LittleEndian.PutUint32(codes[i:], v&0x0f0f0f0f)
			binary.LittleEndian.PutUint32(codes[i+4:], v>>4&0x0f0f0f0f)
		}
	} else {
		for i := 0; i < len(codes); i += 4 {
			copy(codes[i:i+4], from[i/4*kernel.StepBytes:])
		}
	}
	for i, s := range m.cols.spans {
		g := m.cell(n, int(m.cols.blocks[i].Group))
		scale, z := m.scale.At(m.scales, g), int32(m.mid())
		if m.zero == quant.Integer {
			z = int32(m.zeros[g])
		}
		part, c := dst[s.lo:s.lo+s.n], codes[s.at:s.at+s.n]
		for j := range part {
			part[j] = scale * float32(int32(c[j])-z)
		}
		if m.zero == quant.Float {
			b := m.scale.At(m.biases, g)
			for j := range part {
				part[j] += b
			}
		}
	}
}

// cell returns the place of a row's group among scales, zero points and biases.
func (m *matrix) cell(row, group int) int {
	panel, lane := m.place(row)
	return (panel*m.cols.groups+group)*kernel.PanelRows + lane
}
