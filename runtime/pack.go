package runtime

import (
	"encoding/binary"

	"nibble/internal/kernel"
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
	if m.storage == codes8 {
		for i := 0; i < k; i += 4 {
			step := to[i/4*kernel.StepBytes:][:4*rows]
			for r := range rows {
				copy(step[4*r:4*r+4], codes[r*k+i:])
			}
		}
		return rows
	}
	for i := 0; i < k; i += 8 {
		step := to[i/8*kernel.StepBytes:][:4*rows]
		for r := range rows {
			v := binary.LittleEndian.Uint64(codes[r*k+i:])
			binary.LittleEndian.PutUint32(step[4*r:], uint32(v)|uint32(v>>32)<<4)
		}
	}
	return rows
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
