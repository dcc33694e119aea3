package kernel

import "encoding/binary"

// packs are the loops that arrange codes, of a set. Lengths are multiples of the unit named with each and may be 0.
type packs struct {
	joinNibbles  func(codes []uint8, dst []byte)                 // 64 codes
	splitNibbles func(codes []uint8, src []byte)                 // 64 codes
	weave        func(words []byte, codes []uint8, k int)        // k: 32
	unweave      func(words []byte, codes []uint8, k int)        // k: 32
	band         func(dst, src []byte, cols int, to, from int64) // cols: 8

	lows  func(dst []byte, codes []uint8, rows, cols int, from int64) // rows: 8; cols: 16
	highs [3]func(dst []byte, codes []uint8, rows int, from int64)    // rows: 8
}

var packsGeneric = packs{joinNibbles, splitNibbles, weave, unweave, band, lows, [3]func([]byte, []uint8, int, int64){1: high1, 2: high2}}

// JoinNibbles sets dst[i] = codes[2i] | codes[2i+1]<<4. The codes are an even number of values below 16.
func JoinNibbles(dst []byte, codes []uint8) {
	dst = dst[:len(codes)/2]
	n := len(codes) &^ 63
	active.joinNibbles(codes[:n], dst[:n/2])
	joinNibbles(codes[n:], dst[n/2:])
}

func joinNibbles(codes []uint8, dst []byte) {
	pairs := codes[:2*len(dst)]
	for i := range dst {
		dst[i] = pairs[2*i] | pairs[2*i+1]<<4
	}
}

// SplitNibbles is the inverse of JoinNibbles.
func SplitNibbles(codes []uint8, src []byte) {
	src = src[:len(codes)/2]
	n := len(codes) &^ 63
	active.splitNibbles(codes[:n], src[:n/2])
	splitNibbles(codes[n:], src[n/2:])
}

func splitNibbles(codes []uint8, src []byte) {
	pairs := codes[:2*len(src)]
	for i, b := range src {
		pairs[2*i], pairs[2*i+1] = b&15, b>>4
	}
}

// Weave packs eight rows of k codes below 16, one behind the other, into k words, little-endian: nibbles 0 to 7 of word i are
// codes i of the rows 0, 2, 4, 6, 1, 3, 5, 7.
func Weave(words []byte, codes []uint8, k int) {
	words, codes = words[:4*k], codes[:8*k]
	n := k &^ 31
	active.weave(words, codes, k)
	weaveFrom(words, codes, k, n)
}

// weave is Weave for the columns of whole units.
func weave(words []byte, codes []uint8, k int) { weaveFrom(words[:4*(k&^31)], codes, k, 0) }

// woven[j] is the lowest bit of row j in a word.
var woven = [8]uint{0, 16, 4, 20, 8, 24, 12, 28}

// weaveFrom weaves from column i to the end of words.
func weaveFrom(words []byte, codes []uint8, k, i int) {
	for ; i < len(words)/4; i++ {
		var word uint32
		for j, shift := range woven {
			word |= uint32(codes[j*k+i]) << shift
		}
		binary.LittleEndian.PutUint32(words[4*i:], word)
	}
}

// Unweave is the inverse of Weave.
func Unweave(codes []uint8, words []byte, k int) {
	words, codes = words[:4*k], codes[:8*k]
	n := k &^ 31
	active.unweave(words, codes, k)
	unweaveFrom(words, codes, k, n)
}

func unweave(words []byte, codes []uint8, k int) { unweaveFrom(words[:4*(k&^31)], codes, k, 0) }

func unweaveFrom(words []byte, codes []uint8, k, i int) {
	for ; i < len(words)/4; i++ {
		word := binary.LittleEndian.Uint32(words[4*i:])
		for j, shift := range woven {
			codes[j*k+i] = uint8(word>>shift) & 15
		}
	}
}

// Transpose32 writes the transpose of src, a matrix of rows by cols 32-bit words, to dst.
func Transpose32(dst, src []byte, rows, cols int) {
	TransposeBetween(dst, src, rows, cols, 4*rows, 4*cols)
}

