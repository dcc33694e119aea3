package kernel

import "unsafe"

// A panel is 32 rows of a matrix, interleaved so that two registers hold the same few columns of all of them. Columns come
// in blocks of at most WidestBlock, each of one group of weights; a block is padded to a multiple of PanelStep columns,
// whose activations are zero. A panel is kept in one of three forms, in steps of 128 bytes, four for every row:
//
//	codes of 4 bits   8 columns a step; byte j of a row has column j in its low half and column 4+j in its high half
//	codes of 8 bits   4 columns a step; byte j of a row has column j
//	pairs             2 columns a step, bfloat16; of four columns the first step has 0 and 2, the second 1 and 3
//
// Before the first codes of a group stands its Head: scales, then biases or zero points, one for each row. So a panel is one
// stream: where scales had a stream of their own, groups of 32 columns came from memory a third slower.
const (
	PanelRows   = 32
	PanelStep   = 8
	WidestBlock = 128
	StepBytes   = 4 * PanelRows
)

// Block is a run of columns with one scale of weights.
type Block struct {
	Steps  int32 // of PanelStep columns
	Begins int32 // −1 where a group begins, else 0
}

// Float is the type in which scales and biases of panels are kept.
type Float int64

// The types of scales.
const (
	Float32 Float = iota
	Float16
	BFloat16
)

// Size returns the bytes of a value.
func (f Float) Size() int {
	if f == Float32 {
		return 4
	}
	return 2
}

// Head says what stands before the codes of a group: scales of all rows, then the rest at its place in bytes.
type Head struct {
	Type   Float // of scales and biases
	Size   int64 // of all, in bytes; 0: no scales
	Zeros  int64 // where zero points begin, unsigned bytes; 0: none
	Biases int64 // where biases begin; 0: none
}

// NewHead returns the head of scales of a type, with biases or zero points or none of them.
func NewHead(t Float, zeros, biases bool) Head {
	h := Head{Type: t, Size: int64(t.Size()) * PanelRows}
	if biases {
		h.Biases, h.Size = h.Size, 2*h.Size
	}
	if zeros {
		h.Zeros, h.Size = h.Size, h.Size+PanelRows
	}
	return h
}

// Product multiplies panels by the activations of tokens: one panel by several, or several, one behind the other, by one.
// Its fields have the offsets that the assembly knows.
type Product struct {
	Codes []byte // [panels]
	Head
	Mid    int64 // the code that is zero without a zero point: 2^(bits−1)
	Blocks []Block

	// X are the activations, [tokens, columns of all blocks] in rows of Stride bytes: int8, or bfloat16 in the order of pairs.
	X      []byte
	Stride int64

	// Of every block, in rows of Row elements, one for each token:
	XScales []float32 // the scale of int8 activations
	Sums    []int32   // their negative sum
	Totals  []float32 // the sum of bfloat16 activations
	Row     int64

	Y []float32 // [tokens, 32] or [panels, 32], the result

	Panels int64

	Parts []int16   // [blocks, Row, KParts] for KBlocks: sums of parts of the activations
	ahead int64     // from the codes that are multiplied to what to fetch into the cache meanwhile
	work  *tileWork // of a set with tiles
}

// tile is a kernel for a number of tokens.
type tile struct {
	tokens int
	run    func(p *Product)
}

// panels are the products of a set, each for several numbers of tokens, in rising order.
type panels struct {
	codes4, codes8, pairs []tile
	levels4               []tile // of one token
	direct4               []tile // codes of 4 bits by bfloat16 without a panel of pairs between; nil: none

	tiled *tiled // codes by int8 of many tokens; nil: none

	roundPairs func(dst []byte, x []float32) [16]float32 // of a multiple of 16 values

	unpack8      func(dst, src []byte)            // 4-bit codes to 8-bit codes; nil: those are no faster
	unpackLevels func(dst, src []byte)            // 4-bit codes to the codes of levels
	pairs4       func(dst, src []byte, mid int64) // 4-bit codes less mid to pairs
	pairs8       func(dst, src []byte, mid int64) // 8-bit codes less mid to pairs

	blocks ksets // of panels with scales in two levels
}

