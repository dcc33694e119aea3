// Command kblock writes the assembly of products of panels whose scales come in two levels. internal/kernel/kblock.go has
// their layout and their definition.
package main

import (
	"flag"
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "nibble/internal/kernel/asm/emit"
)

// kind is what kblock.go says of a kind.
type kind struct {
	name        string
	group, high int
	mins        bool
	shift       int // the code that is zero is 1<<shift; of kinds without minimums
	table       bool
}

var kinds = []kind{
	{name: "q4k", group: 32, mins: true},
	{name: "q5k", group: 32, high: 1, mins: true},
	{name: "q6k", group: 16, high: 2, shift: 5},
	{name: "iq4xs", group: 32, shift: 7, table: true},
}

func (k kind) levels() int {
	if k.mins {
		return 2
	}
	return 1
}

// The sizes of parts of a record, and of a half with codes of 8 bits.
func (k kind) head() int   { return 64 * k.levels() }
func (k kind) scales() int { return block / k.group * PanelRows * k.levels() }
func (k kind) groupBytes() int {
	n := k.group / 8
	if k.high > 0 {
		n++
	}
	return n * StepBytes
}
func (k kind) half() int { return k.scales() + block/k.group*k.groupBytes() }
func (k kind) wide() int { return k.scales() + block*PanelRows }

// block is the number of columns of a half.
const block = 128

func main() {
	set := flag.String("set", "", "which instructions to write for")
	flag.Parse()
	ConstraintExpr("!purego")
	a, tokens := AVX2, []int{6}
	switch *set {
	case "avx512":
		a, tokens = AVX512, []int{2, 4}
	case "vnni":
		a, tokens = VNNI, []int{2, 4, 8}
	}
	for _, k := range kinds {
		one(a, k)
		for _, t := range tokens {
			if !a.Wide {
				short(a, k, t)
			} else if k.high != 1 { // codes of 8 bits of kinds with minimums are alike
				several(a, k, t)
			}
		}
		if !a.VNNI && (a.Wide || !k.packed()) {
			unpack(a, k)
		}
	}
	Generate()
}

// product is a kernel that is being written.
type product struct {
	ISA
	kind
	tokens int
	p      Register

	nibble, highs, table Register     // to take codes apart
	top                  Register     // the same for codes that count sixteenfold
	ones, sixteens       Register     // without VNNI
	isums                [][]Register // of a block, of each token and part of the rows
	dots                 [][]Register // of a group, of each token and the parts that are multiplied together
	sums                 *Short       // of several tokens without VNNI; nil: isums and dots
	first                Register     // the first row that is multiplied; nil: all are
	others               []Register   // with one token and wide registers: of the second four of each eight columns
}

func begin(a ISA, k kind, tokens int) *product {
	x := &product{ISA: a, kind: k, tokens: tokens, p: Load(Param("p"), GP64())}
	if !a.VNNI {
		x.ones = a.Fill(0x00010001)
		if k.table {
			x.sixteens = a.Fill(0x00100010)
		}
	}
	if tokens == 1 || !a.VNNI && k.table {
		x.nibble = a.Fill(0x0f0f0f0f)
	}
	if tokens == 1 {
		x.unpacker()
	}
	for range tokens {
		var v []Register
		for range a.Parts() {
			v = append(v, a.Vec())
		}
		x.isums = append(x.isums, v)
	}
	for range tokens {
		var v []Register
		for range x.together()[0] {
			v = append(v, a.Vec())
		}
		x.dots = append(x.dots, v)
	}
	if len(x.dots[0]) > 1 {
		x.others = []Register{a.Vec(), a.Vec()}
		if a.VNNI && k.high == 0 && !k.table {
			x.top = a.Fill(0xf0f0f0f0)
		}
	}
	return x
}

// together lists the parts of the rows, those together that are multiplied together: with one token all, if there are
// registers for them, as memory is to be read in its order.
func (x *product) together() (list [][]int) {
	if x.tokens == 1 && x.Wide {
		return [][]int{{0, 1}}
	}
	for part := range x.Parts() {
		list = append(list, []int{part})
	}
	return list
}

// unpacker loads what takes codes apart.
func (x *product) unpacker() {
	if x.high > 0 {
		x.highs = x.Fill(0x10101010 * (1<<x.high - 1))
	}
	if x.kind.table {
		x.table = x.FillLevels()
	}
}

// one multiplies panels by one token.
func one(a ISA, k kind) {
	name := k.name + "One" + a.Name
	TEXT(name, NOSPLIT, "func(p *byte)")
	Doc(name + " is KBlocks for one token; kblocksOne is the specification.")
	if !a.Wide && !k.table {
		x := beginOneShort(a, k)
		x.records(k.half(), x.oneShort)
		return
	}
	x := begin(a, k, 1)
	x.records(k.half(), x.apart(func(data Register, acts Rows, parts []int) {
		if !a.Wide && parts[0] == 0 {
			FetchAhead(data, AheadOfOne, k.groupBytes())
		}
		x.quads(data, parts, func(quad, i int, w Register) { x.multiply(acts, quad, i, w) })
	}))
}

// several multiplies a panel of codes of 8 bits by so many tokens.
func several(a ISA, k kind, tokens int) {
	name := fmt.Sprintf("%sx%d%s", k.name, tokens, a.Name)
	TEXT(name, NOSPLIT, "func(p *byte)")
	Doc(fmt.Sprintf("%s is KBlocks for %d tokens and codes of 8 bits; kblocksOne is the specification.", name, tokens))
	x := begin(a, k, tokens)
	x.records(k.wide(), x.apart(func(data Register, acts Rows, parts []int) {
		if parts[0] == 0 {
			FetchNext(x.p, data)
		}
		w := a.Vec()
		for quad := range k.group / 4 {
			a.Move(Mem{Base: data, Disp: quad*StepBytes + parts[0]*a.Bytes()}, w)
			x.multiply(acts, quad, 0, w)
		}
	}))
}

