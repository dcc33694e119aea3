// Command asm writes the assembly of package kernel. It is a module of its own, so that users of nibble never see what it
// needs; go generate in internal/kernel runs it.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("!purego")
	dotAVX2()
	dotBF16AVX2()
	axpyAVX2()
	dotInt8AVX2()
	dotAVX512()
	dotBF16AVX512()
	axpyAVX512()
	dotInt8AVX512()
	dotInt8VNNI()
	gridErrorAVX2()
	gridErrorAVX512()
	Generate()
}

// each runs body for every so many elements of a slice; body advances the pointers.
func each(slice string, per int, body func()) {
	n := Load(Param(slice).Len(), GP64())
	TESTQ(n, n)
	JZ(LabelRef("done"))
	Label("loop")
	body()
	SUBQ(Imm(uint64(per)), n)
	JNZ(LabelRef("loop"))
	Label("done")
}

func dotAVX2() {
	TEXT("dotAVX2", NOSPLIT, "func(x, y []float32) [16]float32")
	Doc("dotAVX2 adds the products of all elements up in 16 lanes, a multiple of 16; dotLanes is the specification.")
	x, y := Load(Param("x").Base(), GP64()), Load(Param("y").Base(), GP64())
	lo, hi, p, q := YMM(), YMM(), YMM(), YMM()
	VXORPS(lo, lo, lo)
	VXORPS(hi, hi, hi)
	each("x", 16, func() {
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
	each("x", 16, func() {
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
	each("x", 16, func() {
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

func dotInt8AVX2() {
	TEXT("dotInt8AVX2", NOSPLIT, "func(w, x []int8) int32")
	Doc("dotInt8AVX2 adds up the products of all elements, a multiple of 64; dotInt8 is the specification.")
	w, x := Load(Param("w").Base(), GP64()), Load(Param("x").Base(), GP64())
	sum, a, b := YMM(), YMM(), YMM()
	VPXOR(sum, sum, sum)
	each("x", 64, func() {
		for off := 0; off < 64; off += 16 {
			VPMOVSXBW(Mem{Base: w, Disp: off}, a)
			VPMOVSXBW(Mem{Base: x, Disp: off}, b)
			VPMADDWD(a, b, a)
			VPADDD(a, sum, sum)
		}
		ADDQ(Imm(64), w)
		ADDQ(Imm(64), x)
	})
	storeSum(sum)
}

// storeSum returns the sum of the eight integers of a register.
func storeSum(sum VecVirtual) {
	lo, hi := sum.AsX(), XMM()
	VEXTRACTI128(Imm(1), sum, hi)
	VPADDD(hi, lo, lo)
	VPSHUFD(Imm(0x4e), lo, hi)
	VPADDD(hi, lo, lo)
	VPSHUFD(Imm(0xb1), lo, hi)
	VPADDD(hi, lo, lo)
	r := GP32()
	VMOVD(lo, r)
	Store(r, ReturnIndex(0))
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
	each("x", 16, func() {
		VMULPS(Mem{Base: x}, a, p)
		VADDPS(Mem{Base: y}, p, p)
		VMOVUPS(p, Mem{Base: y})
		ADDQ(Imm(64), x)
		ADDQ(Imm(64), y)
	})
	VZEROUPPER()
	RET()
}

func dotInt8AVX512() {
	TEXT("dotInt8AVX512", NOSPLIT, "func(w, x []int8) int32")
	Doc("dotInt8AVX512 adds up the products of all elements, a multiple of 64; dotInt8 is the specification.")
	w, x := Load(Param("w").Base(), GP64()), Load(Param("x").Base(), GP64())
	sum, a, b := ZMM(), ZMM(), ZMM()
	VPXORD(sum, sum, sum)
	each("x", 64, func() {
		for off := 0; off < 64; off += 32 {
			VPMOVSXBW(Mem{Base: w, Disp: off}, a)
			VPMOVSXBW(Mem{Base: x, Disp: off}, b)
			VPMADDWD(a, b, a)
			VPADDD(a, sum, sum)
		}
		ADDQ(Imm(64), w)
		ADDQ(Imm(64), x)
	})
	half := YMM()
	VEXTRACTI64X4(Imm(1), sum, half)
	VPADDD(half, sum.AsY(), half)
	storeSum(half)
}

// dotInt8VNNI makes x unsigned by adding 128, which VPDPBUSD wants, and takes 128·Σw off again.
func dotInt8VNNI() {
	TEXT("dotInt8VNNI", NOSPLIT, "func(w, x []int8) int32")
	Doc("dotInt8VNNI adds up the products of all elements, a multiple of 64; dotInt8 is the specification.")
	w, x := Load(Param("w").Base(), GP64()), Load(Param("x").Base(), GP64())
	sum, off, a, b, flip := ZMM(), ZMM(), ZMM(), ZMM(), ZMM()
	VPXORD(sum, sum, sum)
	VPXORD(off, off, off)
	c := GP32()
	MOVL(U32(0x80808080), c)
	VPBROADCASTD(c, flip)
	each("x", 64, func() {
		VMOVDQU32(Mem{Base: w}, a)
		VPXORD(Mem{Base: x}, flip, b)
		VPDPBUSD(a, b, sum)
		VPDPBUSD(a, flip, off)
		ADDQ(Imm(64), w)
		ADDQ(Imm(64), x)
	})
	VPSUBD(off, sum, sum)
	half := YMM()
	VEXTRACTI64X4(Imm(1), sum, half)
	VPADDD(half, sum.AsY(), half)
	storeSum(half)
}

// fields of a grid, in the order in which they are passed.
const (
	scale = iota
	sub
	add
	lo
	hi
	off
	bias
	fields
)

// broadcast loads the fields of a Grid that is the first parameter.
func broadcast(vector func() VecVirtual) (g [fields]VecVirtual) {
	for i := range g {
		g[i] = vector()
		VBROADCASTSS(NewParamAddr(fmt.Sprintf("g_%d", i), 4*i), g[i])
	}
	return g
}

// gridErrors leaves in e what the grid makes of x less x.
func gridErrors(g [fields]VecVirtual, x, e VecVirtual, round func()) {
	VSUBPS(g[sub], x, e)
	VDIVPS(g[scale], e, e)
	VADDPS(g[add], e, e)
	VMAXPS(g[lo], e, e)
	VMINPS(g[hi], e, e)
	round()
	VSUBPS(g[off], e, e)
	VMULPS(g[scale], e, e)
	VADDPS(g[bias], e, e)
	VSUBPS(x, e, e)
}

const gridSignature = "func(g [7]float32, w, d []float32) [8]float64"

func gridErrorAVX2() {
	TEXT("gridErrorAVX2", NOSPLIT, gridSignature)
	Doc("gridErrorAVX2 returns eight lanes of squared errors, of a multiple of 16 elements; gridError is the specification.")
	g := broadcast(func() VecVirtual { return YMM() })
	w, d := Load(Param("w").Base(), GP64()), Load(Param("d").Base(), GP64())
	sums := [2]VecVirtual{YMM(), YMM()}
	for _, s := range sums {
		VXORPD(s, s, s)
	}
	x, e := YMM(), YMM()
	wide, weight := YMM(), YMM()
	each("w", 8, func() {
		VMOVUPS(Mem{Base: w}, x)
		gridErrors(g, x, e, func() { VROUNDPS(Imm(0), e, e) })
		for i, s := range sums {
			half := e.AsX()
			if i == 1 {
				half = XMM()
				VEXTRACTF128(Imm(1), e, half)
			}
			VCVTPS2PD(half, wide)
			VMULPD(wide, wide, wide)
			VCVTPS2PD(Mem{Base: d, Disp: 16 * i}, weight)
			VMULPD(weight, wide, wide)
			VADDPD(wide, s, s)
		}
		ADDQ(Imm(32), w)
		ADDQ(Imm(32), d)
	})
	VMOVUPS(sums[0], NewParamAddr("ret", 80))
	VMOVUPS(sums[1], NewParamAddr("ret_4", 112))
	VZEROUPPER()
	RET()
}

func gridErrorAVX512() {
	TEXT("gridErrorAVX512", NOSPLIT, gridSignature)
	Doc("gridErrorAVX512 returns eight lanes of squared errors, of a multiple of 16 elements; gridError is the specification.")
	g := broadcast(func() VecVirtual { return ZMM() })
	w, d := Load(Param("w").Base(), GP64()), Load(Param("d").Base(), GP64())
	sum, x, e, wide, weight := ZMM(), ZMM(), ZMM(), ZMM(), ZMM()
	VXORPD(sum.AsY(), sum.AsY(), sum.AsY())
	each("w", 16, func() {
		VMOVUPS(Mem{Base: w}, x)
		gridErrors(g, x, e, func() { VRNDSCALEPS(Imm(0), e, e) })
		for i := range 2 {
			half := e.AsY()
			if i == 1 {
				half = YMM()
				VEXTRACTF64X4(Imm(1), e, half)
			}
			VCVTPS2PD(half, wide)
			VMULPD(wide, wide, wide)
			VCVTPS2PD(Mem{Base: d, Disp: 32 * i}, weight)
			VMULPD(weight, wide, wide)
			VADDPD(wide, sum, sum)
		}
		ADDQ(Imm(64), w)
		ADDQ(Imm(64), d)
	})
	VMOVUPS(sum, NewParamAddr("ret", 80))
	VZEROUPPER()
	RET()
}
