package runtime

import (
	"encoding/binary"

	"nibble/internal/kernel"
	"nibble/quant"
)

// packCodes puts the codes of row r, which are in file order, into its panel, with those of the rows behind it that are
// there and belong to the same panel. It returns how many rows that are. All rows of a panel together stay in the nearest
// cache; one by one each would touch the whole panel.
func (m *matrix) packCodes(r int, codes, padded []uint8) (rows int) {
	panel, lane := m.place(r)
	to := m.raw[panel*m.panelBytes()+4*lane:]
	rows = min(m.first+m.per-lane, len(codes)/m.k)
	k := m.cols.padded
	switch {
	case m.order != nil:
		for _, s := range m.cols.spans {
			for i := range s.n {
				padded[s.at+i] = codes[m.order[s.lo+i]]
			}
		}
		codes, rows = padded, 1
	case k != m.k:
		pad(m.cols, padded, codes[:m.k])
		codes, rows = padded, 1
	}
	for at, s := range m.blocks() {
		to := to[at.codes:]
		if m.storage == codes8 {
			for i := s.at; i < s.end(); i += 4 {
				step := to[:4*rows]
				for r := range rows {
					copy(step[4*r:4*r+4], codes[r*k+i:])
				}
				to = to[min(kernel.StepBytes, len(to)):]
			}
			continue
		}
		for i := s.at; i < s.end(); i += 8 {
			step := to[:4*rows]
			for r := range rows {
				v := binary.LittleEndian.Uint64(codes[r*k+i:])
				binary.LittleEndian.PutUint32(step[4*r:], uint32(v)|uint32(v>>32)<<4)
			}
			to = to[min(kernel.StepBytes, len(to)):]
		}
	}
	return rows
}

// takeCodes is the opposite of packCodes for a row of a block.
func (m *matrix) takeCodes(codes []uint8, from []byte) {
	if m.storage == codes8 {
		for i := 0; i < len(codes); i += 4 {
			copy(codes[i:i+4], from[i/4*kernel.StepBytes:])
		}
		return
	}
	for i := 0; i < len(codes); i += 8 {
		v := binary.LittleEndian.Uint32(from[i/8*kernel.StepBytes:])
		binary.LittleEndian.PutUint32(codes[i:], v&0x0f0f0f0f)
		binary.LittleEndian.PutUint32(codes[i+4:], v>>4&0x0f0f0f0f)
	}
	if m.storage == listed {
		for i, c := range codes {
			codes[i] = kernel.IQ4Levels[c]
		}
	}
}

// heads is what stands before the codes of groups, of several rows.
type heads struct {
	scales, biases []byte // [rows, groups] of the type in the heads
	zeros          []uint8
	groups         int
}

// packHeads puts what belongs to row i of h before the codes of row r.
func (m *matrix) packHeads(r int, h *heads, i int) {
	panel, lane := m.place(r)
	to, size := m.raw[panel*m.panelBytes():], m.head.Type.Size()
	for at, s := range m.blocks() {
		if !at.begins {
			continue
		}
		head, from := to[at.head:], i*h.groups+s.group
		copy(head[lane*size:(lane+1)*size], h.scales[from*size:])
		if m.zero == quant.Float {
			copy(head[int(m.head.Biases)+lane*size:][:size], h.biases[from*size:])
		}
		if m.zero == quant.Integer {
			head[int(m.head.Zeros)+lane] = h.zeros[from]
		}
	}
}

// packPairs puts a padded row of bfloat16 into its panel.
func (m *matrix) packPairs(r int, row []byte) {
	panel, lane := m.place(r)
	to := m.raw[panel*m.panelBytes()+4*lane:]
	for i := 0; i+8 <= len(row); i += 8 {
		v := binary.LittleEndian.Uint64(row[i:])
		at := i / 4 * kernel.StepBytes
		binary.LittleEndian.PutUint32(to[at:], uint32(v&0xffff|v>>32&0xffff<<16))
		binary.LittleEndian.PutUint32(to[at+kernel.StepBytes:], uint32(v>>16&0xffff|v>>48<<16))
	}
}
