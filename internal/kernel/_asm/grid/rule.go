package main

import (
	"fmt"
	"math"
	"strconv"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "nibble/internal/kernel/asm/emit"
)

// trials is the number of lanes of the candidates of a search.
const trials = 48

// arguments loads the floats of the array x.
func arguments(n int, vector func() VecVirtual) []VecVirtual {
	v := make([]VecVirtual, n)
	for i := range v {
		v[i] = vector()
		VBROADCASTSS(NewParamAddr(fmt.Sprintf("x_%d", i), 4*i), v[i])
	}
	return v
}

// constant returns a register with bits in every dword.
func constant(vector func() VecVirtual, bits uint32) VecVirtual {
	v, r := vector(), GP32()
	MOVL(U32(bits), r)
	VMOVD(r, v.AsX())
	VPBROADCASTD(v.AsX(), v)
	return v
}

func fill(wide bool) {
	text, vector := registers("fill", wide)
	TEXT(text, NOSPLIT, "func(x [8]float32, p, q, den, scale, inverse, sub, lowest, highest *[48]float32)")
	Doc(text + " makes the candidates of a rule; fill is the specification.")
	x := arguments(6, vector)
	var in, out [5]Register
	for i, name := range []string{"p", "q", "den"} {
		in[i] = Load(Param(name), GP64())
	}
	for i, name := range []string{"scale", "inverse", "sub", "lowest", "highest"} {
		out[i] = Load(Param(name), GP64())
	}
	half := roundBF16(vector)
	one, zero, a, b, s := constant(vector, math.Float32bits(1)), vector(), vector(), vector(), vector()
	VXORPS(zero.AsY(), zero.AsY(), zero.AsY())
	size, at := int(a.Size()), GP64()
	XORQ(at, at)
	Label("loop")
	mem := func(r Register) Mem { return Mem{Base: r, Index: at, Scale: 1} }
	VMULPS(mem(in[0]), x[1], a)
	VADDPS(a, x[0], a)
	VMULPS(mem(in[1]), x[2], b)
	VADDPS(b, x[0], b)
	VSUBPS(b, a, s)
	VDIVPS(mem(in[2]), s, s)
	half(s)
	VMOVUPS(s, mem(out[0]))
	VDIVPS(s, one, a)
	VMOVUPS(a, mem(out[1]))
	VMULPS(b, x[3], a)
	VSUBPS(b, zero, b)
	VDIVPS(s, b, b)
	VMULPS(s, x[4], s)
	VADDPS(s, a, a)
	half(a)
	VMOVUPS(a, mem(out[2]))
	VMAXPS(zero, b, b)
	VMINPS(x[5], b, b)
	round(wide, b)
	for i := range 2 {
		VBROADCASTSS(NewParamAddr("x_"+strconv.Itoa(6+i), 4*(6+i)), a)
		VSUBPS(b, a, a)
		VMOVUPS(a, mem(out[3+i]))
	}
	ADDQ(Imm(uint64(size)), at)
	CMPQ(at, Imm(4*trials))
	JLT(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

func sieve(wide bool) {
	text, vector := registers("sieve", wide)
	TEXT(text, NOSPLIT, "func(x [4]float32, squares, scale, sub, low []float32) (least float32)")
	Doc(text + " bounds the errors of a multiple of 16 candidates; sieve is the specification.")
	x := arguments(4, vector)
	var at [4]Register
	for i, name := range []string{"squares", "scale", "sub", "low"} {
		at[i] = Load(Param(name).Base(), GP64())
	}
	positive, least := constant(vector, 0x7fffffff), constant(vector, 0x7f800000)
	root, s, slack, margin := vector(), vector(), vector(), vector()
	size := int(root.Size())
	Each("squares", size/4, func() {
		VSQRTPS(Mem{Base: at[0]}, root)
		VANDPS(Mem{Base: at[1]}, positive, s)
		VMULPS(s, root, root)
		VANDPS(Mem{Base: at[2]}, positive, slack)
		VADDPS(slack, x[2], slack)
		VMULPS(s, x[3], s)
		VADDPS(s, slack, slack)
		VMULPS(slack, x[1], slack)
		VMULPS(x[0], root, margin)
		VSUBPS(margin, root, s)
		VSUBPS(slack, s, s)
		VMOVUPS(s, Mem{Base: at[3]})
		VADDPS(margin, root, root)
		VADDPS(slack, root, root)
		VMINPS(least, root, least) // of a NaN the other
		for _, p := range at {
			ADDQ(Imm(uint64(size)), p)
		}
	})
	y, v := YMM(), XMM()
	if wide {
		VEXTRACTF64X4(Imm(1), least, y)
		VMINPS(y, least.AsY(), least.AsY())
	}
	VEXTRACTF128(Imm(1), least.AsY(), v)
	VMINPS(v, least.AsX(), least.AsX())
	VPERMILPS(Imm(0x4e), least.AsX(), v)
	VMINPS(v, least.AsX(), least.AsX())
	VPERMILPS(Imm(0xb1), least.AsX(), v)
	VMINPS(v, least.AsX(), least.AsX())
	Store(least.AsX(), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

func above(wide bool) {
	text, vector := registers("above", wide)
	TEXT(text, NOSPLIT, "func(low []float32, bound float32) (mask uint64)")
	Doc(text + " compares a multiple of 16 elements, at most 64; above is the specification.")
	low := Load(Param("low").Base(), GP64())
	n := Load(Param("low").Len(), GP64())
	LEAQ(Mem{Base: low, Index: n, Scale: 4}, low)
	bound, most := vector(), constant(vector, math.Float32bits(math.MaxFloat32))
	VBROADCASTSS(NewParamAddr("bound", 24), bound)
	mask, r := GP64(), GP32()
	XORQ(mask, mask)
	per := 16
	if !wide {
		per = 8
	}
	v, k, u := vector(), K(), vector()
	Each("low", per, func() { // from the end
		SUBQ(Imm(uint64(4*per)), low)
		VMOVUPS(Mem{Base: low}, v)
		if wide {
			VCMPPS(Imm(30), bound, v, k) // greater
			VCMPPS(Imm(18), most, v, k, k)
			KMOVW(k, r)
		} else {
			VCMPPS(Imm(30), bound, v, u)
			VCMPPS(Imm(18), most, v, v) // less or equal
			VANDPS(u, v, v)
			VMOVMSKPS(v, r)
		}
		SHLQ(Imm(uint64(per)), mask)
		ORQ(r.As64(), mask)
	})
	Store(mask, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
