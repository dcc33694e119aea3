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

// coarse has a candidate in every lane, of two registers and in the end perhaps of one. Registers of twice the size would
// not be faster: two units round, subtract and add, and take the halves one after the other.
func coarse(name string, shift bool) {
	text, vector := registers(name, false)
	names := []string{"sums", "inverse", "lo", "hi"}
	if shift {
		names = append(names, "sub")
	}
	TEXT(text, NOSPLIT, "func("+strings.Join(names, ", ")+", inner, outer, innerD, outerD []float32)")
	Doc(text + " measures a multiple of 8 candidates; " + name + " is the specification.")
	var at []Register
	for _, name := range names {
		at = append(at, Load(Param(name).Base(), GP64()))
	}
	count := Load(Param("sums").Len(), GP64())
	var v [2][5]VecVirtual // sum, inverse, lo, hi, sub
	for i := range v {
		for f := range names {
			v[i][f] = vector()
		}
	}
	e := [2][2]VecVirtual{{vector(), vector()}, {vector(), vector()}}
	x, y, w, d, left := vector(), vector(), GP64(), GP64(), GP64()
	for n := 2; n > 0; n-- { // registers
		label := func(name string) string { return fmt.Sprintf("%s%d", name, n) }
		add := func(from, to [2]VecVirtual) {
			for i := range n {
				VADDPS(from[i], to[i], to[i])
			}
		}
		Label(label("loop"))
		SUBQ(Imm(uint64(8*n)), count)
		JLT(LabelRef(label("end")))
		for i := range n {
			for f := range names {
				VMOVUPS(Mem{Base: at[f], Disp: 32 * i}, v[i][f])
			}
			VXORPS(v[i][0], v[i][0], v[i][0])
		}
		sums := [2]VecVirtual{v[0][0], v[1][0]}
		for _, part := range []string{"inner", "outer"} {
			// square leaves d·(q − y)² of a weight.
			square := func(at int, to [2]VecVirtual) {
				VBROADCASTSS(Mem{Base: w, Disp: 4 * at}, x)
				for i, e := range to[:n] {
					if shift {
						VSUBPS(v[i][4], x, y)
						VMULPS(v[i][1], y, y)
					} else {
						VMULPS(v[i][1], x, y)
					}
					if part == "inner" {
						VROUNDPS(Imm(0), y, e)
					} else {
						VMAXPS(v[i][2], y, e)
						VMINPS(v[i][3], e, e)
						VROUNDPS(Imm(0), e, e)
					}
					VSUBPS(y, e, e)
					VMULPS(e, e, e)
				}
				VBROADCASTSS(Mem{Base: d, Disp: 4 * at}, x)
				for _, e := range to[:n] {
					VMULPS(x, e, e)
				}
			}
			label := func(name string) string { return label(part + name) }
			Load(Param(part).Base(), w)
			Load(Param(part+"D").Base(), d)
			Load(Param(part).Len(), left)
			SUBQ(Imm(4), left)
			JLT(LabelRef(label("rest")))
			Label(label("four"))
			square(0, e[0])
			for i := 1; i < 4; i++ {
				square(i, e[1])
				add(e[1], e[0])
			}
			add(e[0], sums)
			ADDQ(Imm(16), w)
			ADDQ(Imm(16), d)
			SUBQ(Imm(4), left)
			JGE(LabelRef(label("four")))
			Label(label("rest"))
			ADDQ(Imm(4), left)
			JZ(LabelRef(label("done")))
			Label(label("weight"))
			square(0, e[0])
			add(e[0], sums)
			ADDQ(Imm(4), w)
			ADDQ(Imm(4), d)
			DECQ(left)
			JNZ(LabelRef(label("weight")))
			Label(label("done"))
		}
		for i := range n {
			VMOVUPS(v[i][0], Mem{Base: at[0], Disp: 32 * i})
		}
		for _, p := range at {
			ADDQ(Imm(uint64(32*n)), p)
		}
		JMP(LabelRef(label("loop")))
		Label(label("end"))
		ADDQ(Imm(uint64(8*n)), count)
	}
	VZEROUPPER()
	RET()
}

