package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "nibble/internal/kernel/asm/emit"
)

// quads takes the codes of parts of the rows of a group apart: f gets the codes of four columns after the other, of the part
// at place i. With top those of the second four of each eight columns are sixteenfold.
func (x *product) quads(data Register, parts []int, f func(quad, i int, w Register)) {
	at := 0
	var high []Register
	if x.high > 0 {
		for _, part := range parts {
			v := x.Vec()
			x.Move(Mem{Base: data, Disp: part * x.Bytes()}, v)
			high = append(high, v)
		}
		at = StepBytes
	}
	both := make([]Register, len(parts))
	for quad := range x.group / 4 {
		for i, part := range parts {
			w := x.Vec()
			switch {
			case quad%2 == 0:
				both[i] = x.Vec()
				x.Move(Mem{Base: data, Disp: at + quad/2*StepBytes + part*x.Bytes()}, both[i])
				x.And(x.nibble, both[i], w)
			case x.top != nil:
				x.And(x.top, both[i], w)
			default:
				VPSRLD(Imm(4), both[i], w)
				x.And(x.nibble, w, w)
			}
			if high != nil {
				x.addHigh(high[i], quad, w)
			}
			if x.table != nil {
				VPSHUFB(w, x.table, w)
			}
			f(quad, i, w)
		}
	}
}

// addHigh adds the high bits of four columns to their codes.
func (x *product) addHigh(high Register, quad int, w Register) {
	bits := high
	if by := 4 - quad*x.high; by != 0 {
		bits = x.Vec()
		if by > 0 {
			VPSLLD(Imm(uint64(by)), high, bits)
		} else {
			VPSRLD(Imm(uint64(-by)), high, bits)
		}
	}
	if x.Wide {
		VPTERNLOGD(Imm(0xf8), x.highs, bits, w) // w or bits and mask
		return
	}
	v := x.Vec()
	x.And(bits, x.highs, v)
	VPOR(v, w, w)
}

// unpack makes records of codes of 8 bits.
func unpack(a ISA, k kind) {
	name := k.name + "Unpack" + a.Name
	TEXT(name, NOSPLIT, "func(dst, src []byte)")
	Doc(name + " turns the codes of records into codes of 8 bits.")
	dst, src, n := Load(Param("dst").Base(), GP64()), Load(Param("src").Base(), GP64()), Load(Param("src").Len(), GP64())
	x := &product{ISA: a, kind: k, nibble: a.Fill(0x0f0f0f0f)}
	x.unpacker()
	TESTQ(n, n)
	JZ(LabelRef("done"))
	Label("loop")
	x.copy(dst, src, k.head())
	halves := GP64()
	MOVQ(U32(2), halves)
	Label("half")
	x.copy(dst, src, k.scales())
	groups := GP64()
	MOVQ(U32(uint32(block/k.group)), groups)
	Label("group")
	for part := range a.Parts() {
		x.quads(src, []int{part}, func(quad, _ int, w Register) {
			a.Move(w, Mem{Base: dst, Disp: quad*StepBytes + part*a.Bytes()})
		})
	}
	ADDQ(U32(uint32((k.half()-k.scales())/(block/k.group))), src)
	ADDQ(U32(uint32(k.group/4*StepBytes)), dst)
	DECQ(groups)
	JNZ(LabelRef("group"))
	DECQ(halves)
	JNZ(LabelRef("half"))
	SUBQ(U32(uint32(k.head()+2*k.half())), n)
	JNZ(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}

// copy copies bytes and moves on.
func (x *product) copy(dst, src Register, n int) {
	v := x.Vec()
	for i := 0; i < n; i += x.Bytes() {
		x.Move(Mem{Base: src, Disp: i}, v)
		x.Move(v, Mem{Base: dst, Disp: i})
	}
	ADDQ(U32(uint32(n)), src)
	ADDQ(U32(uint32(n)), dst)
}
