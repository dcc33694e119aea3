package runtime

import (
	"encoding/binary"

	"nibble/internal/kernel"
	"nibble/quant"
)

// packCodes puts the codes of row r, which are in file order, into its panel, with those of the rows behind it that are
// there and belong to the same panel. It returns how many rows that are. All rows of a panel together stay in the nearest
// cache; one by one each would touch the whole panel. padded has room for the rows of a panel.
func (m *matrix) packCodes(r int, codes, padded []uint8) (rows int) {
	panel, lane := m.place(r)
	to := m.raw[panel*m.panelBytes()+4*lane:]
	rows = min(m.first+m.per-lane, len(codes)/m.k)
	k := m.cols.padded
	switch {
	case m.order != nil:
		for i := range rows {
			row := padded[i*k:]
			for _, s := range m.cols.spans {
				for j := range s.n {
					row[s.at+j] = codes[i*m.k+int(m.order[s.lo+j])]
				}
			}
		}
		codes = padded
	case k != m.k:
		for i := range rows {
			pad(m.cols, padded[i*k:], codes[i*m.k:(i+1)*m.k])
		}
		codes = padded
	}
	for at, s := range m.blocks() {
		to, width := to[at.codes:], s.end()-s.at
		if m.storage == codes8 {
			kernel.TransposeBetween(to, codes[s.at:], rows, width/4, kernel.StepBytes, k)
		} else {
			kernel.Lows(to, codes[s.at:], rows, width, k)
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

// packHeads puts what belongs to the rows i to i+rows−1 of h before the codes of the rows from r on, all of one panel.
func (m *matrix) packHeads(r int, h *heads, i, rows int) {
	panel, lane := m.place(r)
	to, size := m.raw[panel*m.panelBytes():], m.head.Type.Size()
	for at, s := range m.blocks() {
		if !at.begins {
			continue
		}
		head, from := to[at.head:], i*h.groups+s.group
		spread(head[lane*size:], h.scales[from*size:], rows, size, h.groups)
		switch m.zero {
		case quant.Float:
			spread(head[int(m.head.Biases)+lane*size:], h.biases[from*size:], rows, size, h.groups)
		case quant.Integer:
			spread(head[int(m.head.Zeros)+lane:], h.zeros[from:], rows, 1, h.groups)
		}
	}
}

// spread copies elements of 1, 2 or 4 bytes, of which every step-th is wanted.
func spread(to, from []byte, n, size, step int) {
	for i := range n {
		switch x := from[i*step*size:]; size {
		case 1:
			to[i] = x[0]
		case 2:
			binary.LittleEndian.PutUint16(to[2*i:], binary.LittleEndian.Uint16(x))
		default:
			binary.LittleEndian.PutUint32(to[4*i:], binary.LittleEndian.Uint32(x))
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
