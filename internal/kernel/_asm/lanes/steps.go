package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// everyDouble fills a register with a float64.
func everyDouble(x float64) VecVirtual {
	bits, low, v := GP64(), XMM(), YMM()
	MOVQ(U64(math.Float64bits(x)), bits)
	VMOVQ(bits, low)
	VBROADCASTSD(low, v)
	return v
}

// double fills a register with a parameter.
func double(name string) VecVirtual {
	v := YMM()
	VBROADCASTSD(parameter(name), v)
	return v
}

// steps writes the candidates beside integers, four runs at a time.
func steps() {
	TEXT("stepsAVX2", NOSPLIT, "func(dst *float32, integers, unit *float64, share, lowest, highest, not float64)")
	Doc("stepsAVX2 makes numbers of integers and their neighbours; lanes_steps.go is the specification.")
	dst, integers, unit := Load(Param("dst"), GP64()), Load(Param("integers"), GP64()), Load(Param("unit"), GP64())
	share, lowest, highest, not := double("share"), double("lowest"), double("highest"), double("not")
	one, bound, negative, none := everyDouble(1), everyDouble(0x1p8), everyDouble(-0x1p8), everyDouble(math.NaN())
	for half := range 2 {
		scale, n := YMM(), YMM()
		VMULPD(Mem{Base: unit, Disp: 32 * half}, share, scale)
		VMOVUPD(Mem{Base: integers, Disp: 32 * half}, n)
		VSUBPD(one, n, n)
		for j := range 3 {
			x, good, ok, low := YMM(), YMM(), YMM(), XMM()
			VMULPD(n, scale, x)
			VCMPPD(Imm(atLeast), lowest, n, good)
			VCMPPD(Imm(notGreater), highest, n, ok)
			VANDPD(ok, good, good)
			VCMPPD(Imm(smaller), bound, x, ok)
			VANDPD(ok, good, good)
			VCMPPD(Imm(greater), negative, x, ok)
			VANDPD(ok, good, good)
			VCMPPD(Imm(unequal), not, x, ok)
			VANDPD(ok, good, good)
			VBLENDVPD(good, x, none, x)
			VCVTPD2PSY(x, low)
			VMOVUPS(low, Mem{Base: dst, Disp: 32*j + 16*half})
			if j < 2 {
				VADDPD(one, n, n)
			}
		}
	}
	VZEROUPPER()
	RET()
}

// ends writes scales that put the ends of a range on the first value and the last.
func ends() {
	TEXT("endsAVX2", NOSPLIT, "func(way, upper, floor *float32, top float32)")
	Doc("endsAVX2 makes a way of the ends of ranges; lanes_steps.go is the specification.")
	way := Load(Param("way"), GP64())
	top, none, x, y, zero := spread("top", YMM()), wide(1).every(float32(math.NaN())), YMM(), YMM(), YMM()
	VXORPS(zero, zero, zero)
	VMOVUPS(Mem{Base: Load(Param("floor"), GP64())}, x)
	VMOVUPS(x, field(way, 0, floor))
	VADDPS(Mem{Base: Load(Param("upper"), GP64())}, x, x)
	VDIVPS(top, x, x)
	VCMPPS(Imm(greater), zero, x, y)
	VBLENDVPS(y, x, none, x)
	VMOVUPS(x, field(way, 0, scale))
	VZEROUPPER()
	RET()
}

// flat writes what scales of 0 leave, four runs at a time.
func flat() {
	TEXT("flatAVX2", NOSPLIT, "func(lanes *float32, mean, up, down *float64, unit, inverse, top float64, best *float32)")
	Doc("flatAVX2 begins a search with scales of 0; lanes_steps.go is the specification.")
	lanes, at := Load(Param("lanes"), GP64()), Load(Param("best"), GP64())
	mean, up, down := Load(Param("mean"), GP64()), Load(Param("up"), GP64()), Load(Param("down"), GP64())
	unit, inverse, most, zero := double("unit"), double("inverse"), double("top"), YMM()
	VXORPD(zero, zero, zero)
	for half := range 2 {
		row := func(base Register, i int) Mem { return Mem{Base: base, Disp: 32*i + 16*half} }
		m, x, floor, low := YMM(), YMM(), YMM(), XMM()
		VMULPD(Mem{Base: down, Disp: 32 * half}, inverse, x)
		VSUBPD(Mem{Base: mean, Disp: 32 * half}, zero, m)
		VMULPD(x, m, m)
		VMAXPD(zero, m, m) // of a NaN, 0
		VMINPD(most, m, m)
		VROUNDPD(Imm(0), m, m)
		VMULPD(Mem{Base: up, Disp: 32 * half}, unit, floor)
		VMULPD(m, floor, floor)
		sum := YMM()
		VCVTPS2PD(row(lanes, sumC), x)
		VMULPD(x, floor, x)
		VCVTPS2PD(row(lanes, sumW), sum)
		VADDPD(sum, sum, sum)
		VADDPD(sum, x, x)
		VMULPD(x, floor, x)
		VCVTPD2PSY(x, low)
		loss, used := XMM(), XMM()
		VCVTPD2PSY(m, used)
		VMOVUPS(used, row(at, bestFloor))
		VMOVUPS(row(lanes, energy), loss)
		VADDPS(low, loss, low)
		VCMPPS(Imm(greater), zero.AsX(), used, used)
		VBLENDVPS(used, low, loss, loss)
		VMOVUPS(loss, row(at, bestLoss))
		VPCMPEQD(used, used, used)
		VMOVUPS(used, row(at, bestWay))
	}
	VZEROUPPER()
	RET()
}
