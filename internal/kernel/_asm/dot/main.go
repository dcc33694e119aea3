// Command dot writes the assembly of dot products.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "nibble/internal/kernel/asm/emit"
)

func main() {
	ConstraintExpr("!purego")
	dotAVX2()
	dotBF16AVX2()
	axpyAVX2()
	dotAVX512()
	dotBF16AVX512()
	axpyAVX512()
	Generate()
}

func dotAVX2() {
	TEXT("dotAVX2", NOSPLIT, "func(x, y []float32) [16]float32")
	Doc("dotAVX2 adds the products of all elements up in 16 lanes, a multiple of 16; dotLanes is the specification.")
	x, y := Load(Param("x").Base(), GP64()), Load(Param("y").Base(), GP64())
	lo, hi, p, q := YMM(), YMM(), YMM(), YMM()
	VXORPS(lo, lo, lo)
	VXORPS(hi, hi, hi)
	Each("x", 16, func() {
		VMOVUPS(Mem{Base: x}, p)
		VMOVUPS(Mem{Base: x, Disp: 32}, q)
		VMULPS(Mem{Base: y}, p, p)
		VMULPS(Mem{Base: y, Disp: 32}, q, q)
		VADDPS(p, lo, lo)
		VADDPS(q, hi, hi)
		ADDQ(Imm(64), x)
		ADDQ(Imm(64), y)
	})
	VMOVUPS(lo, NewParamAddr("ret", 48))
	VMOVUPS(hi, NewParamAddr("ret_8", 80))
	VZEROUPPER()
	RET()
}

func dotBF16AVX2() {
	TEXT("dotBF16AVX2", NOSPLIT, "func(w []byte, x []float32) [16]float32")
	Doc("dotBF16AVX2 is dotAVX2 for values that w holds in bfloat16; dotBF16Lanes is the specification.")
	w, x := Load(Param("w").Base(), GP64()), Load(Param("x").Base(), GP64())
	lo, hi, p, q := YMM(), YMM(), YMM(), YMM()
	VXORPS(lo, lo, lo)
	VXORPS(hi, hi, hi)
	Each("x", 16, func() {
		VPMOVZXWD(Mem{Base: w}, p)
		VPMOVZXWD(Mem{Base: w, Disp: 16}, q)
		VPSLLD(Imm(16), p, p)
		VPSLLD(Imm(16), q, q)
		VMULPS(Mem{Base: x}, p, p)
		VMULPS(Mem{Base: x, Disp: 32}, q, q)
		VADDPS(p, lo, lo)
		VADDPS(q, hi, hi)
		ADDQ(Imm(32), w)
		ADDQ(Imm(64), x)
	})
	VMOVUPS(lo, NewParamAddr("ret", 48))
	VMOVUPS(hi, NewParamAddr("ret_8", 80))
	VZEROUPPER()
	RET()
}

func axpyAVX2() {
	TEXT("axpyAVX2", NOSPLIT, "func(y []float32, a float32, x []float32)")
	Doc("axpyAVX2 adds a times x to y, a multiple of 16; axpy is the specification.")
	y, x := Load(Param("y").Base(), GP64()), Load(Param("x").Base(), GP64())
	a, p, q := YMM(), YMM(), YMM()
	VBROADCASTSS(NewParamAddr("a", 24), a)
	Each("x", 16, func() {
		VMULPS(Mem{Base: x}, a, p)
		VMULPS(Mem{Base: x, Disp: 32}, a, q)
		VADDPS(Mem{Base: y}, p, p)
		VADDPS(Mem{Base: y, Disp: 32}, q, q)
		VMOVUPS(p, Mem{Base: y})
		VMOVUPS(q, Mem{Base: y, Disp: 32})
		ADDQ(Imm(64), x)
		ADDQ(Imm(64), y)
	})
	VZEROUPPER()
	RET()
}

