package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// load writes what turns eight runs into lanes.
func load() {
	TEXT("loadLanesAVX2", NOSPLIT, "func(lanes, w, c *float32, n int)")
	Doc("loadLanesAVX2 fills W, C and extremes; lanes.go is the specification.")
	lanes := Load(Param("lanes"), GP64())
	n := Load(Param("n"), GP64())
	stride, three := GP64(), GP64()
	LEAQ(Mem{Base: n, Index: n, Scale: 1}, stride)
	ADDQ(stride, stride) // 4n bytes
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, three)
	turn := func(from string, at int, each func(v VecVirtual)) {
		src, far, to, left := Load(Param(from), GP64()), GP64(), GP64(), GP64()
		LEAQ(Mem{Base: lanes, Disp: 32 * at}, to)
		MOVQ(n, left)
		Label(from)
		LEAQ(Mem{Base: src, Index: stride, Scale: 4}, far)
		var r, a, b [8]VecVirtual
		for i := range r {
			base, k := src, i
			if i >= 4 {
				base, k = far, i-4
			}
			m := []Mem{{Base: base}, {Base: base, Index: stride, Scale: 1}, {Base: base, Index: stride, Scale: 2}, {Base: base, Index: three, Scale: 1}}[k]
			r[i] = YMM()
			VMOVUPS(m, r[i])
		}
		for i := 0; i < 8; i += 2 { // pairs of neighbours
			a[i], a[i+1] = YMM(), YMM()
			VUNPCKLPS(r[i+1], r[i], a[i])
			VUNPCKHPS(r[i+1], r[i], a[i+1])
		}
		for i := 0; i < 8; i += 4 { // fours
			for j := range 2 {
				b[i+2*j], b[i+2*j+1] = YMM(), YMM()
				VUNPCKLPD(a[i+2+j], a[i+j], b[i+2*j])
				VUNPCKHPD(a[i+2+j], a[i+j], b[i+2*j+1])
			}
		}
		for i := range 8 {
			v := YMM()
			VPERM2F128(Imm([]uint64{0x20, 0x31}[i/4]), b[4+i%4], b[i%4], v)
			VMOVUPS(v, Mem{Base: to, Disp: 32 * i})
			each(v)
		}
		ADDQ(Imm(32), src)
		ADDQ(U32(256), to)
		SUBQ(Imm(8), left)
		JNZ(LabelRef(from))
	}
	low, high, heavy := wide(1).every(float32(math.Inf(1))), wide(1).every(float32(math.Inf(-1))), wide(1).every(float32(math.Inf(-1)))
	turn("w", weights, func(v VecVirtual) {
		VMINPS(v, low, low)
		VMAXPS(v, high, high)
	})
	turn("c", counts, func(v VecVirtual) { VMAXPS(v, heavy, heavy) })
	VMOVUPS(low, Mem{Base: lanes, Disp: 32 * least})
	VMOVUPS(high, Mem{Base: lanes, Disp: 32 * most})
	VMOVUPS(heavy, Mem{Base: lanes, Disp: 32 * heaviest})
	VZEROUPPER()
	RET()
}

// weigh writes the change of units and the sums.
func weigh() {
	TEXT("weighLanesAVX2", NOSPLIT, "func(lanes, up, upC *float32, n int)")
	Doc("weighLanesAVX2 multiplies W and C and fills the sums; lanes.go is the specification.")
	lanes, n, at := Load(Param("lanes"), GP64()), Load(Param("n"), GP64()), GP64()
	up, upC := YMM(), YMM()
	VMOVUPS(Mem{Base: Load(Param("up"), GP64())}, up)
	VMOVUPS(Mem{Base: Load(Param("upC"), GP64())}, upC)
	var sums [3]VecVirtual // of c, w and the energy
	for i := range sums {
		sums[i] = YMM()
		VXORPS(sums[i], sums[i], sums[i])
	}
	MOVQ(lanes, at)
	Label("weights")
	w, c, x := YMM(), YMM(), YMM()
	VMULPS(Mem{Base: at, Disp: 32 * weights}, up, w)
	VMULPS(Mem{Base: at, Disp: 32 * counts}, upC, c)
	VMOVUPS(w, Mem{Base: at, Disp: 32 * weights})
	VMOVUPS(c, Mem{Base: at, Disp: 32 * counts})
	VADDPS(c, sums[0], sums[0])
	VMULPS(w, c, x)
	VADDPS(x, sums[1], sums[1])
	VMULPS(w, x, x)
	VADDPS(x, sums[2], sums[2])
	ADDQ(Imm(32), at)
	DECQ(n)
	JNZ(LabelRef("weights"))
	for i, v := range sums {
		VMOVUPS(v, Mem{Base: lanes, Disp: 32 * (sumC + i)})
	}
	VZEROUPPER()
	RET()
}