var panelsGeneric = panels{
	codes4: []tile{{1, codes4}}, codes8: []tile{{1, codes8}}, levels4: []tile{{1, levels4}}, pairs: []tile{{1, pairs}},
	roundPairs: roundPairs, unpack8: unpack8, unpackLevels: unpackLevels, pairs4: pairs4, pairs8: pairs8,
	blocks: ksetsGeneric,
}

// MostTokens is the most tokens of a tile: activations and results have room for that many more than are asked for.
const MostTokens = 12

// each runs the kernels over n tokens; the last may compute a few more. ahead is how far behind the codes lies what comes next.
func (p *Product) each(tiles []tile, n int, ahead int) {
	p.ahead = int64(ahead)
	x, scales, sums, totals, parts, y := p.X, p.XScales, p.Sums, p.Totals, p.Parts, p.Y
	for done := 0; done < n; {
		t := tiles[0]
		for _, next := range tiles[1:] {
			if t.tokens < n-done {
				t = next
			}
		}
		t.run(p)
		done += t.tokens
		if done < n {
			p.ahead += 64 // of each few lines another
			p.X, p.Y = x[int64(done)*p.Stride:], y[done*PanelRows:]
			if scales != nil {
				p.XScales, p.Sums = scales[done:], sums[done:]
			}
			if totals != nil {
				p.Totals = totals[done:]
			}
			if parts != nil {
				p.Parts = parts[done*KParts:]
			}
		}
	}
	p.X, p.XScales, p.Sums, p.Totals, p.Parts, p.Y = x, scales, sums, totals, parts, y
}

// direct is the most tokens for which codes are not unpacked first, if unpacking pays at all.
const direct = 8

// form is how a panel is kept that is multiplied in the same or in a wider form.
type form int

const (
	formCodes8  form = iota
	formCodes4       // unpacked to codes of 8 bits first
	formLevels4      // unpacked to the codes of 8 bits that they stand for
	formPairs2
	formPairs8 // unpacked to pairs
	formPairs4
)

// forms has the bytes of PanelStep columns: of the panel, of the panel as it is multiplied, of a token.
var forms = [...]struct{ kept, read, x int }{
	formCodes8:  {2 * StepBytes, 2 * StepBytes, PanelStep},
	formCodes4:  {StepBytes, 2 * StepBytes, PanelStep},
	formLevels4: {StepBytes, 2 * StepBytes, PanelStep},
	formPairs2:  {4 * StepBytes, 4 * StepBytes, 2 * PanelStep},
	formPairs8:  {2 * StepBytes, 4 * StepBytes, 2 * PanelStep},
	formPairs4:  {StepBytes, 4 * StepBytes, 2 * PanelStep},
}

// wide multiplies panels that are unpacked to scratch first.
func (p *Product) wide(f form, tiles []tile, n int, scratch []byte) {
	p.widen(f, scratch)
	p.instead(scratch, tiles, n)
}

// instead multiplies what was made of the panels. Memory behind the panels is fetched meanwhile, as the next ones are likely to be there:
// unpacking them would wait for it.
func (p *Product) instead(scratch []byte, tiles []tile, n int) {
	codes := p.Codes
	behind := uintptr(unsafe.Pointer(unsafe.SliceData(codes))) + uintptr(len(codes))
	p.Codes = scratch
	p.each(tiles, n, int(behind-uintptr(unsafe.Pointer(unsafe.SliceData(scratch)))))
	p.Codes = codes
}

// widen copies panels to dst in the form that is multiplied.
func (p *Product) widen(f form, dst []byte) {
	src := p.Codes
	for range p.Panels {
		for _, b := range p.Blocks {
			if b.Begins != 0 {
				copy(dst, src[:p.Size])
				dst, src = dst[p.Size:], src[p.Size:]
			}
			kept, read := int(b.Steps)*forms[f].kept, int(b.Steps)*forms[f].read
			f.unpack(dst[:read], src[:kept], p.Mid)
			dst, src = dst[read:], src[kept:]
		}
	}
}

// unpack brings the codes of a block into the form that is multiplied.
func (f form) unpack(dst, src []byte, mid int64) {
	switch f {
	case formCodes4:
		active.unpack8(dst, src)
	case formLevels4:
		active.unpackLevels(dst, src)
	case formPairs8:
		active.pairs8(dst, src, mid)
	case formPairs4:
		active.pairs4(dst, src, mid)
	}
}

