// Command lines writes the assembly of what the searches of blocks of codes do over and over.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// one and integral, 3·2⁵¹, in bits.
const (
	one      = 0x3ff0000000000000
	integral = 0x4338000000000000
)

func main() {
	ConstraintExpr("!purego")
	sums("AVX2", 4, func() VecVirtual { return YMM() })
	sums("AVX512", 8, func() VecVirtual { return ZMM() })
	Generate()
}

// sums writes the sums of eight encodings, lanes of them at a time.
func sums(set string, lanes int, vector func() VecVirtual) {
	TEXT("sumLines"+set, NOSPLIT, "func(x, w, c, cw []float64, lo, hi float64)")
	Doc("sumLines" + set + " fills the sums of x; sumLines is the specification.")
	x := Load(Param("x").Base(), GP64())
	lo, hi, round := vector(), vector(), vector()
	for _, p := range []struct {
		name string
		to   VecVirtual
	}{{"lo", lo}, {"hi", hi}} {
		a, err := Param(p.name).Resolve()
		if err != nil {
			panic(err) // a mistake in this file
		}
		VBROADCASTSD(a.Addr, p.to)
	}
	constant := func(v uint64, to VecVirtual) {
		bits, low := GP64(), XMM()
		MOVQ(U64(v), bits)
		VMOVQ(bits, low)
		VBROADCASTSD(low, to)
	}
	constant(integral, round)
	for at := 0; at < 8; at += lanes {
		w, c, cw, n := Load(Param("w").Base(), GP64()), Load(Param("c").Base(), GP64()), Load(Param("cw").Base(), GP64()), Load(Param("w").Len(), GP64())
		field := func(i int) Mem { return Mem{Base: x, Disp: 64*i + 8*at} } // scales, floors, Q, QQ, QW
		inverse, floor := vector(), vector()
		constant(one, inverse)
		VDIVPD(field(0), inverse, inverse)
		VMOVUPD(field(1), floor)
		var sum []VecVirtual
		for range 3 {
			v := vector()
			if lanes == 8 {
				VPXORQ(v, v, v)
			} else {
				VXORPD(v, v, v)
			}
			sum = append(sum, v)
		}
		loop, done := "loop"+string(rune('0'+at)), "done"+string(rune('0'+at))
		TESTQ(n, n)
		JZ(LabelRef(done))
		Label(loop)
		q, a := vector(), vector()
		VBROADCASTSD(Mem{Base: w}, q)
		VADDPD(floor, q, q)
		VMULPD(inverse, q, q)
		VMAXPD(q, lo, q) // of a NaN, and of equals, q
		VMINPD(q, hi, q)
		VADDPD(round, q, q)
		VSUBPD(round, q, q)
		VBROADCASTSD(Mem{Base: c}, a)
		VMULPD(q, a, a)
		VADDPD(a, sum[0], sum[0])
		VMULPD(q, a, a)
		VADDPD(a, sum[1], sum[1])
		VBROADCASTSD(Mem{Base: cw}, a)
		VMULPD(q, a, a)
		VADDPD(a, sum[2], sum[2])
		for _, p := range []Register{w, c, cw} {
			ADDQ(Imm(8), p)
		}
		DECQ(n)
		JNZ(LabelRef(loop))
		Label(done)
		for i, v := range sum {
			VMOVUPD(v, field(2+i))
		}
	}
	VZEROUPPER()
	RET()
}
