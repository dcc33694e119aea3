package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "nibble/internal/kernel/asm/emit"
)

// unpack turns codes of so many bits less mid into pairs.
func unpack(a ISA, bits int) {
	name := fmt.Sprintf("pairs%d%s", bits, a.Name)
	TEXT(name, NOSPLIT, "func(dst, src []byte, mid int64)")
	Doc(fmt.Sprintf("%s turns codes less mid into pairs; pairs%d is the specification.", name, bits))
	dst, src, n := Load(Param("dst").Base(), GP64()), Load(Param("src").Base(), GP64()), Load(Param("src").Len(), GP64())
	r := ymm
	if a.Wide {
		r = zmm
	}
	v, first, second, mid, mask, high := r[0], r[1], r[2], r[3], r[4], r[5]
	VPBROADCASTD(NewParamAddr("mid", 48), mid)
	fill(mask, 1<<bits-1)
	fill(high, 0xffff0000)
	shifts := []uint64{0, 8}
	if bits == 4 {
		shifts = []uint64{0, 8, 4, 12}
	}
	TESTQ(n, n)
	JZ(LabelRef("done"))
	Label("loop")
	for part := range a.Parts() {
		a.Move(Mem{Base: src, Disp: part * a.Bytes()}, v)
		for i, bit := range shifts {
			for at, to := range []VecPhysical{first, second} {
				if shift := bit + uint64(16*at); shift == 0 {
					a.And(mask, v, to)
				} else {
					VPSRLD(Imm(shift), v, to)
					a.And(mask, to, to)
				}
				VPSUBD(mid, to, to)
				VCVTDQ2PS(to, to)
			}
			VPSRLD(Imm(16), first, first)
			a.And(high, second, second)
			if a.Wide {
				VPORD(first, second, second)
			} else {
				VPOR(first, second, second)
			}
			a.Move(second, Mem{Base: dst, Disp: i*StepBytes + part*a.Bytes()})
		}
	}
	ADDQ(U32(StepBytes), src)
	ADDQ(U32(uint32(len(shifts)*StepBytes)), dst)
	SUBQ(U32(StepBytes), n)
	JNZ(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}

// unpackTable is unpack of 4 bits by a table of bfloat16, as direct4 has it.
func unpackTable(a ISA, numbers Mem) {
	name := "pairs4" + a.Name
	TEXT(name, NOSPLIT, "func(dst, src []byte, mid int64)")
	Doc(name + " turns codes less mid into pairs; pairs4 is the specification.")
	dst, src, n := Load(Param("dst").Base(), GP64()), Load(Param("src").Base(), GP64()), Load(Param("src").Len(), GP64())
	table := zmm[0]
	tableOf(table, zmm[1], zmm[2], NewParamAddr("mid", 48), numbers)
	TESTQ(n, n)
	JZ(LabelRef("done"))
	Label("loop")
	for part := range a.Parts() {
		v := zmm[1+part]
		a.Move(Mem{Base: src, Disp: part * a.Bytes()}, v)
		for i, bit := range []uint64{0, 8, 4, 12} {
			from, to := v, zmm[4+4*part+i]
			if bit > 0 {
				VPSRLD(Imm(bit), v, to)
				from = to
			}
			VPERMW(table, from, to)
			a.Move(to, Mem{Base: dst, Disp: i*StepBytes + part*a.Bytes()})
		}
	}
	ADDQ(U32(StepBytes), src)
	ADDQ(U32(4*StepBytes), dst)
	SUBQ(U32(StepBytes), n)
	JNZ(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}

// tableOf fills table, twice, with the bfloat16 of 0 to 15 less mid; VPERMW sees the lowest five of each 16 bits.
func tableOf(table, v, w VecPhysical, mid, numbers Mem) {
	VMOVDQU32(numbers, v)
	VPBROADCASTD(mid, w)
	VPSUBD(w, v, v)
	VCVTDQ2PS(v, v)
	VPSRLD(Imm(16), v, v)
	VPMOVDW(v, table.AsY())
	VINSERTI64X4(Imm(1), table.AsY(), table, table)
}

// numbers are 0 to 15.
func numbers() Mem {
	m := GLOBL("codes", RODATA|NOPTR)
	for i := range 16 {
		DATA(4*i, U32(i))
	}
	return m
}

// round rounds float32 to bfloat16 in the order of pairs and adds the results up in sixteen lanes.
func round(a ISA) {
	TEXT("roundPairs"+a.Name, NOSPLIT, "func(dst []byte, x []float32) [16]float32")
	Doc("roundPairs" + a.Name + " rounds values to bfloat16, a multiple of 16; roundPairs is the specification.")
	dst, x, n := Load(Param("dst").Base(), GP64()), Load(Param("x").Base(), GP64()), Load(Param("x").Len(), GP64())
	words := GLOBL("words", RODATA|NOPTR) // of each four the order 0, 2, 1, 3
	for i := range 4 {
		DATA(8*i, U64([]uint64{0x0706030205040100, 0x0f0e0b0a0d0c0908}[i%2]))
	}
	parts := 64 / a.Bytes()
	r := ymm
	if a.Wide {
		r = zmm
	}
	sums, values := r[:parts], r[parts:2*parts]
	r = r[2*parts:]
	odd, half, quiet, mask, order := r[0], r[1], r[2], r[3], r[4]
	for _, s := range sums {
		a.Zero(s)
	}
	fill(half, 0x7fff)
	fill(quiet, 0x400000)
	fill(mask, 1)
	VMOVDQU(words, order.AsY())
	TESTQ(n, n)
	JZ(LabelRef("done"))
	Label("loop")
	for i, v := range values {
		nan := r[5]
		a.Move(Mem{Base: x, Disp: i * a.Bytes()}, v)
		if a.Wide {
			VCMPPS(Imm(3), v, v, K1)
		} else {
			VCMPPS(Imm(3), v, v, nan)
		}
		VPSRLD(Imm(16), v, odd)
		a.And(mask, odd, odd)
		VPADDD(half, odd, odd)
		if a.Wide {
			VPADDD(v, odd, odd)
			VPORD(quiet, v, v)
			VMOVDQA32(v, K1, odd)
		} else {
			VPADDD(v, odd, odd)
			VPOR(quiet, v, v)
			VBLENDVPS(nan, v, odd, odd)
		}
		VPSRLD(Imm(16), odd, v)
		VPSLLD(Imm(16), v, odd)
		VADDPS(odd, sums[i], sums[i])
	}
	packed := values[0].AsY()
	if a.Wide {
		VPMOVDW(values[0], packed)
	} else {
		VPACKUSDW(values[1], values[0], packed)
		VPERMQ(Imm(0xd8), packed, packed)
	}
	VPSHUFB(order.AsY(), packed, packed)
	VMOVDQU(packed, Mem{Base: dst})
	ADDQ(Imm(64), x)
	ADDQ(Imm(32), dst)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("loop"))
	Label("done")
	for i, s := range sums {
		VMOVUPS(s, result(i*a.Bytes()))
	}
	VZEROUPPER()
	RET()
}

// result returns the address of the result at an offset.
func result(off int) Mem {
	if off == 0 {
		return NewParamAddr("ret", 48)
	}
	return NewParamAddr(fmt.Sprintf("ret_%d", off/4), 48+off)
}