// Codes4 multiplies 4-bit codes by int8 activations of n tokens. Of every block the sum of (q−z)·x is exact, then
//
//	y += (s·sum + b·Σx)·sx
//
// in that order, each operation rounded to float32. For many tokens the codes may be unpacked to scratch first, which has
// room for twice the bytes of the panel.
func (p *Product) Codes4(n int, scratch []byte) {
	switch {
	case n <= direct || active.unpack8 == nil:
		p.each(active.codes4, n, len(p.Codes))
	case active.tiled != nil:
		p.tile(active.tiled, formCodes4, n, scratch)
	default:
		p.wide(formCodes4, active.codes8, n, scratch)
	}
}

// Codes8 is Codes4 for 8-bit codes.
func (p *Product) Codes8(n int) {
	if active.tiled != nil && n >= tileTokens {
		p.tile(active.tiled, formCodes8, n, nil)
		return
	}
	p.each(active.codes8, n, len(p.Codes))
}

// Levels4 is Codes8 for codes that are kept as places in IQ4Levels, four bits each. For several tokens they are unpacked to scratch first, which has
// room for twice the bytes of the panel.
func (p *Product) Levels4(n int, scratch []byte) {
	switch {
	case n == 1:
		p.each(active.levels4, n, len(p.Codes))
	case active.tiled != nil && n >= tileTokens:
		p.tile(active.tiled, formLevels4, n, scratch)
	default:
		p.wide(formLevels4, active.codes8, n, scratch)
	}
}

// Pairs multiplies pairs by bfloat16 activations of n tokens. Of every block the products are added up column by column,
// of each pair the second first; products are exact, sums rounded to float32. Then
//
//	y += s·(sum + (Mid−z)·Σx) + b·Σx
//
// in that order, each operation rounded; y += sum without scales. Where a sum is smaller than 2^-126 a set may take
// it for zero, and where a product is larger than any float32 it may be infinite before it is added, or not.
func (p *Product) Pairs(n int) {
	if t := active.tiled; t != nil && t.pairs != nil && n >= tileTokens {
		p.tile(t, formPairs2, n, nil)
		return
	}
	p.each(active.pairs, n, len(p.Codes))
}

// Unpacks reports whether Codes4Pairs needs its scratch.
func Unpacks(n int) bool { return active.direct4 == nil || n > direct }

// Codes4Pairs is Pairs for 4-bit codes less Mid. scratch has room for four times the bytes of the panels, if Unpacks.
func (p *Product) Codes4Pairs(n int, scratch []byte) {
	if !Unpacks(n) {
		p.each(active.direct4, n, len(p.Codes))
		return
	}
	p.throughPairs(formPairs4, n, scratch)
}

// Codes8Pairs is Pairs for 8-bit codes less Mid. scratch has room for twice the bytes of the panels.
func (p *Product) Codes8Pairs(n int, scratch []byte) { p.throughPairs(formPairs8, n, scratch) }

func (p *Product) throughPairs(f form, n int, scratch []byte) {
	if t := active.tiled; t != nil && t.pairs != nil && n >= tileTokens {
		p.tile(t, f, n, scratch)
		return
	}
	p.wide(f, active.pairs, n, scratch)
}

// Int8s returns bytes as the int8 that they hold.
func Int8s(b []byte) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(b))), len(b))
}

// Bytes returns the memory of float32 values.
func Bytes(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// RoundPairs rounds x to bfloat16 in the order of pairs, and returns the sum of the rounded values in the order of Dot. Of
// up to four values at the end the places of those that are not there stay.
func RoundPairs(dst []byte, x []float32) float32 {
	n := len(x) &^ 15
	lanes := active.roundPairs(dst[:2*n], x[:n])
	for i := n; i < len(x); i++ {
		to := dst[2*(i&^3+pairPlace[i&3]):]
		narrow(x[i:i+1], to)
		lanes[i&15] += BFloat16.At(to, 0)
	}
	return fold(&lanes)
}

// pairPlace is where the columns of four stand in the order of pairs.
var pairPlace = [4]int{0, 2, 1, 3}