// split stores what is inside and outside a range one behind the other.
func split() {
	text, vector := registers("split", true)
	TEXT(text, NOSPLIT, "func(inner, outer, innerD, outerD, w, d []float32, low, high float32) (n int)")
	Doc(text + " divides a multiple of 16 weights; split is the specification.")
	to := [2]Register{Load(Param("inner").Base(), GP64()), Load(Param("outer").Base(), GP64())}
	toD := [2]Register{Load(Param("innerD").Base(), GP64()), Load(Param("outerD").Base(), GP64())}
	begin, w, d := Load(Param("inner").Base(), GP64()), Load(Param("w").Base(), GP64()), Load(Param("d").Base(), GP64())
	low, high, x, y, v := vector(), vector(), vector(), vector(), vector()
	VBROADCASTSS(NewParamAddr("low", 144), low)
	VBROADCASTSS(NewParamAddr("high", 148), high)
	in, count := K(), GP32()
	Each("w", 16, func() {
		VMOVUPS(Mem{Base: w}, x)
		VMOVUPS(Mem{Base: d}, y)
		VCMPPS(Imm(29), low, x, in)      // greater or equal
		VCMPPS(Imm(18), high, x, in, in) // less or equal
		for i, p := range to {
			if i == 1 {
				KNOTW(in, in)
			}
			KMOVW(in, count)
			POPCNTL(count, count)
			VCOMPRESSPS_Z(x, in, v)
			VMOVUPS(v, Mem{Base: p})
			LEAQ(Mem{Base: p, Index: count.As64(), Scale: 4}, p)
			VCOMPRESSPS_Z(y, in, v)
			VMOVUPS(v, Mem{Base: toD[i]})
			LEAQ(Mem{Base: toD[i], Index: count.As64(), Scale: 4}, toD[i])
		}
		ADDQ(Imm(64), w)
		ADDQ(Imm(64), d)
	})
	SUBQ(begin, to[0])
	SHRQ(Imm(2), to[0])
	Store(to[0], ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// span intersects the ranges of all lanes.
func span(wide bool) {
	text, vector := registers("span", wide)
	TEXT(text, NOSPLIT, "func(scale, lo, hi, sub []float32) (low, high float32)")
	Doc(text + " intersects the ranges of a multiple of 16 candidates; span is the specification.")
	var at [4]Register
	for i, name := range []string{"scale", "lo", "hi", "sub"} {
		at[i] = Load(Param(name).Base(), GP64())
	}
	low, high := constant(vector, 0xff800000), constant(vector, 0x7f800000) // −Inf, +Inf
	s, p, q, x := vector(), vector(), vector(), vector()
	size := int(s.Size())
	Each("scale", size/4, func() {
		VMOVUPS(Mem{Base: at[0]}, s)
		for i, v := range []VecVirtual{p, q} {
			VMULPS(Mem{Base: at[1+i]}, s, v)
			VADDPS(Mem{Base: at[3]}, v, v)
		}
		VMINPS(p, q, x)
		VMAXPS(p, q, p)
		VMAXPS(low, x, low) // of a NaN the other
		VMINPS(high, p, high)
		for _, p := range at {
			ADDQ(Imm(uint64(size)), p)
		}
	})
	for i, v := range []VecVirtual{low, high} {
		fold := func(x, y, to Op) { VMAXPS(x, y, to) }
		if i == 1 {
			fold = func(x, y, to Op) { VMINPS(x, y, to) }
		}
		y, x := YMM(), XMM()
		if wide {
			VEXTRACTF64X4(Imm(1), v, y)
			fold(y, v.AsY(), v.AsY())
		}
		VEXTRACTF128(Imm(1), v.AsY(), x)
		fold(x, v.AsX(), v.AsX())
		VPERMILPS(Imm(0x4e), v.AsX(), x)
		fold(x, v.AsX(), v.AsX())
		VPERMILPS(Imm(0xb1), v.AsX(), x)
		fold(x, v.AsX(), v.AsX())
		Store(v.AsX(), ReturnIndex(i))
	}
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
