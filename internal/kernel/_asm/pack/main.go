// Command pack writes the assembly that arranges codes. internal/kernel/pack.go has the definitions.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "nibble/internal/kernel/asm/emit"
)

func main() {
	ConstraintExpr("!purego")
	joinNibbles()
	splitNibbles()
	weave()
	unweave()
	band()
	lows()
	high(1)
	high(2)
	Generate()
}

func base(param string) Register { return Load(Param(param).Base(), GP64()) }

// constant returns a register with bits in every dword.
func constant(bits uint32) VecVirtual {
	v, r := YMM(), GP32()
	MOVL(U32(bits), r)
	VMOVD(r, v.AsX())
	VPBROADCASTD(v.AsX(), v)
	return v
}

func joinNibbles() {
	TEXT("joinNibblesAVX2", NOSPLIT, "func(codes []uint8, dst []byte)")
	Doc("joinNibblesAVX2 packs a multiple of 64 codes; joinNibbles is the specification.")
	codes, dst := base("codes"), base("dst")
	factors, x, y := constant(0x10011001), YMM(), YMM() // 1 and 16 in turn
	Each("codes", 64, func() {
		VMOVDQU(Mem{Base: codes}, x)
		VMOVDQU(Mem{Base: codes, Disp: 32}, y)
		VPMADDUBSW(factors, x, x)
		VPMADDUBSW(factors, y, y)
		VPACKUSWB(y, x, x)
		VPERMQ(Imm(0xd8), x, x)
		VMOVDQU(x, Mem{Base: dst})
		ADDQ(Imm(64), codes)
		ADDQ(Imm(32), dst)
	})
	VZEROUPPER()
	RET()
}

func splitNibbles() {
	TEXT("splitNibblesAVX2", NOSPLIT, "func(codes []uint8, src []byte)")
	Doc("splitNibblesAVX2 unpacks a multiple of 64 codes; splitNibbles is the specification.")
	codes, src := base("codes"), base("src")
	mask, x, y, z := constant(0x0f0f0f0f), YMM(), YMM(), YMM()
	Each("codes", 64, func() {
		VPERMQ(Imm(0xd8), Mem{Base: src}, x)
		VPSRLW(Imm(4), x, y)
		VPAND(mask, x, x)
		VPAND(mask, y, y)
		VPUNPCKLBW(y, x, z)
		VPUNPCKHBW(y, x, x)
		VMOVDQU(z, Mem{Base: codes})
		VMOVDQU(x, Mem{Base: codes, Disp: 32})
		ADDQ(Imm(32), src)
		ADDQ(Imm(64), codes)
	})
	VZEROUPPER()
	RET()
}

// rowsOf returns the memory of eight rows, k bytes apart.
func rowsOf(first Register, k Register) [8]Mem {
	fourth, thrice := GP64(), GP64()
	LEAQ(Mem{Base: first, Index: k, Scale: 4}, fourth)
	LEAQ(Mem{Base: k, Index: k, Scale: 2}, thrice)
	var m [8]Mem
	for i, b := range []Register{first, fourth} {
		m[4*i] = Mem{Base: b}
		m[4*i+1] = Mem{Base: b, Index: k, Scale: 1}
		m[4*i+2] = Mem{Base: b, Index: k, Scale: 2}
		m[4*i+3] = Mem{Base: b, Index: thrice, Scale: 1}
	}
	return m
}

