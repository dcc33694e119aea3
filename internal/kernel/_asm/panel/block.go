package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "nibble/internal/kernel/asm/emit"
)

// offsets begins the sums with −z·Σx.
func (k *product) offsets(acc accumulators, sums, head Register) {
	z := k.panel()
	k.zeros(head, nil, z)
	b := k.vec()
	for t := range acc {
		VPBROADCASTD(Mem{Base: sums, Disp: 4 * t}, b)
		for part, v := range z {
			VPMADDWD(v, b, acc[t][part])
		}
	}
}

// zeros loads the codes that are zero, of rows from first on, or all if it is nil.
func (k *product) zeros(head, first Register, z []Register) {
	zeros := InHead(k.p, OffZeros, head, "centred")
	for part, v := range z {
		at := Mem{Base: zeros, Disp: part * k.Bytes() / 4}
		if first != nil {
			at.Index, at.Scale = first, 1
		}
		VPMOVZXBD(at, v)
	}
	JMP(LabelRef("offsets"))
	Label("centred")
	for _, v := range z {
		VPBROADCASTD(Mem{Base: k.p, Disp: OffMid}, v)
	}
	Label("offsets")
}

// finish adds the sums of a block to the results.
func (k *product) finish(acc accumulators, row, head, y Register) {
	k.finishFrom(nil, acc, row, head, y)
}

// finishFrom does that for the rows from first on, all if it is nil.
func (k *product) finishFrom(first Register, acc accumulators, row, head, y Register) {
	s := k.panelOf(len(acc[0]))
	Floats(k.p, "scales", head, first, 0, k.Bytes(), s)
	for t := range acc {
		for part, v := range acc[t] {
			VCVTDQ2PS(v, v)
			VMULPS(s[part], v, v)
		}
	}
	Floats(k.p, "biases", InHead(k.p, OffBiases, head, "nobias"), first, 0, k.Bytes(), s)
	sums := Row(k.p, OffSums, row)
	for t := range acc {
		sum := k.vec()
		v := sum // sixteen registers do not hold the sum and its product
		if k.Wide {
			v = k.vec()
		}
		for part := range acc[t] {
			if part == 0 || !k.Wide {
				VPBROADCASTD(Mem{Base: sums, Disp: 4 * t}, sum)
				VCVTDQ2PS(sum, sum)
			}
			VMULPS(s[part], sum, v)
			VSUBPS(v, acc[t][part], acc[t][part])
		}
	}
	Label("nobias")
	scales := Row(k.p, OffXScales, row)
	for t := range acc {
		x := k.vec()
		VBROADCASTSS(Mem{Base: scales, Disp: 4 * t}, x)
		for part, v := range acc[t] {
			at := Mem{Base: y, Disp: t*StepBytes + part*k.Bytes()}
			if first != nil {
				at.Index, at.Scale = first, 4
			}
			VMULPS(x, v, v)
			VADDPS(at, v, v)
			VMOVUPS(v, at)
		}
	}
}

// unpack8 turns 4-bit codes into 8-bit codes, unpackLevels into those that they stand for.
func unpack8(a ISA)      { unpack(a, "unpack8", "4-bit codes into 8-bit codes", false) }
func unpackLevels(a ISA) { unpack(a, "unpackLevels", "4-bit codes into levels", true) }

func unpack(a ISA, name, does string, levels bool) {
	TEXT(name+a.Name, NOSPLIT, "func(dst, src []byte)")
	Doc(name + a.Name + " turns " + does + "; " + name + " is the specification.")
	dst, src, n := Load(Param("dst").Base(), GP64()), Load(Param("src").Base(), GP64()), Load(Param("src").Len(), GP64())
	k := &product{ISA: a}
	mask := k.constant(0x0f0f0f0f)
	var table Register
	if levels {
		table = k.FillLevels()
	}
	TESTQ(n, n)
	JZ(LabelRef("done"))
	Label("loop")
	for part := range a.Parts() {
		lo, hi := k.vec(), k.vec()
		a.Move(Mem{Base: src, Disp: part * a.Bytes()}, hi)
		a.And(mask, hi, lo)
		VPSRLD(Imm(4), hi, hi)
		a.And(mask, hi, hi)
		if levels {
			VPSHUFB(lo, table, lo)
			VPSHUFB(hi, table, hi)
		}
		a.Move(lo, Mem{Base: dst, Disp: part * a.Bytes()})
		a.Move(hi, Mem{Base: dst, Disp: StepBytes + part*a.Bytes()})
	}
	ADDQ(U32(StepBytes), src)
	ADDQ(U32(2*StepBytes), dst)
	SUBQ(U32(StepBytes), n)
	JNZ(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}
