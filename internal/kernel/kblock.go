package kernel

import "encoding/binary"

// KBlock is a kind of panel whose scales come in two levels: a float for every 256 columns of a row, and integers for the
// groups of 16 or 32 columns in them. The kinds are named after the blocks of GGUF files that they hold without loss.
type KBlock uint8

// The kinds of panels with scales in two levels.
const (
	Q4K KBlock = iota + 1
	Q5K
	Q6K
	IQ4XS
)

// kblock is what a kind is like. A panel is one record for every 256 columns:
//
//	d       32 float16, one of every row
//	dmin    the same, of kinds with minimums
//	halves  two, of 128 columns each
//
// and a half is
//
//	scales  int8 [pairs of groups, 32 rows, 2]
//	mins    uint8, the same, of kinds with minimums
//	groups  of each 128 bytes with the high bits of codes, if there are any, and then the low four as panels of 4 bits have
//	        them: byte j of a row has the bits of column 4i+j from bit high·i on
type kblock struct {
	group int // columns
	high  int // bits of a code above the low four
	mins  bool
	mid   int32 // the code that is zero; of kinds with minimums 0
	table *[16]byte
}

var kblocks = [...]kblock{
	Q4K:   {group: 32, mins: true},
	Q5K:   {group: 32, high: 1, mins: true},
	Q6K:   {group: 16, high: 2, mid: 32},
	IQ4XS: {group: 32, mid: 128, table: &IQ4Levels},
}

// IQ4Levels are the codes of 8 bits that those of IQ4_NL and IQ4_XS files stand for: their levels, more 128.
var IQ4Levels = [16]byte{1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241}

// KColumns is the number of columns of a record, of two blocks of WidestBlock.
const KColumns = 2 * WidestBlock

// KParts is the number of sums of parts of a block of activations: of eight times 16 columns, then of four times 32, then
// room.
const KParts = 16

// head is the size of d and dmin, scales that of a half's scales and minimums.
func (k *kblock) head() int { return 2 * PanelRows * k.levels() }
func (k *kblock) scales() int {
	return WidestBlock / k.group * PanelRows * k.levels()
}

// levels is 2 for kinds with minimums, else 1.
func (k *kblock) levels() int {
	if k.mins {
		return 2
	}
	return 1
}

// groupBytes is the size of a group's codes.
func (k *kblock) groupBytes() int {
	n := k.group / PanelStep * StepBytes
	if k.high > 0 {
		n += StepBytes
	}
	return n
}

func (k *kblock) half() int { return k.scales() + WidestBlock/k.group*k.groupBytes() }

// KBytes is the size of a record.
func (k KBlock) KBytes() int { return kblocks[k].head() + 2*kblocks[k].half() }

// KRow is a row's part of a record besides its codes, in the words of the file: a weight is D·Scales[g]·(code − middle) − DMin·Mins[g], g being its
// group. Only kinds with minimums have DMin and Mins.
type KRow struct {
	D, DMin uint16    // float16
	Scales  [16]int8  // of the groups of 16 (Q6K) or 32 columns
	Mins    [16]uint8 // likewise
}

// Place puts consecutive rows, from row on, into a record: row i is from[i·apart], and its codes, as the file has them, begin at codes[i·columns].
func (k KBlock) Place(record []byte, row, rows int, from []KRow, apart int, codes []uint8, columns int) {
	x := &kblocks[k]
	for i := range rows {
		x.placeRow(record, row+i, &from[i*apart])
	}
	for h := range 2 {
		data := record[x.head()+h*x.half()+x.scales():][:WidestBlock/x.group*x.groupBytes()]
		if x.high == 0 {
			Lows(data[4*row:], codes[h*WidestBlock:], rows, WidestBlock, columns)
			continue
		}
		for g := range WidestBlock / x.group {
			group, from := data[g*x.groupBytes()+4*row:], codes[h*WidestBlock+g*x.group:]
			packHighs(group, from, rows, x.high, columns)
			Lows(group[StepBytes:], from, rows, x.group, columns)
		}
	}
}

