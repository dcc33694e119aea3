package runtime

import (
	"encoding/binary"
	"iter"

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
	listed                 // panels of places in kernel.IQ4Levels, of four bits, of codes of eight
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
	bits  int
	zero  quant.Zero
	head  kernel.Head   // its scales are of the smallest type that holds them exactly
	kind  kernel.KBlock // of scales in two levels
	order []int32       // column of the checkpoint at every place, where groups are not contiguous there; nil otherwise
}

// panels returns the number of panels, or for floats of as many rows.
func (m *matrix) panels() int { return (m.n + m.per - 1) / m.per }

// rows returns the rows of a panel.
func (m *matrix) rows(panel int) (lo, hi int) { return panel * m.per, min((panel+1)*m.per, m.n) }

// place returns where a row is.
func (m *matrix) place(row int) (panel, lane int) { return row / m.per, m.first + row%m.per }

// panelBytes returns the size of a panel.
func (m *matrix) panelBytes() int {
	if m.storage == leveled {
		return m.k / kernel.KColumns * m.kind.KBytes()
	}
	return m.cols.padded/kernel.PanelStep*m.stepBytes() + m.cols.groups*int(m.head.Size)
}

// stepBytes returns the size of kernel.PanelStep columns of a panel.
func (m *matrix) stepBytes() int {
	switch m.storage {
	case codes4, listed:
		return kernel.StepBytes
	case codes8:
		return 2 * kernel.StepBytes
	}
	return 4 * kernel.StepBytes
}

// wideBytes returns the room for a panel in the widest form in which it is multiplied.
func (m *matrix) wideBytes() int {
	if m.coded() {
		return 4 * kernel.StepBytes / m.stepBytes() * m.panelBytes()
	}
	return m.cols.padded / kernel.PanelStep * 4 * kernel.StepBytes
}

// blocks returns of every block of columns where its codes are in a panel, and what stands before those of its group.
func (m *matrix) blocks() iter.Seq2[stretch, span] {
	return func(yield func(stretch, span) bool) {
		var at stretch
		for i, b := range m.cols.blocks {
			if at.begins = b.Begins != 0; at.begins {
				at.head = at.codes
				at.codes += int(m.head.Size)
			}
			if !yield(at, m.cols.spans[i]) {
				return
			}
			at.codes += int(b.Steps) * m.stepBytes()
		}
	}
}

// stretch is where a block is in a panel: its codes and the head of its group, which it may begin.
type stretch struct {
	head, codes int
	begins      bool
}

// coded reports whether panels are of codes with a scale a group.
func (m *matrix) coded() bool {
	return m.storage == codes4 || m.storage == codes8 || m.storage == listed
}

// mid is the code that is zero without a zero point.
func (m *matrix) mid() int { return 1 << (m.bits - 1) }

// bytes returns the memory of a matrix.
func (m *matrix) bytes() int64 {
	n := int64(len(m.raw))
	if m.storage != floats {
		n = n * int64(m.per) / kernel.PanelRows
	}
	return n + 4*int64(len(m.bias))
}

// point makes a product read panels.
func (m *matrix) point(k *kernel.Product, panel, count int) {
	size := m.panelBytes()
	k.Codes, k.Panels, k.Head = m.raw[panel*size:(panel+count)*size], int64(count), m.head
	if m.coded() {
		k.Mid = int64(m.mid())
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
	from := m.raw[panel*m.panelBytes():]
	for at, s := range m.blocks() {
		m.takeCodes(codes[:s.end()-s.at], from[at.codes+4*lane:])
		head := from[at.head:]
		scale, z := m.head.Type.At(head, lane), int32(m.mid())
		if m.zero == quant.Integer {
			z = int32(head[int(m.head.Zeros)+lane])
		}
		part := dst[s.lo : s.lo+s.n]
		for j, c := range codes[:s.n] {
			part[j] = scale * float32(int32(c)-z)
		}
		if m.zero == quant.Float {
			b := m.head.Type.At(head[m.head.Biases:], lane)
			for j := range part {
				part[j] += b
			}
		}
	}
}
