package kernel

import "unsafe"

// Products on tiles. A tile of weights is 16 rows of a panel by 64 columns, just as a panel has them: 16 lines, StepBytes apart, of four
// columns of 16 rows. A tile of activations is 16 tokens by the same columns. Four sums, of 32 tokens by 32 rows, stay in tiles over
// the columns of a block, exact; then they go through memory to the vectors that scale them, while the tiles are at the
// next block. Fewer tokens or columns are tiles of fewer rows or bytes: nothing is padded.
//
// Codes of 8 bits are multiplied where they lie, as unsigned bytes, and the zero point is taken off the sum; those of levels are when they are
// unpacked. Other codes of 4 bits lose their zero point when they are unpacked, which makes them signed.
//
// Products of bfloat16 go over tiles only in the set amxbf16. A tile adds the products of even and of odd columns up by themselves, 32
// columns at a time, fused, then both, then that to the sum so far of the block, and takes what is below 2^-126 for zero:
//
//	sum += Σ x[2i]·w[2i] + Σ x[2i+1]·w[2i+1]    over the columns of a tile in the order of pairs, for the tiles of a block
//	y += (sum + (Mid−z)·Σx)·s, y += b·Σx        fused
//
// These are other bits than those of Pairs, if as close to the exact sum, and others again than one token has, which does not go over tiles: with
// this set the same prompt may give another text when it is cut otherwise. So nothing but its name puts it to use. An
// infinite activation may give NaN where Pairs has an infinity.

// tiled are the parts of a set with tiles.
type tiled struct {
	signed   func(a *tileArgs)                      // codes less their zero points
	unsigned func(a *tileArgs)                      // codes of 8 bits, and zero points in a
	unpack   func(dst, src, zeros *byte, steps int) // 4-bit codes of a block less zeros [32]
	widen    [3]func(dst *float32, src *byte)       // 32 values of a Float
	bytes    func(dst *int32, src *[PanelRows]byte) // 32 zero points
	pairs    func(a *tileArgs)                      // pairs; nil: none
}

// amxUsable and amxReason are what AMX returns; the question is asked once.
var amxUsable, amxReason = askTiles()

// AMX reports whether the set amx can be used, and why it can or cannot: processor, operating system and its grant.
func AMX() (usable bool, reason string) { return amxUsable, amxReason }

// tileTokens is the fewest tokens for which tiles are used. Of 128 columns of a panel, the vectors take 32 cycles a token at best. Up to
// sixteen tokens on tiles take four dot products and two stores of 16 cycles each, and 4-bit codes 80 more to be unpacked: as much as
// three tokens, or five and a half. Of bfloat16 the vectors take 128 cycles a token, and up to sixteen on tiles eight dot products and
// two stores, as much as one and a quarter. But up to eight tokens read their weights from memory, which bounds both, and the vectors
// need no unpacking then.
const tileTokens = direct + 1

// tileBytes is how much of a panel all tokens are multiplied by before the next: it stays in the first cache.
const tileBytes = 16 << 10

// tileBlocks is how many blocks that are at most.
const tileBlocks = tileBytes / (2 * StepBytes)

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
	zeros   *int32   // [blocks, 32]; of pairs Mid less those
	biases  *float32 // [blocks, 32] or nil, which pairs do not take
	xscales *float32 // [blocks, row]; of pairs the sums of activations
	sums    *int32   // [blocks, row]
	row     int64    // in bytes
	fresh   int64    // 1 where y begins with these blocks
	exact   *byte    // the sums of two blocks, [2, 32, 32] of int32: those being scaled and those being made
	config  *byte    // 64 bytes
	head    int64    // bytes before the codes of a group, where those are read as the panel has them; else 0

	// What the assembly keeps, addresses that the garbage collector must not take for its own among it.
	_ [18]uintptr
	_ [32]float32
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

// tile multiplies a panel by n tokens on tiles; what is unpacked goes through scratch.
func (p *Product) tile(t *tiled, f form, n int, scratch []byte) {
	if p.work == nil {
		p.work = newTileWork()
	}
	w := p.work
	for r := range w.mid {
		w.mid[r] = byte(p.Mid)
	}
	a := &w.args
	a.stride, a.row, a.fresh = p.Stride, 4*p.Row, 1
	codes, head, x := p.Codes, p.Codes, p.X
	for first := 0; first < len(p.Blocks); {
		steps, end := 0, first
		for end < len(p.Blocks) && (steps+int(p.Blocks[end].Steps))*forms[f].read <= tileBytes {
			steps += int(p.Blocks[end].Steps)
			end++
		}
		codes, head = w.prepare(p, t, f, p.Blocks[first:end], codes, head, scratch)
		at := first * int(p.Row)
		a.x, a.y, a.tokens = unsafe.SliceData(x), unsafe.SliceData(p.Y), int64(n)
		a.blocks, a.count = &p.Blocks[first], int64(end-first)
		switch f {
		case formCodes8, formLevels4:
			a.xscales, a.sums = &p.XScales[at], &p.Sums[at]
			t.unsigned(a)
		case formCodes4:
			a.xscales, a.sums = &p.XScales[at], &p.Sums[at]
			t.signed(a)
		default:
			a.xscales, a.sums = &p.Totals[at], nil
			t.pairs(a)
		}
		x, a.fresh, first = x[steps*forms[f].x:], 0, end
	}
}

// prepare brings what belongs to rows of some blocks into the form that the assembly reads, and unpacks their codes to scratch. It
// returns the codes behind them, and the last head.
func (w *tileWork) prepare(p *Product, t *tiled, f form, blocks []Block, codes, head, scratch []byte) (behind, last []byte) {
	a := &w.args
	a.scales, a.zeros, a.biases = &w.scales[0], &w.zeros[0], nil
	if p.Biases != 0 || f >= formPairs2 {
		a.biases = &w.biases[0]
	}
	inPlace := forms[f].kept == forms[f].read
	if a.codes, a.head = unsafe.SliceData(scratch), 0; inPlace {
		a.codes, a.head = unsafe.SliceData(codes), p.Size
	}
	for i, b := range blocks {
		if b.Begins != 0 {
			head, codes = codes, codes[p.Size:]
		}
		to, zeros := i*PanelRows, &w.mid
		if p.Size > 0 {
			t.widen[p.Type](&w.scales[to], &head[0])
		} else {
			for r := range PanelRows {
				w.scales[to+r] = 1
			}
		}
		if p.Biases != 0 {
			t.widen[p.Type](&w.biases[to], &head[p.Biases])
		} else if a.biases != nil {
			clear(w.biases[to : to+PanelRows])
		}
		if p.Zeros != 0 {
			zeros = (*[PanelRows]byte)(head[p.Zeros:])
		}
		kept, read := int(b.Steps)*forms[f].kept, int(b.Steps)*forms[f].read
		switch f {
		case formCodes8, formLevels4:
			t.bytes(&w.zeros[to], zeros)
			f.unpack(scratch, codes[:kept], 0)
		case formCodes4:
			t.unpack(&scratch[0], &codes[0], &zeros[0], int(b.Steps))
		default:
			for r, z := range zeros {
				w.zeros[to+r] = int32(p.Mid) - int32(z)
			}
			f.unpack(scratch, codes[:kept], p.Mid)
		}
		codes = codes[kept:]
		if !inPlace {
			scratch = scratch[read:]
		}
	}
	return codes, head
}
