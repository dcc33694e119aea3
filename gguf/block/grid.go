package block

import "encoding/binary"

// Grid says how a block is codes with scales: w = s·(q − 2^(Bits−1)), or with b added if there are biases.
type Grid struct {
	Bits   int // of a code
	Size   int // weights that share a scale
	Biases bool
	Levels []uint8 // the codes that there are, ascending; nil: all
}

// grids are the types whose weights lie evenly, or are integers (IQ4_NL, IQ4_XS: the levels), with what takes one block apart.
var grids = map[Type]struct {
	Grid
	split func(codes []uint8, scales, biases []float32, src []byte)
}{
	Q4_0: {Grid{4, 32, false, nil}, splitQ4_0},
	Q4_1: {Grid{4, 32, true, nil}, splitQ4_1},
	Q5_0: {Grid{5, 32, false, nil}, splitQ5_0},
	Q5_1: {Grid{5, 32, true, nil}, splitQ5_1},
	Q8_0: {Grid{8, 32, false, nil}, splitQ8_0},
	Q2_K: {Grid{2, 16, true, nil}, splitQ2_K},
	Q3_K: {Grid{3, 16, false, nil}, splitQ3_K},
	Q4_K: {Grid{4, 32, true, nil}, splitQ4_K},
	Q5_K: {Grid{5, 32, true, nil}, splitQ5_K},
	Q6_K: {Grid{6, 16, false, nil}, splitQ6_K},

	IQ4_NL: {Grid{8, 32, false, levelCodes}, splitIQ4_NL},
	IQ4_XS: {Grid{8, 32, false, levelCodes}, splitIQ4_XS},
}

// levelCodes are the levels as codes of 8 bits.
var levelCodes = func() (codes []uint8) {
	for _, x := range levels {
		codes = append(codes, uint8(int(x)+128))
	}
	return codes
}()

// Grid returns the grid of the type; there is none for floats and other levels.
func (t Type) Grid() (Grid, bool) {
	g, ok := grids[t]
	return g.Grid, ok
}

// Split takes blocks of a type that has codes apart: a code for every weight, a scale for every Size weights, and as many
// biases if the grid has them. The lengths are those that src asks for. Without biases the grid has the very weights that
// Decode gives; with them a bias is the minimum of Decode's formula brought to the middle code, rounded to float32.
func (t Type) Split(codes []uint8, scales, biases []float32, src []byte) {
	g, c := grids[t], t.of()
	n := c.size / g.Size
	for ; len(src) > 0; src = src[c.bytes:] {
		g.split(codes[:c.size], scales[:n], biases, src[:c.bytes])
		codes, scales = codes[c.size:], scales[n:]
		if g.Biases {
			biases = biases[n:]
		}
	}
}

// SplitNumbers is Split for blocks of IQ4_NL, but that codes are the numbers of levels.
func SplitNumbers(codes []uint8, scales []float32, src []byte) {
	for i := range scales {
		block := src[18*i:][:18]
		scales[i] = getF16(block)
		splitHalves(codes[32*i:][:32], block[2:])
	}
}

// Codes are taken apart eight at a time: what is kept of each byte.
const (
	lowFour = 0x0f0f0f0f_0f0f0f0f
	lowTwo  = 0x03030303_03030303
	lowOne  = 0x01010101_01010101
)

// splitHalves sets the first half of the codes to the low halves of the bytes, a multiple of 8, the second to the high ones.
func splitHalves(codes []uint8, src []byte) {
	high := codes[len(src):]
	for i := 0; i < len(src); i += 8 {
		x := binary.LittleEndian.Uint64(src[i:])
		binary.LittleEndian.PutUint64(codes[i:], x&lowFour)
		binary.LittleEndian.PutUint64(high[i:], x>>4&lowFour)
	}
}

// splitHigh adds bits of a mask, from bit shift of each of 32 bytes on, to codes from bit 4 on.
func splitHigh(codes []uint8, src []byte, shift int, mask uint64) {
	for i := 0; i < 32; i += 8 {
		x := binary.LittleEndian.Uint64(src[i:]) >> shift & mask
		binary.LittleEndian.PutUint64(codes[i:], binary.LittleEndian.Uint64(codes[i:])|x<<4)
	}
}

// addHigh sets bit 4 of 32 codes to the bits of a word.
func addHigh(codes []uint8, word uint32) {
	for i := range codes {
		codes[i] |= uint8(word >> i & 1 << 4)
	}
}

// bias returns the value of the middle code where code 0 is floor.
func bias(floor, scale float32, middle int) float32 { return floor + float32(scale*float32(middle)) }