// columns runs body for every 32 columns of eight rows; body finds what it needs in m and w.
func columns(body func(m [8]Mem, w Register)) {
	w, codes, k, n := base("words"), base("codes"), Load(Param("k"), GP64()), GP64()
	m := rowsOf(codes, k)
	MOVQ(k, n)
	SHRQ(Imm(5), n)
	JZ(LabelRef("done"))
	Label("loop")
	body(m, w)
	ADDQ(Imm(32), codes)
	ADDQ(Imm(32), m[4].Base)
	ADDQ(Imm(128), w)
	DECQ(n)
	JNZ(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}

// pairs are the rows of the low and the high nibble of byte 0 to 3 of a word.
var pairs = [4][2]int{{0, 2}, {4, 6}, {1, 3}, {5, 7}}

func weave() {
	TEXT("weaveAVX2", NOSPLIT, "func(words []byte, codes []uint8, k int)")
	Doc("weaveAVX2 packs whole units of 32 columns; weave is the specification.")
	columns(func(m [8]Mem, w Register) {
		var b [4]VecVirtual
		high := YMM()
		for i, p := range pairs {
			b[i] = YMM()
			VMOVDQU(m[p[1]], high)
			VPSLLW(Imm(4), high, high)
			VPOR(m[p[0]], high, b[i])
		}
		var half [4]VecVirtual // bytes 0 and 1 of the words 0-7 and 16-23, of the others, then bytes 2 and 3
		for i := range half {
			half[i] = YMM()
		}
		for i := range 2 {
			VPUNPCKLBW(b[2*i+1], b[2*i], half[2*i])
			VPUNPCKHBW(b[2*i+1], b[2*i], half[2*i+1])
		}
		x := YMM()
		for i := range 4 {
			if i%2 == 0 {
				VPUNPCKLWD(half[i/2+2], half[i/2], x)
			} else {
				VPUNPCKHWD(half[i/2+2], half[i/2], x)
			}
			VMOVDQU(x.AsX(), Mem{Base: w, Disp: 16 * i})
			VEXTRACTI128(Imm(1), x, Mem{Base: w, Disp: 64 + 16*i})
		}
	})
}

func unweave() {
	TEXT("unweaveAVX2", NOSPLIT, "func(words []byte, codes []uint8, k int)")
	Doc("unweaveAVX2 unpacks whole units of 32 columns; unweave is the specification.")
	mask := constant(0x0f0f0f0f)
	gather := YMM() // byte 0 of four words, then byte 1, 2, 3
	order := GLOBL("unweaveOrder", RODATA|NOPTR)
	for i := range 16 {
		DATA(i, U8(i/4+i%4*4))
	}
	VBROADCASTI128(order, gather)
	columns(func(m [8]Mem, w Register) {
		var x [4]VecVirtual
		for i := range x {
			x[i] = YMM()
			VMOVDQU(Mem{Base: w, Disp: 16 * i}, x[i].AsX())
			VINSERTI128(Imm(1), Mem{Base: w, Disp: 64 + 16*i}, x[i], x[i])
			VPSHUFB(gather, x[i], x[i])
		}
		b := transpose4(x)
		high := YMM()
		for i, p := range pairs {
			VPSRLW(Imm(4), b[i], high)
			VPAND(mask, b[i], b[i])
			VPAND(mask, high, high)
			VMOVDQU(b[i], m[p[0]])
			VMOVDQU(high, m[p[1]])
		}
	})
}

// transpose4 transposes the dwords of both halves of four registers.
func transpose4(x [4]VecVirtual) (t [4]VecVirtual) {
	var u [4]VecVirtual
	for i := range u {
		t[i], u[i] = YMM(), YMM()
	}
	for i := range 2 {
		VPUNPCKLDQ(x[2*i+1], x[2*i], u[i])
		VPUNPCKHDQ(x[2*i+1], x[2*i], u[i+2])
	}
	for i := range 2 {
		VPUNPCKLQDQ(u[2*i+1], u[2*i], t[2*i])
		VPUNPCKHQDQ(u[2*i+1], u[2*i], t[2*i+1])
	}
	return t
}

func band() {
	TEXT("bandAVX2", NOSPLIT, "func(dst, src []byte, cols int, to, from int64)")
	Doc("bandAVX2 transposes 16 rows of a multiple of 8 columns; band is the specification.")
	dst, src := base("dst"), base("src")
	n, to, from := Load(Param("cols"), GP64()), Load(Param("to"), GP64()), Load(Param("from"), GP64())
	SHRQ(Imm(3), n)
	JZ(LabelRef("done"))
	below := GP64() // the rows 8 to 15
	LEAQ(Mem{Base: src, Index: from, Scale: 8}, below)
	upper, lower := rowsOf(src, from), rowsOf(below, from)
	columns := rowsOf(dst, to)
	at := func(m Mem, disp int) Mem {
		m.Disp += disp
		return m
	}
	x := [4]VecVirtual{YMM(), YMM(), YMM(), YMM()}
	Label("loop")
	for half := range 2 { // eight rows
		m := [2][8]Mem{upper, lower}[half]
		for four := range 2 { // columns of these
			for i := range x {
				VMOVDQU(at(m[i], 16*four), x[i].AsX())
				VINSERTI128(Imm(1), at(m[i+4], 16*four), x[i], x[i])
			}
			for i, v := range transpose4(x) {
				VMOVDQU(v, at(columns[4*four+i], 32*half))
			}
		}
	}
	for _, m := range [][8]Mem{upper, lower} {
		ADDQ(Imm(32), m[0].Base)
		ADDQ(Imm(32), m[4].Base)
	}
	LEAQ(Mem{Base: dst, Index: to, Scale: 8}, dst)
	LEAQ(Mem{Base: columns[4].Base, Index: to, Scale: 8}, columns[4].Base)
	DECQ(n)
	JNZ(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}
