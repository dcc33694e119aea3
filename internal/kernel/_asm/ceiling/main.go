// Command ceiling writes the assembly of loops that show what a processor can do at most.
package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "nibble/internal/kernel/asm/emit"
)

// Sums that run beside one another: more than an instruction's latency in cycles.
const (
	sums256 = 8
	sums512 = 16
)

func main() {
	ConstraintExpr("!purego")
	readAVX2()
	readAVX512()
	peakInt8AVX2()
	peakInt8AVX512()
	peakInt8VNNI()
	peakFloatAVX2()
	peakFloatAVX512()
	peakBF16()
	Generate()
}

func readAVX2() {
	TEXT("readAVX2", NOSPLIT, "func(p []byte) uint64")
	Doc("readAVX2 adds up the words of p, a multiple of 512 bytes; readGeneric is the specification.")
	sum := read(sums256, 32, YMM)
	sum256(sum, true)
}

func readAVX512() {
	TEXT("readAVX512", NOSPLIT, "func(p []byte) uint64")
	Doc("readAVX512 is readAVX2 with registers of 64 bytes.")
	sum := read(sums256, 64, ZMM)
	half := YMM()
	VEXTRACTI64X4(Imm(1), sum, half)
	VPADDQ(half, sum.AsY(), half)
	sum256(half, true)
}

// read adds up all words of p with loads of width bytes, and returns the lanes.
func read(n, width int, register func() VecVirtual) VecVirtual {
	p, left := Load(Param("p").Base(), GP64()), Load(Param("p").Len(), GP64())
	sums := zeroed(n, register)
	SHRQ(Imm(9), left)
	loop(left, func() {
		for off := 0; off < 512; off += width {
			s := sums[off/width%n]
			VPADDQ(Mem{Base: p, Disp: off}, s, s)
		}
		ADDQ(U32(512), p)
	})
	for i := 1; i < n; i++ {
		VPADDQ(sums[i], sums[0], sums[0])
	}
	return sums[0]
}

func peakInt8AVX2() {
	TEXT("peakInt8AVX2", NOSPLIT, "func(rounds int) int32")
	Doc("peakInt8AVX2 multiplies ones and adds the products up: 8 times 32 a round.")
	sum := peakWidened(sums256, YMM)
	sum256(sum, false)
}

func peakInt8AVX512() {
	TEXT("peakInt8AVX512", NOSPLIT, "func(rounds int) int32")
	Doc("peakInt8AVX512 multiplies ones and adds the products up: 16 times 64 a round.")
	sum512(peakWidened(sums512, ZMM))
}

// peakWidened multiplies bytes and adds the products in pairs, twice: three instructions for a register of bytes.
func peakWidened(n int, register func() VecVirtual) VecVirtual {
	ones8, ones16, sums := register(), register(), zeroed(n, register)
	broadcast(0x01010101, ones8)
	broadcast(0x00010001, ones16)
	p := register()
	rounds(func() {
		for _, s := range sums {
			VPMADDUBSW(ones8, ones8, p)
			VPMADDWD(ones16, p, p)
			VPADDD(p, s, s)
		}
	})
	return total(sums)
}

func peakInt8VNNI() {
	TEXT("peakInt8VNNI", NOSPLIT, "func(rounds int) int32")
	Doc("peakInt8VNNI multiplies ones and adds the products up: 16 times 64 a round.")
	ones, sums := ZMM(), zeroed(sums512, ZMM)
	broadcast(0x01010101, ones)
	rounds(func() {
		for _, s := range sums {
			VPDPBUSD(ones, ones, s)
		}
	})
	sum512(total(sums))
}

func peakFloatAVX2() {
	TEXT("peakFloatAVX2", NOSPLIT, "func(rounds int) int32")
	Doc("peakFloatAVX2 multiplies ones and adds the products up, in float32: 8 times 8 a round.")
	sum256(peakFloat(sums256, YMM), false)
}

