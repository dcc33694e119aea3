package block

import (
	"encoding/binary"

	"nibble/internal/kernel"
)

// leveled are the types whose scales come in two levels, with what takes one block apart.
var leveled = map[Type]func(x *kernel.KRow, codes *[kernel.KColumns]uint8, src []byte){
	Q4_K: levelsQ4_K, Q5_K: levelsQ5_K, Q6_K: levelsQ6_K, IQ4_XS: levelsIQ4_XS,
}

// Levels takes one block of a type with scales in two levels apart. Codes begin at 0; those of IQ4_XS are the numbers of levels.
func (t Type) Levels(x *kernel.KRow, codes *[kernel.KColumns]uint8, src []byte) {
	leveled[t](x, codes, src)
}

// levelsScales is what Q4_K and Q5_K have in common.
func levelsScales(x *kernel.KRow, src []byte) {
	x.D, x.DMin = binary.LittleEndian.Uint16(src), binary.LittleEndian.Uint16(src[2:])
	for j := range 8 {
		sc, mn := scaleMin(src[4:16], j)
		x.Scales[j], x.Mins[j] = int8(sc), mn
	}
}

func levelsQ4_K(x *kernel.KRow, codes *[kernel.KColumns]uint8, src []byte) {
	levelsScales(x, src)
	codesQ4_K(codes[:], src)
}

func levelsQ5_K(x *kernel.KRow, codes *[kernel.KColumns]uint8, src []byte) {
	levelsScales(x, src)
	codesQ5_K(codes[:], src)
}

func levelsQ6_K(x *kernel.KRow, codes *[kernel.KColumns]uint8, src []byte) {
	x.D = binary.LittleEndian.Uint16(src[208:])
	for j, s := range src[192:208] {
		x.Scales[j] = int8(s)
	}
	codesQ6_K(codes[:], src)
}

func levelsIQ4_XS(x *kernel.KRow, codes *[kernel.KColumns]uint8, src []byte) {
	x.D = binary.LittleEndian.Uint16(src)
	for j := range 8 {
		x.Scales[j] = scaleIQ4_XS(src, j)
		splitHalves(codes[32*j:][:32], src[8+16*j:][:16])
	}
}
