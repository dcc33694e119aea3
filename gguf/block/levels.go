package block

import "encoding/binary"

// Levels is a block of 256 weights whose scales come in two levels, in the words of the file: a weight is
// D·Scales[g]·(code − middle) − DMin·Mins[g], g being its group. Only kinds with minimums have DMin and Mins.
type Levels struct {
	D, DMin uint16     // float16
	Scales  [16]int8   // of the groups of 16 (Q6_K) or 32 columns
	Mins    [16]uint8  // likewise
	Codes   [256]uint8 // from 0 on; of IQ4_XS the numbers of levels
}

// leveled are the types that Levels can hold, with what takes one block apart.
var leveled = map[Type]func(x *Levels, src []byte){Q4_K: levelsQ4_K, Q5_K: levelsQ5_K, Q6_K: levelsQ6_K, IQ4_XS: levelsIQ4_XS}

// Levels takes one block of a type that has levels apart.
func (t Type) Levels(x *Levels, src []byte) { leveled[t](x, src) }

// levelsScales is what Q4_K and Q5_K have in common.
func (x *Levels) levelsScales(src []byte) {
	x.D, x.DMin = binary.LittleEndian.Uint16(src), binary.LittleEndian.Uint16(src[2:])
	for j := range 8 {
		sc, mn := scaleMin(src[4:16], j)
		x.Scales[j], x.Mins[j] = int8(sc), mn
	}
}

func levelsQ4_K(x *Levels, src []byte) {
	x.levelsScales(src)
	codesQ4_K(x.Codes[:], src)
}

func levelsQ5_K(x *Levels, src []byte) {
	x.levelsScales(src)
	codesQ5_K(x.Codes[:], src)
}

func levelsQ6_K(x *Levels, src []byte) {
	x.D = binary.LittleEndian.Uint16(src[208:])
	for j, s := range src[192:208] {
		x.Scales[j] = int8(s)
	}
	codesQ6_K(x.Codes[:], src)
}

func levelsIQ4_XS(x *Levels, src []byte) {
	x.D = binary.LittleEndian.Uint16(src)
	for j := range 8 {
		x.Scales[j] = scaleIQ4_XS(src, j)
		splitHalves(x.Codes[32*j:][:32], src[8+16*j:][:16])
	}
}
