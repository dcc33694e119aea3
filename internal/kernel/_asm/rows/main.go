// Command rows writes the assembly of loops over rows of weights. internal/kernel/rows.go has their definitions.
package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "nibble/internal/kernel/asm/emit"
)

func main() {
	ConstraintExpr("!purego")
	for _, wide := range []bool{false, true} {
		set := isa{"AVX2", wide, 8}
		if wide {
			set = isa{"AVX512", wide, 16}
		}
		set.widen()
		set.narrow()
		set.finite()
		set.extremes()
		set.expand()
		set.lift()
		set.noise()
	}
	spread()
	Generate()
}

// isa is what a set of kernels may use.
type isa struct {
	name  string
	wide  bool // ZMM registers, else YMM
	lanes int  // float32 in one of them
}

func (a isa) vector() VecVirtual {
	if a.wide {
		return ZMM()
	}
	return YMM()
}

// text starts a function. What it does is said after its name.
func (a isa) text(name, signature, does string) {
	TEXT(name+a.name, NOSPLIT, signature)
	Doc(name + a.name + " " + does + ", of a multiple of 16 elements.")
}

func base(param string) Register { return Load(Param(param).Base(), GP64()) }

// constant returns a register with bits in every dword.
func (a isa) constant(bits uint32) VecVirtual {
	v, r := a.vector(), GP32()
	MOVL(U32(bits), r)
	if a.wide {
		VPBROADCASTD(r, v)
		return v
	}
	VMOVD(r, v.AsX())
	VPBROADCASTD(v.AsX(), v)
	return v
}

func (a isa) widen() {
	a.text("widen", "func(dst []float32, src []byte)", "widens bfloat16")
	dst, src, v := base("dst"), base("src"), a.vector()
	Each("dst", 16, func() {
		for i := 0; i < 16; i += a.lanes {
			VPMOVZXWD(Mem{Base: src, Disp: 2 * i}, v)
			VPSLLD(Imm(16), v, v)
			VMOVUPS(v, Mem{Base: dst, Disp: 4 * i})
		}
		ADDQ(Imm(32), src)
		ADDQ(Imm(64), dst)
	})
	VZEROUPPER()
	RET()
}

func (a isa) narrow() {
	a.text("narrow", "func(src []float32, dst []byte)", "rounds to bfloat16")
	src, dst := base("src"), base("dst")
	half, one := a.constant(0x7fff), a.constant(1)
	sign, inf, quiet := a.constant(0x7fffffff), a.constant(0x7f800000), a.constant(0x400000)
	if a.wide {
		x, r, k := ZMM(), ZMM(), K()
		Each("src", 16, func() {
			VMOVDQU32(Mem{Base: src}, x)
			VPANDD(sign, x, r)
			VPCMPUD(Imm(6), inf, r, k) // greater: a NaN
			VPSRLD(Imm(16), x, r)
			VPANDD(one, r, r)
			VPADDD(half, r, r)
			VPADDD(x, r, r)
			VPORD(quiet, x, k, r)
			VPSRLD(Imm(16), r, r)
			VPMOVDW(r, Mem{Base: dst})
			ADDQ(Imm(64), src)
			ADDQ(Imm(32), dst)
		})
		VZEROUPPER()
		RET()
		return
	}
	x, r, nan, parts := YMM(), YMM(), YMM(), [2]VecVirtual{YMM(), YMM()}
	Each("src", 16, func() {
		for i, p := range parts {
			VMOVDQU(Mem{Base: src, Disp: 32 * i}, x)
			VPAND(sign, x, r)
			VPCMPGTD(inf, r, nan)
			VPSRLD(Imm(16), x, r)
			VPAND(one, r, r)
			VPADDD(half, r, r)
			VPADDD(x, r, r)
			VPOR(quiet, x, x)
			VPBLENDVB(nan, x, r, p)
			VPSRLD(Imm(16), p, p)
		}
		VPACKUSDW(parts[1], parts[0], r)
		VPERMQ(Imm(0xd8), r, r)
		VMOVDQU(r, Mem{Base: dst})
		ADDQ(Imm(64), src)
		ADDQ(Imm(32), dst)
	})
	VZEROUPPER()
	RET()
}

