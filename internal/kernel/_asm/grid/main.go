// Command grid writes the assembly of the quantizers' loops.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "nibble/internal/kernel/asm/emit"
)

func main() {
	ConstraintExpr("!purego")
	gridErrorAVX2()
	gridErrorAVX512()
	for _, wide := range []bool{false, true} {
		encode("encode", wide, false)
		encode("encodeBF16", wide, true)
	}
	Generate()
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
	Each("w", 8, func() {
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
	Each("w", 16, func() {
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

// encode stores codes, computed in float32 or in bfloat16.
func encode(name string, wide, bf16 bool) {
	text, vector := name+"AVX2", func() VecVirtual { return YMM() }
	if wide {
		text, vector = name+"AVX512", func() VecVirtual { return ZMM() }
	}
	TEXT(text, NOSPLIT, "func(g [7]float32, w []float32, codes []uint8)")
	Doc(text + " stores the codes of a multiple of 16 elements; " + name + " is the specification.")
	g := broadcast(vector)
	w, codes := Load(Param("w").Base(), GP64()), Load(Param("codes").Base(), GP64())
	round := func(VecVirtual) {}
	if bf16 {
		round = roundBF16(vector)
	}
	x := [2]VecVirtual{vector(), vector()}
	store := func(e VecVirtual) {
		VCVTTPS2DQ(e, e)
		VPMOVDB(e, Mem{Base: codes})
	}
	parts := x[:1]
	if !wide {
		parts = x[:]
		store = func(VecVirtual) { storeBytes(x, codes) }
	}
	Each("w", 16, func() {
		for i, e := range parts {
			VMOVUPS(Mem{Base: w, Disp: 32 * i}, e)
			if !bf16 {
				VSUBPS(g[sub], e, e)
			}
			VDIVPS(g[scale], e, e)
			round(e)
			VADDPS(g[add], e, e)
			round(e)
			VMAXPS(g[lo], e, e)
			VMINPS(g[hi], e, e)
			if wide {
				VRNDSCALEPS(Imm(0), e, e)
			} else {
				VROUNDPS(Imm(0), e, e)
			}
			VSUBPS(g[lo], e, e)
		}
		store(x[0])
		ADDQ(Imm(64), w)
		ADDQ(Imm(16), codes)
	})
	VZEROUPPER()
	RET()
}

// storeBytes stores 16 float32 as bytes.
func storeBytes(x [2]VecVirtual, to Register) {
	for _, e := range x {
		VCVTTPS2DQ(e, e)
	}
	VPACKSSDW(x[1], x[0], x[0]) // of both: 0-3, then 4-7
	high := XMM()
	VEXTRACTI128(Imm(1), x[0], high)
	VPACKUSWB(high, x[0].AsX(), high)
	VPSHUFD(Imm(0xd8), high, high)
	VMOVDQU(high, Mem{Base: to})
}

// roundBF16 returns a function that rounds float32 to bfloat16 in place, NaN excepted.
func roundBF16(vector func() VecVirtual) func(VecVirtual) {
	r := GP32()
	constant := func(bits uint32) VecVirtual {
		v := vector()
		MOVL(U32(bits), r)
		VMOVD(r, v.AsX())
		VPBROADCASTD(v.AsX(), v)
		return v
	}
	half, one, upper, odd := constant(0x7fff), constant(1), constant(0xffff0000), vector()
	and := func(x, y, to Op) { VPAND(x, y, to) }
	if half.Size() == 64 {
		and = func(x, y, to Op) { VPANDD(x, y, to) }
	}
	return func(x VecVirtual) {
		VPSRLD(Imm(16), x, odd)
		and(one, odd, odd)
		VPADDD(half, odd, odd)
		VPADDD(odd, x, x)
		and(upper, x, x)
	}
}