// place is where a group of weights is, the first or second of a pair, and what it is multiplied by.
type place struct {
	scales, data Register
	acts         Rows
	second       bool
}

// records runs over all records of all panels, whose halves have so many bytes; group multiplies a group.
func (x *product) records(half int, group func(at place)) {
	record := Field(x.p, OffCodes)
	Panels(x.p, x.tokens == 1, func(at Panel) {
		acts := RowsAt(Field(x.p, OffX), Field(x.p, OffStride), x.tokens)
		x.clear(at.Y())
		row, count, data := GP64(), Field(x.p, OffCount), GP64()
		XORQ(row, row)
		LEAQ(Mem{Base: record, Disp: x.head()}, data)
		Label("record")
		x.touch(record, x.head())
		Label("block")
		scales := GP64()
		MOVQ(data, scales)
		ADDQ(U32(uint32(x.scales())), data)
		x.touch(scales, x.scales())
		EachRows(x.rows(), func(first Register) {
			x.first = first
			x.zero()
			pairs := GP64()
			MOVQ(U32(uint32(block/x.group/2)), pairs)
			Label("pair")
			for _, second := range []bool{false, true} {
				group(place{scales, data, acts, second})
				ADDQ(U32(uint32((half-x.scales())/(block/x.group))), data)
				acts.Advance(x.group)
			}
			ADDQ(Imm(64), scales)
			DECQ(pairs)
			JNZ(LabelRef("pair"))
			x.finish(at, scales, record, row)
		}, func() {
			SUBQ(U32(uint32(half-x.scales())), data)
			SUBQ(U32(uint32(64*block/x.group/2)), scales)
			back := GP64()
			MOVQ(I32(-block), back)
			acts.Step(back)
		})
		next := Field(x.p, OffRow)
		LEAQ(Mem{Base: row, Index: next, Scale: 4}, row)
		DECQ(count)
		TESTQ(U32(1), count)
		JNZ(LabelRef("block"))
		MOVQ(data, record)
		ADDQ(U32(uint32(x.head())), data)
		TESTQ(count, count)
		JNZ(LabelRef("record"))
	})
}

// rows is how many rows are multiplied together.
func (x *product) rows() int {
	if x.sums == nil {
		return PanelRows
	}
	return x.sums.Rows()
}

// zero begins the sums of a block.
func (x *product) zero() {
	for _, list := range x.isums {
		for _, v := range list {
			x.Zero(v)
		}
	}
	if x.sums != nil {
		x.sums.Clear()
	}
}

// touch reads every line of so many bytes from a place on. With one token lines come from memory, whose stream must not have holes that
// are filled late: minimums and the two levels' floats are wanted behind the codes that follow them.
func (x *product) touch(from Register, bytes int) {
	if x.tokens > 1 {
		return
	}
	for at := 0; at < bytes; at += 64 {
		MOVQ(Mem{Base: from, Disp: at}, GP64())
	}
}

// apart multiplies groups by multiplying parts of their rows.
func (x *product) apart(multiply func(data Register, acts Rows, parts []int)) func(at place) {
	return func(at place) {
		for _, parts := range x.together() {
			x.addGroup(at, parts, func() { multiply(at.data, at.acts, parts) })
		}
	}
}

// addGroup adds parts of the rows of a group to their sums.
func (x *product) addGroup(at place, parts []int, body func()) {
	for _, list := range append(x.dots, x.others) {
		for _, v := range list {
			x.Zero(v)
		}
	}
	body()
	for i, v := range x.others {
		if x.top != nil {
			VPSRAD(Imm(4), v, v)
		}
		VPADDD(v, x.dots[0][i], x.dots[0][i])
	}
	s := x.Vec()
	for i, part := range parts {
		VPMOVSXBW(Mem{Base: at.scales, Disp: part * x.Bytes() / 2}, s)
		if !at.second {
			VPSLLD(Imm(16), s, s)
		}
		VPSRAD(Imm(16), s, s)
		for t := range x.tokens {
			v, sum := x.dots[t][i], x.isums[t][part]
			VPMULLD(s, v, v)
			VPADDD(v, sum, sum)
		}
	}
}

// multiply adds the products of four columns of the part of the rows at place i of those together.
func (x *product) multiply(acts Rows, quad, i int, w Register) {
	sums := make([]Register, x.tokens)
	for t := range sums {
		sums[t] = x.dots[t][i]
		if x.others != nil && quad%2 == 1 {
			sums[t] = x.others[i]
		}
	}
	if x.VNNI {
		for t, sum := range sums {
			VPDPBUSD_BCST(acts.At(t, 4*quad), w, sum)
		}
		return
	}
	var low Register
	if x.sixteens != nil {
		low = x.Vec()
		x.And(x.nibble, w, low)
		VPSRLD(Imm(4), w, w)
		x.And(x.nibble, w, w)
	}
	b, v := x.Vec(), x.Vec()
	for t, sum := range sums {
		VPBROADCASTD(acts.At(t, 4*quad), b)
		if low != nil {
			VPMADDUBSW(b, low, v)
			VPMADDWD(x.ones, v, v)
			VPADDD(v, sum, sum)
			VPMADDUBSW(b, w, v)
			VPMADDWD(x.sixteens, v, v)
		} else {
			VPMADDUBSW(b, w, v)
			VPMADDWD(x.ones, v, v)
		}
		VPADDD(v, sum, sum)
	}
}
