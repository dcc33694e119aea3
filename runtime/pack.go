package runtime

import (
	"encoding/binary"

	"nibble/internal/kernel"
	"nibble/quant"
)

// packCodes puts the codes of row r, which are in file order, into its panel, with those of the rows behind it that are
// there and belong to the same panel. It returns how many rows that are. All rows of a panel together stay in the nearest
// cache; one by one each would touch the whole panel. There, in steps, words of a block stand side by side before two become one.
func (m *matrix) packCodes(r int, codes, padded []uint8, steps []byte) (rows int) {
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
		to, words := to[at.codes:], (s.end()-s.at)/4 // of a row
		if m.storage == codes8 {
			kernel.TransposeBetween(to, codes[s.at:], rows, words, kernel.StepBytes, k)
			continue
		}
		kernel.TransposeBetween(steps, codes[s.at:], rows, words, 4*rows, k)
		for i := 0; i < words; i += 2 {
			low, high := steps[4*rows*i:][:4*rows], steps[4*rows*(i+1):][:4*rows]
			step := to[i/2*kernel.StepBytes:][:4*rows]
			for ; len(step) >= 8; low, high, step = low[8:], high[8:], step[8:] {
				binary.LittleEndian.PutUint64(step, binary.LittleEndian.Uint64(low)|binary.LittleEndian.Uint64(high)<<4)
			}
			if len(step) > 0 {
				binary.LittleEndian.PutUint32(step, binary.LittleEndian.Uint32(low)|binary.LittleEndian.Uint32(high)<<4)
			}
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
