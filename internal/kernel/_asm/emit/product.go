package emit

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Where kernel.Product has its fields; a test of the package holds them against the type.
const (
	OffCodes   = 0
	OffType    = 24
	OffHead    = 32
	OffZeros   = 40
	OffBiases  = 48
	OffMid     = 56
	OffBlocks  = 64
	OffCount   = 72
	OffX       = 88
	OffStride  = 112
	OffXScales = 120
	OffSums    = 144
	OffTotals  = 168
	OffRow     = 192
	OffY       = 200
	OffPanels  = 224
	OffParts   = 232
	OffAhead   = 256
)

// PanelRows is the number of rows of a panel, StepBytes the size of a step of them, PanelStep the columns of a step of 4-bit codes.
const (
	PanelRows = 32
	StepBytes = 4 * PanelRows
	PanelStep = 8
)

// Field reads a field of a product.
func Field(p Register, off int) Register {
	r := GP64()
	MOVQ(Mem{Base: p, Disp: off}, r)
	return r
}

// Panel is a panel of a product whose results are being computed.
type Panel struct {
	p Register
	y Register // where it begins among results, in bytes; nil for the only one
}

// Panels runs body over all panels, of a product of one token, or over the only one.
func Panels(p Register, several bool, body func(at Panel)) {
	at := Panel{p: p}
	if !several {
		body(at)
	} else {
		count := Field(p, OffPanels)
		at.y = GP64()
		XORQ(at.y, at.y)
		Label("panel")
		body(at)
		ADDQ(U32(4*PanelRows), at.y)
		DECQ(count)
		JNZ(LabelRef("panel"))
	}
	VZEROUPPER()
	RET()
}

// Y returns the address of the panel's results.
func (a Panel) Y() Register {
	y := Field(a.p, OffY)
	if a.y != nil {
		ADDQ(a.y, y)
	}
	return y
}

// Row returns the address of a block's row, at an offset, in a field.
func Row(p Register, off int, row Register) Register {
	r := Field(p, off)
	ADDQ(row, r)
	return r
}

// Blocks runs body over all blocks of a product, each with codes at its own, and head at what stands before those of its
// group; steps of each are block's first four bytes. row is the block's offset in XScales, Sums and Totals.
func Blocks(p, codes Register, touch bool, body func(block, head, row Register)) {
	block, count, row, head := Field(p, OffBlocks), Field(p, OffCount), GP64(), GP64()
	XORQ(row, row)
	MOVQ(codes, head)
	Label("block")
	begins := GP64()
	MOVLQSX(Mem{Base: block, Disp: 4}, begins)
	TESTQ(begins, begins)
	CMOVQNE(codes, head)
	ANDQ(Mem{Base: p, Disp: OffHead}, begins)
	ADDQ(begins, codes)
	if touch {
		MOVQ(Mem{Base: head}, GP64())
		MOVQ(Mem{Base: head, Disp: 64}, GP64())
	}
	body(block, head, row)
	next := Field(p, OffRow)
	LEAQ(Mem{Base: row, Index: next, Scale: 4}, row)
	ADDQ(Imm(8), block)
	DECQ(count)
	JNZ(LabelRef("block"))
}

// InHead returns the address of a part of head, and goes to label where there is none.
func InHead(p Register, off int, head Register, label string) Register {
	at := Field(p, off)
	TESTQ(at, at)
	JZ(LabelRef(label))
	ADDQ(head, at)
	return at
}

// EachRows runs body over the rows of a panel, so many at a time, from first on; all of them at once have no first. again goes back for the next.
func EachRows(rows int, body func(first Register), again func()) {
	if rows == PanelRows {
		body(nil)
		return
	}
	first := GP64()
	XORQ(first, first)
	Label("rows")
	body(first)
	ADDQ(U32(uint32(rows)), first)
	CMPQ(first, U32(PanelRows))
	JE(LabelRef("all"))
	again()
	JMP(LabelRef("rows"))
	Label("all")
}

// Steps runs body over the steps of a block, PanelStep columns each.
func Steps(block Register, body func()) {
	steps := GP64()
	MOVLQSX(Mem{Base: block}, steps)
	Label("step")
	body()
	DECQ(steps)
	JNZ(LabelRef("step"))
}

// Rows are pointers to the same place in the rows of several tokens.
type Rows struct {
	base            []Register
	stride, stride3 Register
}

