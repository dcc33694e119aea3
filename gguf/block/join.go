package block

// after returns the importance of the weights behind the first 256, nil if there is none.
func after(weights []float32) []float32 {
	if weights == nil {
		return nil
	}
	return weights[256:]
}

// joinHalves stores 4 bits of each code: those of the first half of the codes in the low halves of the bytes.
func joinHalves(dst []byte, codes []uint8) {
	n := len(dst)
	for i := range dst {
		dst[i] = codes[i]&15 | codes[i+n]<<4
	}
}

// joinPairs stores the low 2 bits of 256 codes: bits 2j of 32 bytes have codes 32j to 32j+31 of each half.
func joinPairs(dst []byte, codes *[256]uint8) {
	for i := range dst {
		q := codes[i/32*128+i%32:]
		dst[i] = q[0]&3 | q[32]&3<<2 | q[64]&3<<4 | q[96]<<6
	}
}

// joinBits stores one bit of 256 codes: bit j of byte i is that of code 32j + i.
func joinBits(dst []byte, codes *[256]uint8, bit int) {
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