func (a isa) finite() {
	a.text("finite", "func(w []float32) bool", "reports whether no element is a NaN or an infinity")
	w, exponent, r := base("w"), a.constant(0x7f800000), GP32()
	if a.wide {
		x, k, any := ZMM(), K(), K()
		KXORW(any, any, any)
		Each("w", 16, func() {
			VPANDD(Mem{Base: w}, exponent, x)
			VPCMPEQD(exponent, x, k)
			KORW(k, any, any)
			ADDQ(Imm(64), w)
		})
		KMOVW(any, r)
	} else {
		x, any := YMM(), YMM()
		VPXOR(any, any, any)
		Each("w", 8, func() {
			VPAND(Mem{Base: w}, exponent, x)
			VPCMPEQD(exponent, x, x)
			VPOR(x, any, any)
			ADDQ(Imm(32), w)
		})
		VPMOVMSKB(any, r)
	}
	none := GP8()
	TESTL(r, r)
	SETEQ(none)
	Store(none, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

func (a isa) extremes() {
	a.text("extremes", "func(w []float32) (lo, hi float32)", "returns the smallest and the largest")
	w, x, lo, hi := base("w"), a.vector(), a.vector(), a.vector()
	VBROADCASTSS(Mem{Base: w}, lo)
	VMOVAPS(lo, hi)
	Each("w", a.lanes, func() {
		VMOVUPS(Mem{Base: w}, x)
		VMINPS(x, lo, lo)
		VMAXPS(x, hi, hi)
		ADDQ(Imm(uint64(4*a.lanes)), w)
	})
	for i, v := range []VecVirtual{lo, hi} {
		best := func(x, y, to Op) { VMINPS(x, y, to) }
		if i == 1 {
			best = func(x, y, to Op) { VMAXPS(x, y, to) }
		}
		y, x := YMM(), XMM()
		if a.wide {
			VEXTRACTF64X4(Imm(1), v, y)
			best(y, v.AsY(), v.AsY())
		}
		VEXTRACTF128(Imm(1), v.AsY(), x)
		best(x, v.AsX(), v.AsX())
		VPERMILPS(Imm(0x4e), v.AsX(), x)
		best(x, v.AsX(), v.AsX())
		VPERMILPS(Imm(0xb1), v.AsX(), x)
		best(x, v.AsX(), v.AsX())
		Store(v.AsX(), ReturnIndex(i))
	}
	VZEROUPPER()
	RET()
}

func (a isa) expand() {
	a.text("expand", "func(dst []float32, codes []uint8, scale, zero, bias float32)", "turns codes into weights")
	dst, codes, v := base("dst"), base("codes"), a.vector()
	var fields [3]VecVirtual
	for i := range fields {
		fields[i] = a.vector()
		VBROADCASTSS(NewParamAddr([]string{"scale", "zero", "bias"}[i], 48+4*i), fields[i])
	}
	Each("dst", a.lanes, func() {
		VPMOVZXBD(Mem{Base: codes}, v)
		VCVTDQ2PS(v, v)
		VSUBPS(fields[1], v, v)
		VMULPS(fields[0], v, v)
		VADDPS(fields[2], v, v)
		VMOVUPS(v, Mem{Base: dst})
		ADDQ(Imm(uint64(a.lanes)), codes)
		ADDQ(Imm(uint64(4*a.lanes)), dst)
	})
	VZEROUPPER()
	RET()
}

func (a isa) lift() {
	a.text("lift", "func(dst, w []float32, least float32)", "adds magnitudes to least")
	dst, w, v := base("dst"), base("w"), a.vector()
	positive, least := a.constant(0x7fffffff), a.vector()
	VBROADCASTSS(NewParamAddr("least", 48), least)
	Each("dst", a.lanes, func() {
		if a.wide {
			VPANDD(Mem{Base: w}, positive, v)
		} else {
			VPAND(Mem{Base: w}, positive, v)
		}
		VADDPS(least, v, v)
		VMOVUPS(v, Mem{Base: dst})
		ADDQ(Imm(uint64(4*a.lanes)), w)
		ADDQ(Imm(uint64(4*a.lanes)), dst)
	})
	VZEROUPPER()
	RET()
}

// spread is eight at a time in both sets: a run is four registers.
func spread() {
	a := isa{"AVX2", false, 8}
	TEXT("spreadAVX2", NOSPLIT, "func(dst, w []float32)")
	Doc("spreadAVX2 adds magnitudes to the deviation of their run, of a multiple of 32 elements.")
	dst, w, positive := base("dst"), base("w"), a.constant(0x7fffffff)
	part, bits := XMM(), GP64()
	MOVQ(U64(math.Float64bits(1./32)), bits)
	VMOVQ(bits, part)
	Each("dst", 32, func() {
		var sums [2]VecVirtual
		x, y, high, sigma := YMM(), YMM(), XMM(), YMM()
		for i := range sums {
			sums[i] = YMM()
			VMOVUPS(Mem{Base: w, Disp: 32 * i}, x)
			VMULPS(x, x, sums[i])
			VMOVUPS(Mem{Base: w, Disp: 32*i + 64}, x)
			VMULPS(x, x, y)
			VADDPS(y, sums[i], sums[i])
		}
		VADDPS(sums[1], sums[0], x) // as Dot adds up its lanes
		VEXTRACTF128(Imm(1), x, high)
		VADDPS(high, x.AsX(), x.AsX())
		VPERMILPS(Imm(0x4e), x.AsX(), high)
		VADDPS(high, x.AsX(), x.AsX())
		VPERMILPS(Imm(0xb1), x.AsX(), high)
		VADDPS(high, x.AsX(), x.AsX())
		VCVTSS2SD(x.AsX(), x.AsX(), x.AsX())
		VMULSD(part, x.AsX(), x.AsX())
		VSQRTSD(x.AsX(), x.AsX(), x.AsX())
		VCVTSD2SS(x.AsX(), x.AsX(), x.AsX())
		VBROADCASTSS(x.AsX(), sigma)
		for i := 0; i < 128; i += 32 {
			VPAND(Mem{Base: w, Disp: i}, positive, y)
			VADDPS(sigma, y, y)
			VMOVUPS(y, Mem{Base: dst, Disp: i})
		}
		ADDQ(U32(128), w)
		ADDQ(U32(128), dst)
	})
	VZEROUPPER()
	RET()
}

func (a isa) noise() {
	a.text("noise", "func(w, x []float32) (signal, noise [8]float64, most float64)", "returns eight lanes of squares and of squared errors, and the largest error")
	w, x := base("w"), base("x")
	lanes := a.lanes / 2 // float64 in a register
	var signal, errors [2]VecVirtual
	n := 8 / lanes
	most, positive := a.vector(), a.vector()
	VXORPD(most.AsY(), most.AsY(), most.AsY())
	for i := range n {
		signal[i], errors[i] = a.vector(), a.vector()
		VXORPD(signal[i].AsY(), signal[i].AsY(), signal[i].AsY())
		VXORPD(errors[i].AsY(), errors[i].AsY(), errors[i].AsY())
	}
	if a.wide {
		VPTERNLOGQ(Imm(0xff), positive, positive, positive)
	} else {
		VPCMPEQQ(positive, positive, positive)
	}
	VPSRLQ(Imm(1), positive, positive)
	v, d := a.vector(), a.vector()
	Each("w", 16, func() {
		for i := 0; i < 16; i += lanes {
			s, e := signal[i/lanes%n], errors[i/lanes%n]
			VCVTPS2PD(Mem{Base: w, Disp: 4 * i}, v)
			VCVTPS2PD(Mem{Base: x, Disp: 4 * i}, d)
			VSUBPD(v, d, d)
			VMULPD(v, v, v)
			VADDPD(v, s, s)
			VANDPD(positive, d, v)
			VMAXPD(v, most, most)
			VMULPD(d, d, d)
			VADDPD(d, e, e)
		}
		ADDQ(Imm(64), w)
		ADDQ(Imm(64), x)
	})
	for i := range n {
		VMOVUPD(signal[i], NewParamAddr(fmt.Sprintf("signal_%d", lanes*i), 48+64/n*i))
		VMOVUPD(errors[i], NewParamAddr(fmt.Sprintf("noise_%d", lanes*i), 112+64/n*i))
	}
	y, u := YMM(), XMM()
	if a.wide {
		VEXTRACTF64X4(Imm(1), most, y)
		VMAXPD(y, most.AsY(), most.AsY())
	}
	VEXTRACTF128(Imm(1), most.AsY(), u)
	VMAXPD(u, most.AsX(), most.AsX())
	VPERMILPD(Imm(1), most.AsX(), u)
	VMAXPD(u, most.AsX(), most.AsX())
	Store(most.AsX(), ReturnIndex(2))
	VZEROUPPER()
	RET()
}