// RowsAt begins with the row at p.
func RowsAt(p, stride Register, tokens int) Rows {
	r := Rows{stride: stride}
	if tokens > 3 {
		r.stride3 = GP64()
		LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, r.stride3)
	}
	for t := 0; t < tokens; t += 4 {
		if t == 0 {
			r.base = append(r.base, p)
			continue
		}
		next := GP64()
		LEAQ(Mem{Base: r.base[t/4-1], Index: stride, Scale: 4}, next)
		r.base = append(r.base, next)
	}
	return r
}

// At returns the address of disp bytes behind the place in the row of token t.
func (r Rows) At(t, disp int) Mem {
	m := Mem{Base: r.base[t/4], Disp: disp}
	switch t % 4 {
	case 1, 2:
		m.Index, m.Scale = r.stride, uint8(t%4)
	case 3:
		m.Index, m.Scale = r.stride3, 1
	}
	return m
}

// Advance moves all pointers.
func (r Rows) Advance(bytes int) {
	for _, b := range r.base {
		ADDQ(Imm(uint64(bytes)), b)
	}
}

// Floats loads scales or biases of rows of a panel, which begin at ptr, from row rows on, and first rows more if that is not nil, into registers of so many
// bytes, whatever their type. Labels start with name.
func Floats(p Register, name string, ptr, first Register, rows, bytes int, to []Register) {
	at := func(i, size int) Mem {
		m := Mem{Base: ptr, Disp: size * (rows + i*bytes/4)}
		if first != nil {
			m.Index, m.Scale = first, uint8(size)
		}
		return m
	}
	kind := Field(p, OffType)
	CMPQ(kind, Imm(1))
	JL(LabelRef(name + "32"))
	JE(LabelRef(name + "16"))
	for i, v := range to {
		VPMOVZXWD(at(i, 2), v)
		VPSLLD(Imm(16), v, v)
	}
	JMP(LabelRef(name + "done"))
	Label(name + "16")
	for i, v := range to {
		VCVTPH2PS(at(i, 2), v)
	}
	JMP(LabelRef(name + "done"))
	Label(name + "32")
	for i, v := range to {
		VMOVUPS(at(i, 4), v)
	}
	Label(name + "done")
}

// How far in front weights are fetched for several tokens and for one, in bytes.
const (
	ahead      = 4096
	AheadOfOne = 2048
)

// Fetch asks for what so many steps will read later. Products of several tokens take so long over a step that the processor does not see the next
// ones, and so do those of one token in narrow registers; in wide ones one token is better off without. Twelve are multiplied by panels that are in the
// cache, and fetch what comes next.
func (a ISA) Fetch(p, codes Register, tokens, steps int) {
	switch {
	case tokens == 1 && a.Wide:
	case tokens == 1:
		FetchAhead(codes, AheadOfOne, steps*StepBytes)
	case tokens == 12:
		FetchNext(p, codes)
	default:
		FetchAhead(codes, ahead, steps*StepBytes)
	}
}

// FetchAhead asks for so many bytes that are some distance behind a place.
func FetchAhead(from Register, distance, bytes int) {
	for off := 0; off < bytes; off += 64 {
		PREFETCHT0(Mem{Base: from, Disp: distance + off})
	}
}

// FetchNext asks for a line of what is multiplied after these panels.
func FetchNext(p, codes Register) { PREFETCHT1(Mem{Base: codes, Index: Field(p, OffAhead), Scale: 1}) }

// FetchRows asks for what is multiplied after these panels: in so many bytes, of every step the line that has row first.
func FetchRows(p, codes, first Register, bytes int) {
	at := Field(p, OffAhead)
	LEAQ(Mem{Base: at, Index: first, Scale: 4}, at)
	for off := 0; off < bytes; off += StepBytes {
		PREFETCHT0(Mem{Base: codes, Index: at, Scale: 1, Disp: off})
	}
}

// Step moves all pointers by so many bytes.
func (r Rows) Step(bytes Register) {
	for _, b := range r.base {
		ADDQ(bytes, b)
	}
}

// Below returns the pointers for the rows that come so many, a multiple of four, later.
func (r Rows) Below(rows int) Rows {
	below := Rows{stride: r.stride, stride3: r.stride3}
	for i := range r.base {
		next := GP64()
		LEAQ(Mem{Base: r.base[i], Index: r.stride, Scale: 4}, next)
		if rows == 8 {
			LEAQ(Mem{Base: next, Index: r.stride, Scale: 4}, next)
		}
		below.base = append(below.base, next)
	}
	return below
}
