package runtime

import (
	gguf "nibble/gguf/block"
	"nibble/internal/kernel"
	"nibble/quant"
)

// levels is a quantized matrix in blocks of a GGUF file.
type levels interface {
	quant.Linear
	Kind() gguf.Type
	Levels(blocks []kernel.KRow, codes []uint8, row0 int) error
}

// kinds are the panels for types of blocks.
var kinds = map[gguf.Type]kernel.KBlock{gguf.Q4_K: kernel.Q4K, gguf.Q5_K: kernel.Q5K, gguf.Q6_K: kernel.Q6K, gguf.IQ4_XS: kernel.IQ4XS}

// numbered is a quantized matrix whose codes are those of a list of levels.
type numbered interface {
	Numbers(row0, rows int) (*quant.Matrix, error) // Rows with places in the list in place of codes
}

// levels returns the blocks of a matrix that is to be multiplied by int8 and kept with scales in two levels; nil for others.
func (l *reader) levels(s *source) levels {
	x, ok := s.linear.(levels)
	if !ok || l.m.Mode < A8 || kinds[x.Kind()] == 0 {
		return nil
	}
	return x
}

// layLevels reads a matrix, or two that share panels, with scales in two levels.
func (l *reader) layLevels(list []*source) (err error) {
	s := list[0]
	raw, err := l.take(s.panels() * s.panelBytes())
	if err != nil {
		return err
	}
	for _, x := range list {
		x.raw = raw
		if err := x.fillLevels(l.levels(x)); err != nil {
			return err
		}
	}
	return nil
}

// nearCodes is about how many codes are read at a time: what stays in a core's cache until it is in panels.
const nearCodes = 1 << 18

// fillLevels reads blocks into panels, those of the rows of a panel together: so a record is written once.
func (s *source) fillLevels(from levels) error {
	base, per := s.row0/readAhead*readAhead, s.k/kernel.KColumns
	most := max(readAhead, nearCodes/s.k/readAhead*readAhead) // rows
	blocks, codes := make([]kernel.KRow, most*per), make([]uint8, most*s.k)
	for row := base; row < s.row0+s.n; row += most {
		rows := min(most, s.row0+s.n-row)
		if err := from.Levels(blocks[:rows*per], codes[:rows*s.k], row); err != nil {
			return err
		}
		for i := max(0, s.row0-row); i < rows; {
			panel, lane := s.place(row + i - s.row0)
			count := min(s.first+s.per-lane, rows-i)
			for at := range per {
				record := s.raw[panel*s.panelBytes()+at*s.kind.KBytes():][:s.kind.KBytes()]
				s.kind.Place(record, lane, count, blocks[i*per+at:], per, codes[i*s.k+at*kernel.KColumns:], s.k)
			}
			i += count
		}
	}
	return nil
}

// rowOfLevels is row for panels with scales in two levels.
func (m *matrix) rowOfLevels(dst []float32, n int) {
	panel, lane := m.place(n)
	var row kernel.KRow
	var codes [kernel.KColumns]uint8
	for at := 0; at < m.k; at += kernel.KColumns {
		m.kind.Take(&row, &codes, m.raw[panel*m.panelBytes()+at/kernel.KColumns*m.kind.KBytes():], lane)
		m.kind.Values((*[kernel.KColumns]float32)(dst[at:]), &row, &codes)
	}
}