// placeRow puts into a record what a row has besides codes.
func (k *kblock) placeRow(record []byte, row int, from *KRow) {
	binary.LittleEndian.PutUint16(record[2*row:], from.D)
	if k.mins {
		binary.LittleEndian.PutUint16(record[2*(PanelRows+row):], from.DMin)
	}
	per := WidestBlock / k.group
	for h := range 2 {
		half := record[k.head()+h*k.half():][:k.scales()]
		for g := range per {
			at := g/2*2*PanelRows + 2*row + g%2
			half[at] = byte(from.Scales[h*per+g])
			if k.mins {
				half[len(half)/2+at] = from.Mins[h*per+g]
			}
		}
	}
}

// Take is the opposite of Place for one row. Codes of kinds with a table are those of the table.
func (k KBlock) Take(to *KRow, codes *[KColumns]uint8, record []byte, row int) {
	x := &kblocks[k]
	to.D = binary.LittleEndian.Uint16(record[2*row:])
	if x.mins {
		to.DMin = binary.LittleEndian.Uint16(record[2*(PanelRows+row):])
	}
	per := WidestBlock / x.group
	for h := range 2 {
		half := record[x.head()+h*x.half():][:x.half()]
		data := half[x.scales():]
		for g := range per {
			at := g/2*2*PanelRows + 2*row + g%2
			to.Scales[h*per+g] = int8(half[at])
			if x.mins {
				to.Mins[h*per+g] = half[x.scales()/2+at]
			}
			x.takeCodes(codes[h*WidestBlock+g*x.group:][:x.group], data[g*x.groupBytes()+4*row:])
		}
	}
}

// takeCodes reads a row's codes of a group.
func (k *kblock) takeCodes(codes []uint8, from []byte) {
	var bits uint32
	if k.high > 0 {
		bits = binary.LittleEndian.Uint32(from)
		from = from[StepBytes:]
	}
	for i := 0; i < k.group; i += 4 {
		v := binary.LittleEndian.Uint32(from[i/PanelStep*StepBytes:]) >> (i % PanelStep) & 0x0f0f0f0f
		v |= bits >> (k.high * i / 4) & highMask(k.high) << 4
		binary.LittleEndian.PutUint32(codes[i:], v)
	}
	if k.table != nil {
		for i, c := range codes {
			codes[i] = k.table[c]
		}
	}
}

// PartSums writes the sums of the parts of a block of activations.
func PartSums(sums *[KParts]int16, x *[WidestBlock]int8) {
	const low = 0x00ff00ff00ff00ff
	for i := range 8 {
		// Bytes more 128 add up in four lanes of 16 bits, and a multiplication adds up the lanes.
		u := unsigned(x[16*i:])
		v := unsigned(x[16*i+8:])
		sum := (u&low + u>>8&low) + (v&low + v>>8&low)
		sums[i] = int16(sum*0x0001000100010001>>48) - 16*128
	}
	for i := range 4 {
		sums[8+i] = sums[2*i] + sums[2*i+1]
	}
}

// unsigned returns eight int8, more 128.
func unsigned(x []int8) uint64 {
	var v uint64
	for i, q := range (*[8]int8)(x) {
		v |= uint64(uint8(q)) << (8 * i)
	}
	return v ^ 0x8080808080808080
}

// kproducts are the products of a set for a kind.
type kproducts struct {
	one    func(p *Product)      // of one token
	tiles  []tile                // of several; nil: one token after the other
	unpack func(dst, src []byte) // makes the records with codes of 8 bits that tiles want; nil: they do not
}

// ksets are those of all kinds.
type ksets [len(kblocks)]kproducts

// KBlocks multiplies panels of a kind by int8 activations of n tokens. Of every block of 128 columns, for the groups g in it,
//
//	i = Σ scale[g]·Σ (q−mid)·x
//	m = Σ min[g]·Σ x
//
// are exact, and then
//
//	y += (i·d − m·dmin)·sx
//
// in that order, each operation rounded to float32. Blocks says how many there are, two for every record. scratch has room
// for twice a byte for every code.
func (p *Product) KBlocks(kind KBlock, n int, scratch []byte) {
	k, x := &active.blocks[kind], &kblocks[kind]
	switch {
	case k.tiles == nil || n <= k.tiles[0].tokens/2:
		p.each([]tile{{1, k.one}}, n, len(p.Codes))
		return
	case k.unpack == nil:
		p.each(k.tiles, n, len(p.Codes))
		return
	}
	scratch = scratch[:len(p.Blocks)/2*(x.head()+2*(x.scales()+WidestBlock*PanelRows))]
	k.unpack(scratch, p.Codes)
	p.instead(scratch, k.tiles, n)
}