// TransposeBetween transposes rows by cols 32-bit words inside other matrices: word c of row r, at byte 4c + from·r of src, goes to byte
// 4r + to·c of dst.
func TransposeBetween(dst, src []byte, rows, cols, to, from int) {
	if rows == 0 || cols == 0 {
		return
	}
	dst, src = dst[:(cols-1)*to+4*rows], src[:(rows-1)*from+4*cols]
	whole := cols &^ 7
	r := 0
	for ; r+16 <= rows; r += 16 {
		active.band(dst[4*r:], src[r*from:], whole, int64(to), int64(from))
		transpose32(dst, src, r, r+16, whole, cols, to, from)
	}
	transpose32(dst, src, r, rows, 0, cols, to, from)
}

// transpose32 transposes the rows r to last, from column first on.
func transpose32(dst, src []byte, r, last, first, cols, to, from int) {
	for ; r < last; r++ {
		for c := first; c < cols; c++ {
			copy(dst[to*c+4*r:][:4], src[from*r+4*c:])
		}
	}
}

// band transposes 16 rows: word c of row r, at byte 4c + from·r of src, goes to byte 4r + to·c of dst.
func band(dst, src []byte, cols int, to, from int64) {
	for r := range int64(16) {
		for c := range int64(cols) {
			copy(dst[4*r+to*c:][:4], src[4*c+from*r:])
		}
	}
}

// Lows puts the low four bits of codes into the steps of a panel of codes of four bits: byte j of the four bytes of row r in step i, at byte
// StepBytes·i + 4r of dst, has column 8i+j low and column 8i+4+j high. Columns are a multiple of PanelStep; rows of codes are from bytes apart.
func Lows(dst []byte, codes []uint8, rows, cols, from int) {
	if rows == 0 || cols == 0 {
		return
	}
	dst, codes = dst[:(cols/PanelStep-1)*StepBytes+4*rows], codes[:(rows-1)*from+cols]
	r, c := rows&^7, cols&^15
	active.lows(dst, codes, r, c, int64(from))
	if c < cols {
		lows(dst[c/PanelStep*StepBytes:], codes[c:], r, cols-c, int64(from))
	}
	if r < rows {
		lows(dst[4*r:], codes[r*from:], rows-r, cols, int64(from))
	}
}

// lows is Lows for any number of rows.
func lows(dst []byte, codes []uint8, rows, cols int, from int64) {
	for r := range rows {
		for c := 0; c < cols; c += PanelStep {
			v := binary.LittleEndian.Uint64(codes[r*int(from)+c:]) & 0x0f0f0f0f_0f0f0f0f
			binary.LittleEndian.PutUint32(dst[c/PanelStep*StepBytes+4*r:], uint32(v)|uint32(v>>32)<<4)
		}
	}
}

// packHighs puts the high bits of codes above the low four, one or two, where panels have them before the steps of 32/high columns: byte j of the
// four bytes of row r, at byte 4r of dst, has those of column 4i+j from bit high·i on. Rows of codes are from bytes apart.
func packHighs(dst []byte, codes []uint8, rows, high, from int) {
	dst, codes = dst[:4*rows], codes[:(rows-1)*from+32/high]
	r := rows &^ 7
	active.highs[high](dst, codes, r, int64(from))
	if r < rows {
		highs(dst[4*r:], codes[r*from:], rows-r, high, from)
	}
}

func high1(dst []byte, codes []uint8, rows int, from int64) { highs(dst, codes, rows, 1, int(from)) }
func high2(dst []byte, codes []uint8, rows int, from int64) { highs(dst, codes, rows, 2, int(from)) }

// highs is packHighs.
func highs(dst []byte, codes []uint8, rows, high, from int) {
	for r := range rows {
		var bits uint32
		for i := 0; i < 32/high; i += 4 {
			bits |= binary.LittleEndian.Uint32(codes[r*from+i:]) >> 4 & highMask(high) << (high * i / 4)
		}
		binary.LittleEndian.PutUint32(dst[4*r:], bits)
	}
}

// highMask has the bits above the low four of four codes, moved down.
func highMask(high int) uint32 { return 0x01010101 * (1<<high - 1) }
