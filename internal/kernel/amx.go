package kernel

import "unsafe"

// Products on tiles. A tile of weights is 16 rows of a panel by 64 columns, just as a panel has them: 16 lines, StepBytes apart, of four
// columns of 16 rows. A tile of activations is 16 tokens by the same columns. Four sums, of 32 tokens by 32 rows, stay in tiles over
// the columns of a block, exact; then they go through memory to the vectors that scale them, while the tiles are at the
// next block. Fewer tokens or columns are tiles of fewer rows or bytes: nothing is padded.
//
// Codes of 8 bits are multiplied where they lie, as unsigned bytes, and the zero point is taken off the sum. Codes of 4 bits are
// unpacked, as for the vectors, and lose their zero point then, which makes them signed.
//
// Only integers go over tiles. The dot product of bfloat16 there adds even and odd columns up by themselves, 32 columns at a time: other bits
// than those of Pairs, and so another text from the same prompt depending on how it was cut.

// tiled are the parts of a set with tiles.
type tiled struct {
	signed   func(a *tileArgs)                      // codes less their zero points
	unsigned func(a *tileArgs)                      // codes of 8 bits, and zero points in a
	unpack   func(dst, src, zeros *byte, steps int) // 4-bit codes of a block less zeros [32]
	widen    [3]func(dst *float32, src *byte)       // 32 values of a Float
	bytes    func(dst *int32, src *[PanelRows]byte) // 32 zero points
}

// amxUsable and amxReason are what AMX returns; the question is asked once.
var amxUsable, amxReason = askTiles()

// AMX reports whether the set amx can be used, and why it can or cannot: processor, operating system and its grant.
func AMX() (usable bool, reason string) { return amxUsable, amxReason }

// tileTokens is the fewest tokens for which tiles are used. Of 128 columns of a panel, the vectors take 32 cycles a token at best. Up to
// sixteen tokens on tiles take four dot products and two stores of 16 cycles each, and 4-bit codes 80 more to be unpacked: as much as
// three tokens, or five and a half. But up to eight tokens read their weights from memory, which bounds both, and the vectors
// need no unpacking then.
const tileTokens = direct + 1

// tileColumns is how many columns all tokens are multiplied by before the next: their codes, 16 KB, stay in the first cache.
const tileColumns = 512

// tileBlocks is how many blocks that are at most.
const tileBlocks = tileColumns / PanelStep

// tileArgs is what the assembly works with; its fields have the offsets that it knows.
type tileArgs struct {
	codes   *byte
	x       *byte // the first token's activations of the first block
	stride  int64
	y       *float32 // [tokens, 32]
	tokens  int64
	blocks  *Block
	count   int64
	scales  *float32 // [blocks, 32]
	zeros   *int32   // [blocks, 32]
	biases  *float32 // [blocks, 32] or nil
	xscales *float32 // [blocks, row]
	sums    *int32   // [blocks, row]
	row     int64    // in bytes
	fresh   int64    // 1 where y begins with these blocks
	exact   *byte    // the sums of two blocks, [2, 32, 32] of int32: those being scaled and those being made
	config  *byte    // 64 bytes

	// What the assembly keeps, addresses that the garbage collector must not take for its own among it.
	_ [18]uintptr
}

// tileWork is the memory of products on tiles, made when a Product first needs it.
type tileWork struct {
	args   tileArgs
	scales [tileBlocks * PanelRows]float32
	zeros  [tileBlocks * PanelRows]int32
	biases [tileBlocks * PanelRows]float32
	mid    [PanelRows]byte
	config [64]byte
}

func newTileWork() *tileWork {
	const sums = 2 * 4 * 32 * PanelRows
	memory := make([]byte, sums+64)
	w := &tileWork{}
	w.args.exact = &memory[-uintptr(unsafe.Pointer(&memory[0]))&63] // at a line of the cache
	w.args.config = &w.config[0]
	return w
}

// tile multiplies a panel by n tokens on tiles; codes of 4 bits go through scratch.
func (p *Product) tile(t *tiled, n int, scratch []byte) {
	if p.work == nil {
		p.work = newTileWork()
	}
	w := p.work
	for r := range w.mid {
		w.mid[r] = byte(p.Mid)
	}
	a := &w.args
	a.stride, a.row, a.fresh = p.Stride, 4*p.Row, 1
	codes, x := p.Codes, p.X
	for first := 0; first < len(p.Blocks); {
		columns, end := 0, first
		for end < len(p.Blocks) && columns+int(p.Blocks[end].Steps)*PanelStep <= tileColumns {
			columns += int(p.Blocks[end].Steps) * PanelStep
			end++
		}
		size := columns * PanelRows
		a.codes = unsafe.SliceData(codes)
		if scratch != nil {
			size /= 2
			a.codes = unsafe.SliceData(scratch)
		}
		w.prepare(p, t, first, end, codes, scratch)
		at := first * int(p.Row)
		a.x, a.y, a.tokens = unsafe.SliceData(x), unsafe.SliceData(p.Y), int64(n)
		a.blocks, a.count = &p.Blocks[first], int64(end-first)
		a.xscales, a.sums = &p.XScales[at], &p.Sums[at]
		if scratch != nil {
			t.signed(a)
		} else {
			t.unsigned(a)
		}
		codes, x, a.fresh, first = codes[size:], x[columns:], 0, end
	}
}

// prepare brings what belongs to rows of some blocks into the form that the assembly reads, and 4-bit codes to scratch.
func (w *tileWork) prepare(p *Product, t *tiled, first, end int, codes, scratch []byte) {
	a := &w.args
	a.scales, a.zeros, a.biases = &w.scales[0], &w.zeros[0], nil
	if p.Biases != nil {
		a.biases = &w.biases[0]
	}
	for i, b := range p.Blocks[first:end] {
		to, g, zeros := i*PanelRows, int(b.Group)*PanelRows, &w.mid
		t.widen[p.Type](&w.scales[to], &p.Scales[g*p.Type.Size()])
		if p.Biases != nil {
			t.widen[p.Type](&w.biases[to], &p.Biases[g*p.Type.Size()])
		}
		if p.Zeros != nil {
			zeros = (*[PanelRows]byte)(p.Zeros[g:])
		}
		if scratch == nil {
			t.bytes(&w.zeros[to], zeros)
			continue
		}
		t.unpack(&scratch[0], &codes[0], &zeros[0], int(b.Steps))
		size := int(b.Steps) * StepBytes
		codes, scratch = codes[size:], scratch[2*size:]
	}
}
