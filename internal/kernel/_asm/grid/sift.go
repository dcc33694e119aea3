package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "nibble/internal/kernel/asm/emit"
)

// registers returns the name of a function in one of the two sets and its vectors.
func registers(name string, wide bool) (string, func() VecVirtual) {
	if wide {
		return name + "AVX512", func() VecVirtual { return ZMM() }
	}
	return name + "AVX2", func() VecVirtual { return YMM() }
}

func round(wide bool, v VecVirtual) {
	if wide {
		VRNDSCALEPS(Imm(0), v, v)
	} else {
		VROUNDPS(Imm(0), v, v)
	}
}

// coarse has a candidate in every lane.
func coarse(name string, wide, shift bool) {
	text, vector := registers(name, wide)
	names := []string{"sums", "inverse", "lo", "hi"}
	if shift {
		names = append(names, "sub")
	}
	TEXT(text, NOSPLIT, "func("+strings.Join(names, ", ")+", w []float32)")
	Doc(text + " measures a multiple of 16 candidates; " + name + " is the specification.")
	var at []Register
	for _, name := range names {
		at = append(at, Load(Param(name).Base(), GP64()))
	}
	first, count := Load(Param("w").Base(), GP64()), Load(Param("w").Len(), GP64())
	n := 1
	if !wide {
		n = 2
	}
	var v [2][5]VecVirtual // sum, inverse, lo, hi, sub
	var y, e [2]VecVirtual
	for i := range n {
		y[i], e[i] = vector(), vector()
		for f := range names {
			v[i][f] = vector()
		}
	}
	x, w, left := vector(), GP64(), GP64()
	weight := func(disp int) {
		VBROADCASTSS(Mem{Base: w, Disp: disp}, x)
		for i := range n {
			if shift {
				VSUBPS(v[i][4], x, y[i])
				VMULPS(v[i][1], y[i], y[i])
			} else {
				VMULPS(v[i][1], x, y[i])
			}
			VMAXPS(v[i][2], y[i], e[i])
			VMINPS(v[i][3], e[i], e[i])
			round(wide, e[i])
			VSUBPS(y[i], e[i], e[i])
			VMULPS(e[i], e[i], e[i])
			VADDPS(e[i], v[i][0], v[i][0])
		}
	}
	Each("sums", 16, func() {
		for i := range n {
			for f := range names {
				VMOVUPS(Mem{Base: at[f], Disp: 32 * i}, v[i][f])
			}
			VXORPS(v[i][0].AsY(), v[i][0].AsY(), v[i][0].AsY())
		}
		MOVQ(first, w)
		MOVQ(count, left)
		SUBQ(Imm(4), left)
		JLT(LabelRef("rest"))
		Label("four")
		for i := range 4 {
			weight(4 * i)
		}
		ADDQ(Imm(16), w)
		SUBQ(Imm(4), left)
		JGE(LabelRef("four"))
		Label("rest")
		ADDQ(Imm(4), left)
		JZ(LabelRef("stored"))
		Label("weight")
		weight(0)
		ADDQ(Imm(4), w)
		DECQ(left)
		JNZ(LabelRef("weight"))
		Label("stored")
		for i := range n {
			VMOVUPS(v[i][0], Mem{Base: at[0], Disp: 32 * i})
		}
		for _, p := range at {
			ADDQ(Imm(64), p)
		}
	})
	VZEROUPPER()
	RET()
}

