package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "nibble/internal/kernel/asm/emit"
)

// moments writes what adds up a chunk of second moments, for one to parts registers of columns. Products that are exact may be fused
// with the sum: the bits are the same.
func moments(a ISA, rows, parts int, fused bool) {
	for p := range parts {
		moment(a, rows, p+1, fused)
	}
}

// moment adds up outer products in float32 and adds the sums to c, in float64.
func moment(a ISA, rows, parts int, fused bool) {
	name := fmt.Sprintf("momentx%d%s", parts, a.Name)
	if fused {
		name = fmt.Sprintf("exactMomentx%d%s", parts, a.Name)
	}
	TEXT(name, NOSPLIT, "func(c []float64, ldc int, a []float32, ks int, b []float32, bs, k int)")
	Doc(fmt.Sprintf("%s is for %d columns; addMoment is the specification.", name, parts*a.Bytes()/4))
	k := begin(a, float32s, rows, parts)
	k.fused = fused
	c := RowsAt(base("c"), bytes("ldc", 3), rows)
	for i, sum := range k.sums {
		a.Zero(sum)
		for half := range 2 {
			PREFETCHT0(c.At(i/parts, (2*(i%parts)+half)*a.Bytes()))
		}
	}
	x, ks := base("a"), bytes("ks", 2)
	k.steps(VADDPS, func(i int) Mem { return Mem{Base: x, Disp: 4 * i} }, func() { ADDQ(ks, x) })
	wide := k.free[0]
	for i, sum := range k.sums {
		for half := range 2 {
			at := c.At(i/parts, (2*(i%parts)+half)*a.Bytes())
			if a.Wide {
				VCVTPS2PD(sum.AsY(), wide)
				VEXTRACTF64X4(Imm(1), sum, sum.AsY())
			} else {
				VCVTPS2PD(sum.AsX(), wide)
				VEXTRACTF128(Imm(1), sum, sum.AsX())
			}
			VADDPD(at, wide, wide)
			VMOVUPD(wide, at)
		}
	}
	VZEROUPPER()
	RET()
}

// pack rounds pairs of rows to what moments multiply.
func pack(a ISA) {
	TEXT("packMoments"+a.Name, NOSPLIT, "func(dst []float32, x []byte, stride int, w []float32, cols, width int)")
	spec := "packMoments"
	if a.BF16 {
		spec = "packMomentPairs"
	}
	Doc(fmt.Sprintf("packMoments%s packs a multiple of %d columns; %s is the specification.", a.Name, a.Bytes()/4, spec))
	dst, x, stride, w := base("dst"), base("x"), Load(Param("stride"), GP64()), base("w")
	rows, cols, width := Load(Param("w").Len(), GP64()), Load(Param("cols"), GP64()), bytes("width", 2)
	constant := func(v uint32) VecVirtual {
		c, r := vector(a), GP32()
		MOVL(U32(v), r)
		VMOVD(r, c.AsX())
		VPBROADCASTD(c.AsX(), c)
		return c
	}
	p := packer{
		ISA: a, one: constant(1), half: constant(0x7fff), upper: constant(0xffff0000), magnitude: constant(0x7fffffff),
		least: constant((127 - 56) << 23), most: constant((127+64)<<23 - 1), nan: constant(0x7fc00000),
	}
	TESTQ(rows, rows)
	JZ(LabelRef("done"))
	TESTQ(cols, cols)
	JZ(LabelRef("done"))
	factors, i := [2]VecVirtual{vector(a), vector(a)}, GP64()
	Label("pair")
	for r, f := range factors {
		VBROADCASTSS(Mem{Base: w, Disp: 4 * r}, f)
	}
	second := GP64()
	LEAQ(Mem{Base: x, Index: stride, Scale: 1}, second)
	XORQ(i, i)
	Label("columns")
	for _, row := range []Register{x, second} { // a panel to come, which is read at another place
		PREFETCHT0(Mem{Base: row, Index: i, Scale: 2, Disp: 192})
	}
	first, next := p.round(Mem{Base: x, Index: i, Scale: 2}, factors[0]), p.round(Mem{Base: second, Index: i, Scale: 2}, factors[1])
	at := Mem{Base: dst, Index: i, Scale: 4}
	if a.BF16 {
		VPSRLD(Imm(16), first, first)
		VPORD(first, next, next)
		VMOVDQU32(next, at)
	} else {
		a.Move(next, at)
		below := GP64()
		LEAQ(Mem{Base: dst, Index: width, Scale: 1}, below)
		a.Move(first, Mem{Base: below, Index: i, Scale: 4})
	}
	ADDQ(Imm(uint64(a.Bytes()/4)), i)
	CMPQ(i, cols)
	JLT(LabelRef("columns"))
	LEAQ(Mem{Base: x, Index: stride, Scale: 2}, x)
	if !a.BF16 {
		ADDQ(width, dst)
	}
	ADDQ(width, dst)
	ADDQ(Imm(8), w)
	SUBQ(Imm(2), rows)
	JNZ(LabelRef("pair"))
	Label("done")
	VZEROUPPER()
	RET()
}

// packer has the constants of momentBits.
type packer struct {
	ISA
	one, half, upper, magnitude, least, most, nan VecVirtual
}

func vector(a ISA) VecVirtual {
	if a.Wide {
		return ZMM()
	}
	return YMM()
}

// round returns momentBits of factor times the values at m.
func (p *packer) round(m Mem, factor VecVirtual) VecVirtual {
	v, t := vector(p.ISA), vector(p.ISA)
	VPMOVZXWD(m, v)
	VPSLLD(Imm(16), v, v)
	VMULPS(factor, v, v)
	VPSRLD(Imm(16), v, t)
	p.And(p.one, t, t)
	VPADDD(p.half, t, t)
	VPADDD(t, v, v)
	p.And(p.upper, v, v)
	p.And(p.magnitude, v, t)
	if p.Wide {
		enough, large := K(), K()
		VPCMPUD(Imm(6), p.most, t, large)
		VPORD(p.nan, v, large, v)
		VPCMPUD(Imm(5), p.least, t, enough)
		VMOVDQA32_Z(v, enough, v)
		return v
	}
	outside := vector(p.ISA)
	VPCMPGTD(p.most, t, outside)
	VPAND(p.nan, outside, outside)
	VPOR(outside, v, v)
	VPCMPGTD(t, p.least, outside)
	VPANDN(v, outside, v)
	return v
}