func splitQ4_0(codes []uint8, scales, _ []float32, src []byte) {
	scales[0] = getF16(src)
	splitHalves(codes, src[2:])
}

func splitQ4_1(codes []uint8, scales, biases []float32, src []byte) {
	scales[0] = getF16(src)
	biases[0] = bias(getF16(src[2:]), scales[0], 8)
	splitHalves(codes, src[4:])
}

func splitQ5_0(codes []uint8, scales, _ []float32, src []byte) {
	scales[0] = getF16(src)
	splitHalves(codes, src[6:])
	addHigh(codes, binary.LittleEndian.Uint32(src[2:]))
}

func splitQ5_1(codes []uint8, scales, biases []float32, src []byte) {
	scales[0] = getF16(src)
	biases[0] = bias(getF16(src[2:]), scales[0], 16)
	splitHalves(codes, src[8:])
	addHigh(codes, binary.LittleEndian.Uint32(src[4:]))
}

func splitQ8_0(codes []uint8, scales, _ []float32, src []byte) {
	scales[0] = getF16(src)
	for i := 0; i < 32; i += 8 { // from −128 on to from 0 on
		binary.LittleEndian.PutUint64(codes[i:], binary.LittleEndian.Uint64(src[2+i:])^0x80808080_80808080)
	}
}

func splitQ2_K(codes []uint8, scales, biases []float32, src []byte) {
	d, dmin := getF16(src[80:]), getF16(src[82:])
	for j, s := range src[:16] {
		scales[j] = float32(d * float32(s&15))
		biases[j] = bias(-float32(dmin*float32(s>>4)), scales[j], 2)
	}
	for i := range codes {
		codes[i] = src[16+i/128*32+i%32] >> (i % 128 / 32 * 2) & 3
	}
}

func splitQ3_K(codes []uint8, scales, _ []float32, src []byte) {
	d, packed := getF16(src[108:]), src[96:108]
	for j := range scales {
		s := packed[j%8]>>(j/8*4)&15 | packed[8+j%4]>>(j/4*2)&3<<4
		scales[j] = d * float32(int(s)-32)
	}
	for i := range codes {
		codes[i] = src[32+i/128*32+i%32]>>(i%128/32*2)&3 | src[i%32]>>(i/32)&1<<2
	}
}

// splitScales is what Q4_K and Q5_K have in common.
func splitScales(scales, biases []float32, src []byte, middle int) {
	d, dmin := getF16(src), getF16(src[2:])
	for j := range scales {
		sc, mn := scaleMin(src[4:16], j)
		scales[j] = d * float32(sc)
		biases[j] = bias(-float32(dmin*float32(mn)), scales[j], middle)
	}
}

func splitQ4_K(codes []uint8, scales, biases []float32, src []byte) {
	splitScales(scales, biases, src, 8)
	codesQ4_K(codes, src)
}

func codesQ4_K(codes []uint8, src []byte) {
	for j := range 4 {
		splitHalves(codes[64*j:][:64], src[16+32*j:][:32])
	}
}

func splitQ5_K(codes []uint8, scales, biases []float32, src []byte) {
	splitScales(scales, biases, src, 16)
	codesQ5_K(codes, src)
}

func codesQ5_K(codes []uint8, src []byte) {
	for j := range 4 {
		splitHalves(codes[64*j:][:64], src[48+32*j:][:32])
	}
	for j := range 8 {
		splitHigh(codes[32*j:], src[16:48], j, lowOne)
	}
}

func splitQ6_K(codes []uint8, scales, _ []float32, src []byte) {
	d := getF16(src[208:])
	for j, s := range src[192:208] {
		scales[j] = d * float32(int8(s))
	}
	codesQ6_K(codes, src)
}

func codesQ6_K(codes []uint8, src []byte) {
	splitHalves(codes[:128], src[:64])
	splitHalves(codes[128:], src[64:128])
	for j := range 8 {
		splitHigh(codes[32*j:], src[128+j/4*32:][:32], j%4*2, lowTwo)
	}
}

// splitLevels turns the numbers of 32 levels into codes.
func splitLevels(codes []uint8, src []byte) {
	splitHalves(codes, src)
	for i, q := range codes {
		codes[i] = levelCodes[q]
	}
}

func splitIQ4_NL(codes []uint8, scales, _ []float32, src []byte) {
	scales[0] = getF16(src)
	splitLevels(codes, src[2:])
}

func splitIQ4_XS(codes []uint8, scales, _ []float32, src []byte) {
	d := getF16(src)
	for j := range scales {
		scales[j] = d * float32(scaleIQ4_XS(src, j))
		splitLevels(codes[32*j:][:32], src[8+16*j:][:16])
	}
}