func survey(wide bool) {
	text, vector := registers("survey", wide)
	TEXT(text, NOSPLIT, "func(w []float32) (all, least uint32)")
	Doc(text + " looks at a multiple of 16 elements; survey is the specification.")
	w := Load(Param("w").Base(), GP64())
	all, least, x, ones, sign := vector(), vector(), vector(), vector(), vector()
	if wide {
		VPXORD(all, all, all)
		VPTERNLOGD(Imm(0xff), ones, ones, ones)
	} else {
		VPXOR(all, all, all)
		VPCMPEQD(ones, ones, ones)
	}
	VPSRLD(Imm(1), ones, sign) // all bits but the sign
	or := func(x, y, to Op) { VPOR(x, y, to) }
	if wide {
		or = func(x, y, to Op) { VPORD(x, y, to) }
		VMOVDQA32(ones, least)
	} else {
		VMOVDQA(ones, least)
	}
	per := 8
	if wide {
		per = 16
	}
	Each("w", per, func() {
		if wide {
			VMOVDQU32(Mem{Base: w}, x)
		} else {
			VMOVDQU(Mem{Base: w}, x)
		}
		or(x, all, all)
		if wide {
			VPANDD(sign, x, x)
		} else {
			VPAND(sign, x, x)
		}
		VPADDD(ones, x, x)
		VPMINUD(x, least, least)
		ADDQ(Imm(uint64(4*per)), w)
	})
	for i, v := range []VecVirtual{all, least} {
		fold := func(x, y, to Op) { VPOR(x, y, to) }
		if i == 1 {
			fold = func(x, y, to Op) { VPMINUD(x, y, to) }
		}
		y, x := YMM(), XMM()
		if wide {
			VEXTRACTI64X4(Imm(1), v, y)
			fold(y, v.AsY(), v.AsY())
		}
		VEXTRACTI128(Imm(1), v.AsY(), x)
		fold(x, v.AsX(), v.AsX())
		VPSHUFD(Imm(0x4e), v.AsX(), x)
		fold(x, v.AsX(), v.AsX())
		VPSHUFD(Imm(0xb1), v.AsX(), x)
		fold(x, v.AsX(), v.AsX())
		r := GP32()
		VMOVD(v.AsX(), r)
		Store(r, ReturnIndex(i))
	}
	VZEROUPPER()
	RET()
}

func codeSums(wide bool) {
	text, vector := registers("codeSums", wide)
	TEXT(text, NOSPLIT, "func(g [7]float32, w []float32) [4]float64")
	Doc(text + " adds up a multiple of 16 elements; codeSums is the specification, where its sums are exact.")
	g := broadcast(vector)
	w := Load(Param("w").Base(), GP64())
	var s [4]VecVirtual
	for i := range s {
		s[i] = vector()
		VXORPD(s[i].AsY(), s[i].AsY(), s[i].AsY())
	}
	x, q, a, v := vector(), vector(), vector(), vector()
	per := 8
	if wide {
		per = 16
	}
	Each("w", per, func() {
		VMOVUPS(Mem{Base: w}, x)
		VSUBPS(g[sub], x, q)
		VDIVPS(g[scale], q, q)
		VADDPS(g[add], q, q)
		VMAXPS(g[lo], q, q)
		VMINPS(g[hi], q, q)
		round(wide, q)
		VSUBPS(g[off], q, q)
		for half := range 2 {
			widen(wide, half, q, a)
			VCVTPS2PD(Mem{Base: w, Disp: 2 * per * half}, v)
			VADDPD(a, s[0], s[0])
			VADDPD(v, s[2], s[2])
			VMULPD(a, v, v)
			VADDPD(v, s[3], s[3])
			VMULPD(a, a, a)
			VADDPD(a, s[1], s[1])
		}
		ADDQ(Imm(uint64(4*per)), w)
	})
	for i, v := range s {
		y, x := YMM(), XMM()
		if wide {
			VEXTRACTF64X4(Imm(1), v, y)
			VADDPD(y, v.AsY(), v.AsY())
		}
		VEXTRACTF128(Imm(1), v.AsY(), x)
		VADDPD(x, v.AsX(), v.AsX())
		VPERMILPD(Imm(1), v.AsX(), x)
		VADDSD(x, v.AsX(), v.AsX())
		VMOVSD(v.AsX(), NewParamAddr(fmt.Sprintf("ret_%d", i), 56+8*i))
	}
	VZEROUPPER()
	RET()
}
