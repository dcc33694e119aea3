package block

import "encoding/binary"

// joins are the types whose codes can be changed, with what stores those of one block.
var joins = map[Type]func(dst []byte, codes []uint8){
	Q4_0: func(dst []byte, codes []uint8) { joinHalves(dst[2:], codes) },
	Q4_1: func(dst []byte, codes []uint8) { joinHalves(dst[4:], codes) },
	Q5_0: func(dst []byte, codes []uint8) { joinFive(dst[2:], codes) },
	Q5_1: func(dst []byte, codes []uint8) { joinFive(dst[4:], codes) },
	Q8_0: joinQ8_0,
	Q2_K: func(dst []byte, codes []uint8) { joinPairs(dst[16:80], codes) },
	Q3_K: joinQ3_K,
	Q4_K: func(dst []byte, codes []uint8) { joinRuns(dst[16:], codes) },
	Q5_K: joinQ5_K,
	Q6_K: joinQ6_K,

	IQ4_NL: func(dst []byte, codes []uint8) { joinLevels(dst[2:], codes) },
	IQ4_XS: joinIQ4_XS,
}

// Join is the inverse of Split but for the scales: it sets the codes in blocks, of a type that has some, and leaves the rest of
// the blocks as it is. The lengths are those that dst asks for.
func (t Type) Join(dst []byte, codes []uint8) {
	join, c := joins[t], t.of()
	for ; len(dst) > 0; dst, codes = dst[c.bytes:], codes[c.size:] {
		join(dst[:c.bytes], codes[:c.size])
	}
}

// joinHalves stores 4 bits of each code: those of the first half of the codes in the low halves of the bytes. There are a multiple of eight bytes.
func joinHalves(dst []byte, codes []uint8) {
	const low = 0x0f0f0f0f0f0f0f0f // of eight codes
	for n := len(dst); len(dst) > 0; dst, codes = dst[8:], codes[8:] {
		a, b := binary.LittleEndian.Uint64(codes), binary.LittleEndian.Uint64(codes[n:])
		binary.LittleEndian.PutUint64(dst, a&low|b&low<<4)
	}
}

// joinFive stores 32 codes of 5 bits.
func joinFive(dst []byte, codes []uint8) {
	binary.LittleEndian.PutUint32(dst, highBits(codes))
	joinHalves(dst[4:20], codes)
}

// joinRuns stores 4 bits of 256 codes, 64 to each 32 bytes.
func joinRuns(dst []byte, codes []uint8) {
	for j := 0; j < 256; j += 64 {
		joinHalves(dst[j/2:][:32], codes[j:])
	}
}

func joinQ8_0(dst []byte, codes []uint8) {
	for i, q := range codes {
		dst[2+i] = q ^ 0x80
	}
}

func joinQ3_K(dst []byte, codes []uint8) {
	joinBits(dst[:32], codes, 2)
	joinPairs(dst[32:96], codes)
}

func joinQ5_K(dst []byte, codes []uint8) {
	joinBits(dst[16:48], codes, 4)
	joinRuns(dst[48:], codes)
}

func joinQ6_K(dst []byte, codes []uint8) {
	var high [256]uint8
	for i, q := range codes {
		high[i] = q >> 4
	}
	joinHalves(dst[:64], codes[:128])
	joinHalves(dst[64:128], codes[128:])
	joinPairs(dst[128:192], high[:])
}

// joinLevels stores 32 codes of levels.
func joinLevels(dst []byte, codes []uint8) {
	var q [32]uint8
	for i, x := range codes {
		q[i] = levelOf(float32(int(x) - 128))
	}
	joinHalves(dst[:16], q[:])
}

func joinIQ4_XS(dst []byte, codes []uint8) {
	for j := range 8 {
		joinLevels(dst[8+16*j:], codes[32*j:][:32])
	}
}

// joinPairs stores the low 2 bits of 256 codes: bits 2j of 32 bytes have codes 32j to 32j+31 of each half.
func joinPairs(dst []byte, codes []uint8) {
	for i := range dst {
		q := codes[i/32*128+i%32:]
		dst[i] = q[0]&3 | q[32]&3<<2 | q[64]&3<<4 | q[96]<<6
	}
}

// joinBits stores one bit of 256 codes: bit j of byte i is that of code 32j + i.
func joinBits(dst []byte, codes []uint8, bit int) {
	clear(dst)
	for i, q := range codes {
		dst[i%32] |= q >> bit & 1 << (i / 32)
	}
}

// highBits returns bit 4 of each of 32 codes as a word.
func highBits(codes []uint8) (word uint32) {
	for i, q := range codes {
		word |= uint32(q>>4&1) << i
	}
	return word
}