func dotAVX512() {
	TEXT("dotAVX512", NOSPLIT, "func(x, y []float32) float32")
	Doc("dotAVX512 adds up the products of all elements; dot is the specification.")
	x, y := Load(Param("x").Base(), GP64()), Load(Param("y").Base(), GP64())
	dotLanes512(func(tail Op, to VecVirtual) {
		if tail == nil {
			VMOVUPS(Mem{Base: x}, to)
			VMULPS(Mem{Base: y}, to, to)
			ADDQ(Imm(64), x)
			ADDQ(Imm(64), y)
			return
		}
		other := ZMM()
		VMOVUPS_Z(Mem{Base: x}, tail, to)
		VMOVUPS_Z(Mem{Base: y}, tail, other)
		VMULPS(other, to, to)
	})
}

func dotBF16AVX512() {
	TEXT("dotBF16AVX512", NOSPLIT, "func(w []byte, x []float32) float32")
	Doc("dotBF16AVX512 is dotAVX512 for values that w holds in bfloat16; dotBF16 is the specification.")
	w, x := Load(Param("w").Base(), GP64()), Load(Param("x").Base(), GP64())
	dotLanes512(func(tail Op, to VecVirtual) {
		if tail == nil {
			VPMOVZXWD(Mem{Base: w}, to)
			VPSLLD(Imm(16), to, to)
			VMULPS(Mem{Base: x}, to, to)
			ADDQ(Imm(32), w)
			ADDQ(Imm(64), x)
			return
		}
		other := ZMM()
		VPMOVZXWD_Z(Mem{Base: w}, tail, to)
		VPSLLD(Imm(16), to, to)
		VMOVUPS_Z(Mem{Base: x}, tail, other)
		VMULPS(other, to, to)
	})
}

// dotLanes512 adds up 16 lanes of products and folds them. product loads the next 16, or with a mask what is left.
func dotLanes512(product func(tail Op, to VecVirtual)) {
	n := Load(Param("x").Len(), GP64())
	sum, p := ZMM(), ZMM()
	VXORPS(sum.AsY(), sum.AsY(), sum.AsY())
	rest := GP64()
	MOVQ(n, rest)
	ANDQ(Imm(15), rest)
	SHRQ(Imm(4), n)
	JZ(LabelRef("tail"))
	Label("loop")
	product(nil, p)
	VADDPS(p, sum, sum)
	DECQ(n)
	JNZ(LabelRef("loop"))
	Label("tail")
	TESTQ(rest, rest)
	JZ(LabelRef("fold"))
	Comment("A lane behind the end gets a product of zeros.")
	bits, mask := GP64(), K()
	MOVQ(U64(0xffff), bits)
	SHLXQ(rest, bits, bits)
	NOTQ(bits)
	KMOVW(bits.As32(), mask)
	product(mask, p)
	VADDPS(p, sum, sum)
	Label("fold")
	y, x := YMM(), XMM()
	VEXTRACTF64X4(Imm(1), sum, y)
	VADDPS(y, sum.AsY(), y)
	VEXTRACTF128(Imm(1), y, x)
	VADDPS(x, y.AsX(), x)
	next := XMM()
	VPERMILPS(Imm(0x4e), x, next)
	VADDPS(next, x, x)
	VPERMILPS(Imm(0xb1), x, next)
	VADDSS(next, x, x)
	Store(x, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

func axpyAVX512() {
	TEXT("axpyAVX512", NOSPLIT, "func(y []float32, a float32, x []float32)")
	Doc("axpyAVX512 adds a times x to y, a multiple of 16; axpy is the specification.")
	y, x := Load(Param("y").Base(), GP64()), Load(Param("x").Base(), GP64())
	a, p := ZMM(), ZMM()
	VBROADCASTSS(NewParamAddr("a", 24), a)
	Each("x", 16, func() {
		VMULPS(Mem{Base: x}, a, p)
		VADDPS(Mem{Base: y}, p, p)
		VMOVUPS(p, Mem{Base: y})
		ADDQ(Imm(64), x)
		ADDQ(Imm(64), y)
	})
	VZEROUPPER()
	RET()
}
