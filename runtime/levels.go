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
	Levels(row0, rows int) ([]gguf.Levels, error)
}

// kinds are the panels for types of blocks.
var kinds = map[gguf.Type]kernel.KBlock{gguf.Q4_K: kernel.Q4K, gguf.Q5_K: kernel.Q5K, gguf.Q6_K: kernel.Q6K, gguf.IQ4_XS: kernel.IQ4XS}

// placeOf is the opposite of kernel.IQ4Levels.
var placeOf = func() (place [256]uint8) {
	for i, c := range kernel.IQ4Levels {
		place[c] = uint8(i)
	}
	return place
}()

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

// fillLevels reads blocks into panels, those of the rows of a panel in turns: so a record stays in the cache.
func (s *source) fillLevels(from levels) error {
	base, per := s.row0/readAhead*readAhead, s.k/kernel.KColumns
	return strips(s.row0+s.n-base, s.k, func(row, rows int) error {
		list, err := from.Levels(base+row, rows)
		if err != nil {
			return err
		}
		for i := max(0, s.row0-base-row); i < rows; {
			panel, lane := s.place(base + row + i - s.row0)
			count := min(s.first+s.per-lane, rows-i)
			for at := range per {
				record := s.raw[panel*s.panelBytes()+at*s.kind.KBytes():][:s.kind.KBytes()]
				for r := range count {
					s.kind.Place(record, lane+r, (*kernel.KRow)(&list[(i+r)*per+at]))
				}
			}
			i += count
		}
		return nil
	})
}

// rowOfLevels is row for panels with scales in two levels.
func (m *matrix) rowOfLevels(dst []float32, n int) {
	panel, lane := m.place(n)
	var row kernel.KRow
	for at := 0; at < m.k; at += kernel.KColumns {
		m.kind.Take(&row, m.raw[panel*m.panelBytes()+at/kernel.KColumns*m.kind.KBytes():], lane)
		m.kind.Values((*[kernel.KColumns]float32)(dst[at:]), &row)
	}
}