func peakFloatAVX512() {
	TEXT("peakFloatAVX512", NOSPLIT, "func(rounds int) int32")
	Doc("peakFloatAVX512 multiplies ones and adds the products up, in float32: 16 times 16 a round.")
	sum512(peakFloat(sums512, ZMM))
}

// peakFloat multiplies, rounds and adds: the kernels have no fused products.
func peakFloat(n int, register func() VecVirtual) VecVirtual {
	ones, p, sums := register(), register(), zeroed(n, register)
	broadcast(math.Float32bits(1), ones)
	rounds(func() {
		for _, s := range sums {
			VMULPS(ones, ones, p)
			VADDPS(p, s, s)
		}
	})
	return totalFloat(sums)
}

func peakBF16() {
	TEXT("peakBF16", NOSPLIT, "func(rounds int) int32")
	Doc("peakBF16 multiplies ones in bfloat16 and adds the products up in float32: 16 times 32 a round.")
	registers := []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15}
	broadcast(0x3f803f80, Z16)
	for _, s := range registers {
		VPXORD(s, s, s)
	}
	rounds(func() {
		for _, s := range registers {
			VDPBF16PS(Z16, Z16, s)
		}
	})
	for _, s := range registers[1:] {
		VADDPS(s, Z0, Z0)
	}
	sum := ZMM()
	VCVTPS2DQ(Z0, sum)
	sum512(sum)
}

// rounds runs body as often as the parameter says.
func rounds(body func()) {
	loop(Load(Param("rounds"), GP64()), body)
}

// loop runs body n times.
func loop(n Register, body func()) {
	TESTQ(n, n)
	JZ(LabelRef("done"))
	Label("loop")
	body()
	DECQ(n)
	JNZ(LabelRef("loop"))
	Label("done")
}

// zeroed returns n registers that are zero.
func zeroed(n int, register func() VecVirtual) (sums []VecVirtual) {
	for range n {
		s := register()
		if s.Size() == 64 {
			VPXORD(s, s, s)
		} else {
			VPXOR(s, s, s)
		}
		sums = append(sums, s)
	}
	return sums
}

// broadcast fills a register with a word.
func broadcast(word uint32, to Op) {
	r := GP32()
	MOVL(U32(word), r)
	if v, ok := to.(VecVirtual); ok && v.Size() == 32 {
		VMOVD(r, v.AsX())
		VPBROADCASTD(v.AsX(), to)
		return
	}
	VPBROADCASTD(r, to)
}

// total adds up registers of integers.
func total(sums []VecVirtual) VecVirtual {
	for _, s := range sums[1:] {
		VPADDD(s, sums[0], sums[0])
	}
	return sums[0]
}

// totalFloat adds up registers of floats that hold whole numbers, and makes them integers.
func totalFloat(sums []VecVirtual) VecVirtual {
	for _, s := range sums[1:] {
		VADDPS(s, sums[0], sums[0])
	}
	VCVTPS2DQ(sums[0], sums[0])
	return sums[0]
}

// sum512 returns the sum of the integers of a register.
func sum512(sum VecVirtual) {
	half := YMM()
	VEXTRACTI64X4(Imm(1), sum, half)
	VPADDD(half, sum.AsY(), half)
	sum256(half, false)
}

// sum256 returns the sum of the words of a register, of 64 bits or of 32.
func sum256(sum VecVirtual, words64 bool) {
	lo, hi := sum.AsX(), XMM()
	VEXTRACTI128(Imm(1), sum.AsY(), hi)
	if words64 {
		VPADDQ(hi, lo, lo)
		VPSHUFD(Imm(0x4e), lo, hi)
		VPADDQ(hi, lo, lo)
		r := GP64()
		VMOVQ(lo, r)
		Store(r, ReturnIndex(0))
	} else {
		VPADDD(hi, lo, lo)
		VPSHUFD(Imm(0x4e), lo, hi)
		VPADDD(hi, lo, lo)
		VPSHUFD(Imm(0xb1), lo, hi)
		VPADDD(hi, lo, lo)
		r := GP32()
		VMOVD(lo, r)
		Store(r, ReturnIndex(0))
	}
	VZEROUPPER()
	RET()
}
