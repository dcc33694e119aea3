package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "nibble/internal/kernel/asm/emit"
)

// short is a product of several tokens without VNNI, of some rows of the panel after the other.
type short struct {
	*product
	sums *Short
	kept int // bytes of PanelStep columns
	x    Rows
}

// short4 multiplies 4-bit codes of a panel by the int8 activations of so many tokens, short8 those of 8 bits.
func short4(a ISA, tokens int) { beginShort(a, "4", tokens, StepBytes, false).run() }
func short8(a ISA, tokens int) { beginShort(a, "8", tokens, 2*StepBytes, true).run() }

func beginShort(a ISA, bits string, tokens, kept int, split bool) *short {
	TEXT(fmt.Sprintf("codes%sx%d%s", bits, tokens, a.Name), NOSPLIT, "func(p *byte)")
	Doc(fmt.Sprintf("codes%sx%d%s is Codes%s for %d tokens; codes%s is the specification.", bits, tokens, a.Name, bits, tokens, bits))
	return &short{product: &product{ISA: a, tokens: tokens, p: Load(Param("p"), GP64())}, sums: NewShort(a, tokens, split), kept: kept}
}

// run writes the kernel.
func (k *short) run() {
	codes := Field(k.p, OffCodes)
	Panels(k.p, false, func(at Panel) {
		k.x = RowsAt(Field(k.p, OffX), Field(k.p, OffStride), k.tokens)
		k.clear(at.Y())
		Blocks(k.p, codes, false, func(block, head, row Register) {
			EachRows(k.sums.Rows(), func(rows Register) {
				k.begin(row, head, rows)
				k.columns(codes, block, rows, func(sums [][]Register) { k.finishFrom(rows, sums, row, head, at.Y()) })
			}, func() { k.again(codes, block) })
		})
	})
}

// begin sets the sums of some rows to −z·Σx.
func (k *short) begin(row, head, rows Register) {
	z, b := k.panelOf(k.sums.Parts()), k.vec()
	k.zeros(head, rows, z)
	sums := Row(k.p, OffSums, row)
	for t := range k.tokens {
		VPBROADCASTD(Mem{Base: sums, Disp: 4 * t}, b)
		for part, zero := range z {
			v := k.vec()
			VPMADDWD(zero, b, v)
			k.Move(v, k.sums.Sum(t, part))
		}
	}
}

// columns adds the products of a block's columns, for some rows. Sums of up to so many steps fit into 16 bits.
func (k *short) columns(codes, block, rows Register, finish func(sums [][]Register)) {
	steps := Fits(15) / 2
	left := GP64()
	MOVLQSX(Mem{Base: block}, left)
	Label("more")
	CMPQ(left, Imm(uint64(steps)))
	JL(LabelRef("few"))
	for i := range steps {
		k.step(codes, rows, i, i == 0)
	}
	k.advance(codes, steps)
	SUBQ(Imm(uint64(steps)), left)
	Label("widen")
	sums := k.sums.Widen(k.times())
	TESTQ(left, left)
	JZ(LabelRef("finish"))
	k.sums.Keep(sums)
	JMP(LabelRef("more"))
	Label("few")
	k.sums.Zero()
	Label("step")
	k.step(codes, rows, 0, false)
	k.advance(codes, 1)
	DECQ(left)
	JNZ(LabelRef("step"))
	JMP(LabelRef("widen"))
	Label("finish")
	finish(sums)
}

// step adds the products of step i of those at codes.
func (k *short) step(codes, rows Register, i int, first bool) {
	for quad := range 2 {
		w := [2]Register{k.vec(), k.vec()}
		from := Mem{Base: codes, Index: rows, Scale: 4, Disp: i * k.kept}
		if k.sums.Split {
			from.Disp += quad * StepBytes
			k.sums.Low(from, w[0])
			k.sums.High(from, w[1])
		} else {
			for part, v := range w {
				half := k.sums.Low
				if quad == 1 {
					half = k.sums.High
				}
				half(from.Offset(part*k.Bytes()), v)
			}
		}
		k.sums.Add(k.x, 8*i+4*quad, w, first && quad == 0)
	}
	FetchRows(k.p, codes, rows, k.kept)
}

// times is what sums of 16 bits are multiplied by: ones, and 16 for high halves.
func (k *short) times() [2]Register {
	one := k.vec()
	VPCMPEQW(one, one, one)
	VPABSW(one, one)
	if !k.sums.Split {
		return [2]Register{one, one}
	}
	high := k.vec()
	VPSLLW(Imm(4), one, high)
	return [2]Register{one, high}
}

// advance moves on by so many steps.
func (k *short) advance(codes Register, steps int) {
	ADDQ(U32(uint32(steps*k.kept)), codes)
	k.x.Advance(8 * steps)
}

// again goes back to where the block begins, for the next rows.
func (k *short) again(codes, block Register) {
	n := GP64()
	MOVLQSX(Mem{Base: block}, n)
	IMUL3Q(I32(-PanelStep), n, n)
	k.x.Step(n)
	IMUL3Q(U32(uint32(k.kept/PanelStep)), n, n)
	ADDQ(n, codes)
}

// one4 multiplies 4-bit codes of panels by the int8 activations of one token.
func one4(a ISA) {
	TEXT("codes4x1"+a.Name, NOSPLIT, "func(p *byte)")
	Doc("codes4x1" + a.Name + " is Codes4 for one token; codes4 is the specification.")
	k := begin(a, 1)
	mask, sums := k.constant(0x0f0f0f0f), k.panel()
	codes := Field(k.p, OffCodes)
	Panels(k.p, true, func(at Panel) {
		x := RowsAt(Field(k.p, OffX), Field(k.p, OffStride), 1)
		k.clear(at.Y())
		Blocks(k.p, codes, true, func(block, head, row Register) {
			acc := accumulators{k.panel()}
			k.offsets(acc, Row(k.p, OffSums, row), head)
			left := GP64()
			MOVLQSX(Mem{Base: block}, left)
			Label("more")
			n := GP64()
			MOVQ(U32(uint32(Fits(15)/2)), n)
			CMPQ(left, n)
			CMOVQLT(left, n)
			SUBQ(n, left)
			for _, v := range sums {
				k.Zero(v)
			}
			Label("step")
			lo, hi := k.vec(), k.vec()
			VPBROADCASTD(x.At(0, 0), lo)
			VPBROADCASTD(x.At(0, 4), hi)
			for part, sum := range sums {
				v, w := k.vec(), k.vec()
				k.Move(Mem{Base: codes, Disp: part * k.Bytes()}, v)
				k.And(mask, v, w)
				VPSRLD(Imm(4), v, v)
				k.And(mask, v, v)
				VPMADDUBSW(lo, w, w)
				VPMADDUBSW(hi, v, v)
				VPADDW(w, sum, sum)
				VPADDW(v, sum, sum)
			}
			k.Fetch(k.p, codes, 1, 1)
			ADDQ(U32(StepBytes), codes)
			x.Advance(PanelStep)
			DECQ(n)
			JNZ(LabelRef("step"))
			for part, v := range sums {
				VPMADDWD(k.ones, v, v)
				VPADDD(v, acc[0][part], acc[0][part])
			}
			TESTQ(left, left)
			JNZ(LabelRef("more"))
			k.finish(acc, row, head, at.Y())
		})
	})
}
