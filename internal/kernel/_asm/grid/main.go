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
	for _, wide := range []bool{false, true} {
		gridErrors("gridError", wide, true)
		gridErrors("plainError", wide, false)
		encode("encode", wide, false)
		encode("encodeBF16", wide, true)
		span(wide)
		survey(wide)
		codeSums(wide)
		fill(wide)
		sieve(wide)
		above(wide)
	}
	coarse("coarse", false)
	coarse("shifted", true)
	split()
	runs()
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

// gridError leaves in e what the grid makes of x less x.
func gridError(g [fields]VecVirtual, x, e VecVirtual, wide bool) {
	VSUBPS(g[sub], x, e)
	VDIVPS(g[scale], e, e)
	VADDPS(g[add], e, e)
	VMAXPS(g[lo], e, e)
	VMINPS(g[hi], e, e)
	round(wide, e)
	VSUBPS(g[off], e, e)
	VMULPS(g[scale], e, e)
	VADDPS(g[bias], e, e)
	VSUBPS(x, e, e)
}

// gridErrors writes a function that adds squared errors up in eight lanes: with weights it returns them, each square times an
// element of d, and without their sum.
func gridErrors(name string, wide, weighted bool) {
	text, vector := registers(name, wide)
	signature, what := "func(g [7]float32, w []float32) float64", "the sum"
	if weighted {
		signature, what = "func(g [7]float32, w, d []float32) [8]float64", "eight lanes"
	}
	TEXT(text, NOSPLIT, signature)
	Doc(text + " returns " + what + " of squared errors, of a multiple of 16 elements; " + name + " is the specification.")
	g := broadcast(vector)
	w := Load(Param("w").Base(), GP64())
	var d Register
	if weighted {
		d = Load(Param("d").Base(), GP64())
	}
	sums := []VecVirtual{vector()}
	per, lanes := 16, 8 // elements in a step, float64 in a register
	if !wide {
		sums, per, lanes = append(sums, vector()), 8, 4
	}
	for _, s := range sums {
		VXORPD(s.AsY(), s.AsY(), s.AsY())
	}
	x, e, square, weight := vector(), vector(), vector(), vector()
	Each("w", per, func() {
		VMOVUPS(Mem{Base: w}, x)
		gridError(g, x, e, wide)
		for i := range 2 {
			widen(wide, i, e, square)
			s := sums[i%len(sums)]
			VMULPD(square, square, square)
			if weighted {
				VCVTPS2PD(Mem{Base: d, Disp: 4 * lanes * i}, weight)
				VMULPD(weight, square, square)
			}
			VADDPD(square, s, s)
		}
		ADDQ(Imm(uint64(4*per)), w)
		if weighted {
			ADDQ(Imm(uint64(4*per)), d)
		}
	})
	if weighted {
		for i, s := range sums {
			VMOVUPS(s, NewParamAddr(fmt.Sprintf("ret_%d", lanes*i), 80+8*lanes*i))
		}
	} else {
		fold(sums)
	}
	VZEROUPPER()
	RET()
}

// fold adds up eight lanes of float64, l and l+4, l+2, l+1, and returns the sum.
func fold(sums []VecVirtual) {
	s, high, x := sums[0], YMM(), XMM()
	if len(sums) == 1 {
		VEXTRACTF64X4(Imm(1), s, high)
	} else {
		high = sums[1]
	}
	VADDPD(high, s.AsY(), s.AsY())
	VEXTRACTF128(Imm(1), s.AsY(), x)
	VADDPD(x, s.AsX(), s.AsX())
	VPERMILPD(Imm(1), s.AsX(), x)
	VADDSD(x, s.AsX(), s.AsX())
	Store(s.AsX(), ReturnIndex(0))
}

// widen turns one half of the float32 of a register into float64.
func widen(wide bool, half int, from, to VecVirtual) {
	switch {
	case wide && half == 0:
		VCVTPS2PD(from.AsY(), to)
	case wide:
		y := YMM()
		VEXTRACTF64X4(Imm(1), from, y)
		VCVTPS2PD(y, to)
	case half == 0:
		VCVTPS2PD(from.AsX(), to)
	default:
		x := XMM()
		VEXTRACTF128(Imm(1), from, x)
		VCVTPS2PD(x, to)
	}
}

// encode stores codes, computed in float32 or in bfloat16.
func encode(name string, wide, bf16 bool) {
	text, vector := registers(name, wide)
	TEXT(text, NOSPLIT, "func(g [7]float32, w []float32, codes []uint8)")
	Doc(text + " stores the codes of a multiple of 16 elements; " + name + " is the specification.")
	g := broadcast(vector)
	w, codes := Load(Param("w").Base(), GP64()), Load(Param("codes").Base(), GP64())
	half := func(VecVirtual) {}
	if bf16 {
		half = roundBF16(vector)
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
			half(e)
			VADDPS(g[add], e, e)
			half(e)
			VMAXPS(g[lo], e, e)
			VMINPS(g[hi], e, e)
			round(wide, e)
			VSUBPS(g[lo], e, e)
		}
		store(x[0])
		ADDQ(Imm(64), w)
		ADDQ(Imm(16), codes)
	})
	VZEROUPPER()
	RET()
}

// runs is eight at a time in both sets, as runs are short.
func runs() {
	TEXT("encodeRunsAVX2", NOSPLIT, "func(codes []uint8, w []float32, size int, scales, subs []float32, lowest, highest float32)")
	Doc("encodeRunsAVX2 stores the codes of runs of a multiple of 16 elements; encodeRuns is the specification.")
	codes, w := Load(Param("codes").Base(), GP64()), Load(Param("w").Base(), GP64())
	scales, subs := Load(Param("scales").Base(), GP64()), Load(Param("subs").Base(), GP64())
	least, most, zero, endless := YMM(), YMM(), YMM(), YMM()
	VBROADCASTSS(NewParamAddr("lowest", 104), least)
	VBROADCASTSS(NewParamAddr("highest", 108), most)
	VXORPS(zero, zero, zero)
	bits, low := GP32(), XMM()
	MOVL(U32(0x7f800000), bits)
	VMOVD(bits, low)
	VBROADCASTSS(low, endless)
	Each("scales", 1, func() {
		step, floor, none, left := YMM(), YMM(), YMM(), Load(Param("size"), GP64())
		VBROADCASTSS(Mem{Base: scales}, step)
		VBROADCASTSS(Mem{Base: subs}, floor)
		VCMPPS(Imm(0), zero, step, none)
		VBLENDVPS(none, endless, step, step)
		Label("sixteen")
		x := [2]VecVirtual{YMM(), YMM()}
		for i, e := range x {
			VMOVUPS(Mem{Base: w, Disp: 32 * i}, e)
			VSUBPS(floor, e, e)
			VANDNPS(e, none, e)
			VDIVPS(step, e, e)
			VMAXPS(least, e, e)
			VMINPS(most, e, e)
			round(false, e)
			VSUBPS(least, e, e)
		}
		storeBytes(x, codes)
		ADDQ(Imm(64), w)
		ADDQ(Imm(16), codes)
		SUBQ(Imm(16), left)
		JNZ(LabelRef("sixteen"))
		ADDQ(Imm(4), scales)
		ADDQ(Imm(4), subs)
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
	half, one, upper, odd := constant(vector, 0x7fff), constant(vector, 1), constant(vector, 0xffff0000), vector()
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
