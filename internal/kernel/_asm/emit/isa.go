package emit

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// ISA is what a set of kernels may use.
type ISA struct {
	Name string
	Wide bool // ZMM registers, else YMM
	VNNI bool
	BF16 bool
}

// The instructions of the sets.
var (
	AVX2   = ISA{Name: "AVX2"}
	AVX512 = ISA{Name: "AVX512", Wide: true}
	VNNI   = ISA{Name: "VNNI", Wide: true, VNNI: true}
	BF16   = ISA{Name: "BF16", Wide: true, BF16: true}
)

// Bytes returns the size of a register.
func (a ISA) Bytes() int {
	if a.Wide {
		return 64
	}
	return 32
}

// Parts is the number of registers for the rows of a panel.
func (a ISA) Parts() int { return StepBytes / a.Bytes() }

// Move moves a register to or from memory.
func (a ISA) Move(from, to Op) {
	if a.Wide {
		VMOVDQU32(from, to)
	} else {
		VMOVDQU(from, to)
	}
}

// And sets z to x and y.
func (a ISA) And(x, y, z Op) {
	if a.Wide {
		VPANDD(x, y, z)
	} else {
		VPAND(x, y, z)
	}
}

// Zero clears a register.
func (a ISA) Zero(v Op) {
	if a.Wide {
		VPXORD(v, v, v)
	} else {
		VPXOR(v, v, v)
	}
}

// Vec takes a free register.
func (a ISA) Vec() Register {
	if a.Wide {
		return ZMM()
	}
	return YMM()
}

// Fill fills a register.
func (a ISA) Fill(v uint32) Register {
	c := GP32()
	MOVL(U32(v), c)
	if a.Wide {
		r := ZMM()
		VPBROADCASTD(c, r)
		return r
	}
	r := YMM()
	VMOVD(c, r.AsX())
	VPBROADCASTD(r.AsX(), r)
	return r
}

// FillLevels fills a register with the codes that those of four bits stand for in IQ4_NL and IQ4_XS, over and over.
func (a ISA) FillLevels() Register {
	lo, hi := GP64(), GP64()
	MOVQ(U64(0x766a5d4f3f2d1801), lo)
	MOVQ(U64(0xf1d9c5b5a6998d81), hi)
	v, w := XMM(), XMM()
	VMOVQ(lo, v)
	VPINSRQ(Imm(1), hi, v, w)
	table := a.Vec()
	if a.Wide {
		y := YMM()
		VINSERTI128(Imm(1), w, w.AsY(), y)
		VINSERTI64X4(Imm(1), y, y.AsZ(), table)
	} else {
		VINSERTI128(Imm(1), w, w.AsY(), table)
	}
	return table
}
