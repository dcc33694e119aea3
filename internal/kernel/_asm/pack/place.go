package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// eights runs body for every eight rows of codes, whose places are in m, and for dst, which is 32 bytes further each time.
func eights(body func(m [8]Mem, dst Register)) {
	dst, codes := base("dst"), base("codes")
	from, rows := Load(Param("from"), GP64()), Load(Param("rows"), GP64())
	SHRQ(Imm(3), rows)
	JZ(LabelRef("done"))
	Label("eight")
	to, first := GP64(), GP64()
	MOVQ(dst, to)
	MOVQ(codes, first)
	body(rowsOf(first, from), to)
	ADDQ(Imm(32), dst)
	LEAQ(Mem{Base: codes, Index: from, Scale: 8}, codes)
	DECQ(rows)
	JNZ(LabelRef("eight"))
	Label("done")
	VZEROUPPER()
	RET()
}

// halves loads 16 codes of each of eight rows: those of row i into the low half of register i%4, those of row i+4 into the high one.
func halves(m [8]Mem) (x [4]VecVirtual) {
	for i := range x {
		x[i] = YMM()
		VMOVDQU(m[i], x[i].AsX())
		VINSERTI128(Imm(1), m[i+4], x[i], x[i])
	}
	return x
}

func lows() {
	TEXT("lowsAVX2", NOSPLIT, "func(dst []byte, codes []uint8, rows, cols int, from int64)")
	Doc("lowsAVX2 packs a multiple of 8 rows by a multiple of 16 columns; lows is the specification.")
	mask := constant(0x0f0f0f0f)
	eights(func(m [8]Mem, dst Register) {
		n := Load(Param("cols"), GP64())
		SHRQ(Imm(4), n)
		JZ(LabelRef("none"))
		Label("step")
		x := halves(m)
		for _, v := range x { // dwords 0 and 2 of a half have the bytes of a step
			high := YMM()
			VPAND(mask, v, v)
			VPSRLQ(Imm(28), v, high)
			VPOR(high, v, v)
		}
		for i := 0; i < 4; i += 2 {
			VSHUFPS(Imm(0x88), x[i+1], x[i], x[i])
		}
		VSHUFPS(Imm(0x88), x[2], x[0], x[1])
		VSHUFPS(Imm(0xdd), x[2], x[0], x[3])
		VMOVDQU(x[1], Mem{Base: dst})
		VMOVDQU(x[3], Mem{Base: dst, Disp: 128})
		ADDQ(Imm(16), m[0].Base)
		ADDQ(Imm(16), m[4].Base)
		ADDQ(U32(256), dst)
		DECQ(n)
		JNZ(LabelRef("step"))
		Label("none")
	})
}

// high writes what packs so many bits above the low four.
func high(bits int) {
	name := fmt.Sprintf("high%d", bits)
	TEXT(name+"AVX2", NOSPLIT, "func(dst []byte, codes []uint8, rows int, from int64)")
	Doc(name + "AVX2 packs high bits of a multiple of 8 rows; " + name + " is the specification.")
	mask, by := constant(0x10101010*(1<<bits-1)), YMM()
	t := GLOBL(name+"Shifts", RODATA|NOPTR) // dword i goes bits·i to the left
	for i := range 8 {
		DATA(4*i, U32(uint32(bits*i%8)))
	}
	VMOVDQU(t, by)
	or := func(x, y VecVirtual, lo, hi func(x, y, to VecVirtual)) VecVirtual {
		a, b := YMM(), YMM()
		lo(x, y, a)
		hi(x, y, b)
		VPOR(b, a, a)
		return a
	}
	dwords := func(x, y VecVirtual) VecVirtual {
		return or(x, y, func(x, y, to VecVirtual) { VPUNPCKLDQ(y, x, to) }, func(x, y, to VecVirtual) { VPUNPCKHDQ(y, x, to) })
	}
	pairs := func(x, y VecVirtual) VecVirtual {
		return or(x, y, func(x, y, to VecVirtual) { VPUNPCKLQDQ(y, x, to) }, func(x, y, to VecVirtual) { VPUNPCKHQDQ(y, x, to) })
	}
	// moved takes the bits of every dword to their places: bytes stay apart, as they are taken down first.
	moved := func(v VecVirtual) VecVirtual {
		VPAND(mask, v, v)
		VPSRLD(Imm(4), v, v)
		VPSLLVD(by, v, v)
		return v
	}
	eights(func(m [8]Mem, dst Register) {
		if bits == 2 {
			var x [4]VecVirtual
			for i, v := range halves(m) {
				x[i] = moved(v)
			}
			VMOVDQU(pairs(dwords(x[0], x[1]), dwords(x[2], x[3])), Mem{Base: dst})
			return
		}
		var four [2]VecVirtual
		for i := range four {
			var x [4]VecVirtual
			for j := range x {
				x[j] = YMM()
				VMOVDQU(m[4*i+j], x[j])
				x[j] = moved(x[j])
			}
			four[i] = pairs(dwords(x[0], x[1]), dwords(x[2], x[3]))
		}
		half := func(order uint64) func(x, y, to VecVirtual) {
			return func(x, y, to VecVirtual) { VPERM2I128(Imm(order), y, x, to) }
		}
		VMOVDQU(or(four[0], four[1], half(0x20), half(0x31)), Mem{Base: dst})
	})
}
