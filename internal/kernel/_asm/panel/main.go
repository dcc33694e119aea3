// Command panel writes the assembly of products of panels and activations. internal/kernel/panel.go has their layout and
// their definition.
package main

import (
	"flag"
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "nibble/internal/kernel/asm/emit"
)

// isa is what a set of kernels may use.
type isa struct {
	name string
	wide bool // ZMM registers, else YMM
	vnni bool
}

var (
	avx2   = isa{name: "AVX2"}
	avx512 = isa{name: "AVX512", wide: true}
	vnni   = isa{name: "VNNI", wide: true, vnni: true}
)

// bytes returns the size of a register.
func (a isa) bytes() int {
	if a.wide {
		return 64
	}
	return 32
}

// vec takes a free register.
func (a isa) vec() Register {
	if a.wide {
		return ZMM()
	}
	return YMM()
}

// parts is the number of registers for the sixteen rows of a panel.
func (a isa) parts() int { return 64 / a.bytes() }

func main() {
	set := flag.String("set", "", "which instructions to write for")
	flag.Parse()
	ConstraintExpr("!purego")
	switch *set {
	case "avx2":
		for _, t := range []int{1, 2} {
			codes4(avx2, t)
			codes8(avx2, t)
		}
		unpack8(avx2)
	case "avx512":
		for _, t := range []int{1, 2, 4, 8} {
			codes4(avx512, t)
		}
		for _, t := range []int{1, 4, 8} {
			codes8(avx512, t)
		}
		unpack8(avx512)
	case "vnni":
		for _, t := range []int{1, 2, 4, 8} {
			codes4(vnni, t)
		}
		for _, t := range []int{1, 4, 8, 12} {
			codes8(vnni, t)
		}
	}
	Generate()
}

// codes4 multiplies 4-bit codes of two panels by the int8 activations of so many tokens.
func codes4(a isa, tokens int) {
	TEXT(fmt.Sprintf("codes4x%d%s", tokens, a.name), NOSPLIT, "func(p *byte)")
	Doc(fmt.Sprintf("codes4x%d%s is Codes4 for %d tokens; codes4 is the specification.", tokens, a.name, tokens))
	k := begin(a, tokens)
	mask := k.constant(0x0f0f0f0f)
	k.blocks(func(acc accumulators, x Rows, codes [2]Register) {
		k.together(func(list []lane) {
			var lo, hi []lane
			for _, l := range list {
				h := a.vec()
				l.v = a.vec()
				VMOVDQU_(a, Mem{Base: codes[l.panel], Disp: l.part * a.bytes()}, h)
				and(a, mask, h, l.v)
				VPSRLD(Imm(4), h, h)
				and(a, mask, h, h)
				lo, hi = append(lo, l), append(hi, lane{l.panel, l.part, h})
			}
			k.multiply(acc, x, 0, lo)
			k.multiply(acc, x, 4, hi)
		})
		for _, c := range codes {
			if tokens == 1 && a.wide {
				PREFETCHT0(Mem{Base: c, Disp: ahead})
			}
			ADDQ(Imm(StepBytes), c)
		}
		x.Advance(8)
	})
}

// ahead is how far in front of a product of one token its codes are fetched, in bytes.
const ahead = 2048

// codes8 multiplies 8-bit codes of two panels by the int8 activations of so many tokens.
func codes8(a isa, tokens int) {
	TEXT(fmt.Sprintf("codes8x%d%s", tokens, a.name), NOSPLIT, "func(p *byte)")
	Doc(fmt.Sprintf("codes8x%d%s is Codes8 for %d tokens; codes8 is the specification.", tokens, a.name, tokens))
	k := begin(a, tokens)
	if !a.vnni {
		k.nibble, k.sixteens = k.constant(0x0f0f0f0f), k.constant(0x00100010)
	}
	k.blocks(func(acc accumulators, x Rows, codes [2]Register) {
		for i := range 2 {
			k.together(func(list []lane) {
				for j := range list {
					l := &list[j]
					l.v = a.vec()
					VMOVDQU_(a, Mem{Base: codes[l.panel], Disp: i*StepBytes + l.part*a.bytes()}, l.v)
				}
				k.multiply(acc, x, 4*i, list)
			})
		}
		for _, c := range codes {
			if tokens == 1 && a.wide {
				PREFETCHT0(Mem{Base: c, Disp: ahead})
				PREFETCHT0(Mem{Base: c, Disp: ahead + StepBytes})
			}
			ADDQ(Imm(2*StepBytes), c)
		}
		x.Advance(8)
	})
}

// lane is a register with weights of some rows of a panel.
type lane struct {
	panel, part int
	v           Register
}

// together calls f with lanes without registers: all at once if there are registers for them, else one by one.
func (k *product) together(f func(list []lane)) {
	var list []lane
	for p := range 2 {
		for part := range k.parts() {
			list = append(list, lane{panel: p, part: part})
		}
	}
	if k.wide {
		f(list)
		return
	}
	for i := range list {
		f(list[i : i+1])
	}
}

// accumulators are the sums of a block: of each token, panel and part.
type accumulators [][2][]Register

// product is the part that all integer products share.
type product struct {
	isa
	tokens           int
	p                Register
	nibble, sixteens Register // of 8-bit codes without VNNI
	ones             Register // without VNNI
}

func begin(a isa, tokens int) *product {
	k := &product{isa: a, tokens: tokens, p: Load(Param("p"), GP64())}
	if !a.vnni {
		k.ones = k.constant(0x00010001)
	}
	return k
}

// constant fills a register.
func (k *product) constant(v uint32) Register {
	c := GP32()
	MOVL(U32(v), c)
	if k.wide {
		r := ZMM()
		VPBROADCASTD(c, r)
		return r
	}
	r := YMM()
	VMOVD(c, r.AsX())
	VPBROADCASTD(r.AsX(), r)
	return r
}

// multiply adds the products of four columns of every row, with those of x at disp.
func (k *product) multiply(acc accumulators, x Rows, disp int, w []lane) {
	var low []Register // of 8-bit codes in two halves
	if k.nibble != nil {
		for _, l := range w {
			v := k.vec()
			and(k.isa, k.nibble, l.v, v)
			VPSRLD(Imm(4), l.v, l.v)
			and(k.isa, k.nibble, l.v, l.v)
			low = append(low, v)
		}
	}
	b := k.vec()
	for t := range k.tokens {
		VPBROADCASTD(x.At(t, disp), b)
		for i, l := range w {
			sum := acc[t][l.panel][l.part]
			switch {
			case k.vnni:
				VPDPBUSD(b, l.v, sum)
			case k.nibble != nil:
				k.add(sum, b, low[i], k.ones)
				k.add(sum, b, l.v, k.sixteens)
			default:
				k.add(sum, b, l.v, k.ones)
			}
		}
	}
}

// add adds times·(w·b) to sum without VNNI; w·b of two columns has at most 12 bits.
func (k *product) add(sum, b, w, times Register) {
	v := k.vec()
	VPMADDUBSW(b, w, v)
	VPMADDWD(times, v, v)
	VPADDD(v, sum, sum)
}

// blocks runs over all blocks; body multiplies PanelStep columns and moves on.
func (k *product) blocks(body func(acc accumulators, x Rows, codes [2]Register)) {
	var codes [2]Register
	for p := range codes {
		codes[p] = Field(k.p, p*PanelSize+OffCodes)
	}
	x := RowsAt(Field(k.p, OffX), Field(k.p, OffStride), k.tokens)
	k.clear(Field(k.p, OffY))
	Blocks(k.p, func(block, row Register) {
		acc := make(accumulators, k.tokens)
		for t := range acc {
			for p := range 2 {
				acc[t][p] = k.panel()
			}
		}
		k.offsets(acc, Row(k.p, OffSums, row), Group(block))
		Steps(block, func() { body(acc, x, codes) })
		k.finish(acc, row, Group(block))
	})
}

// panel takes registers for the rows of a panel.
func (k *product) panel() (v []Register) {
	for range k.parts() {
		v = append(v, k.vec())
	}
	return v
}

// clear sets the results to zero.
func (k *product) clear(y Register) {
	zero := k.vec()
	if k.wide {
		VPXORD(zero, zero, zero)
	} else {
		VPXOR(zero, zero, zero)
	}
	for i := 0; i < k.tokens*2*StepBytes; i += k.bytes() {
		VMOVDQU_(k.isa, zero, Mem{Base: y, Disp: i})
	}
}

// offsets begins the sums with −z·Σx.
func (k *product) offsets(acc accumulators, sums, group Register) {
	var z [2][]Register
	for p := range 2 {
		ptr := Field(k.p, p*PanelSize+OffZeros)
		given, done := fmt.Sprintf("zeros%d", p), fmt.Sprintf("zerosdone%d", p)
		z[p] = k.panel()
		TESTQ(ptr, ptr)
		JNZ(LabelRef(given))
		for _, v := range z[p] {
			VPBROADCASTD(Mem{Base: k.p, Disp: OffMid}, v)
		}
		JMP(LabelRef(done))
		Label(given)
		for part, v := range z[p] {
			VPMOVZXBD(Mem{Base: ptr, Index: group, Scale: 1, Disp: part * k.bytes() / 4}, v)
		}
		Label(done)
	}
	b := k.vec()
	for t := range acc {
		VPBROADCASTD(Mem{Base: sums, Disp: 4 * t}, b)
		for p := range 2 {
			for part, v := range z[p] {
				VPMADDWD(v, b, acc[t][p][part])
			}
		}
	}
}

// finish adds the sums of a block to the results.
func (k *product) finish(acc accumulators, row, group Register) {
	s := k.floats("scales", OffScales, group)
	for t := range acc {
		for p := range 2 {
			for part, v := range acc[t][p] {
				VCVTDQ2PS(v, v)
				VMULPS(s[p][part], v, v)
			}
		}
	}
	biases := Field(k.p, OffBiases)
	TESTQ(biases, biases)
	JZ(LabelRef("nobias"))
	b := k.floats("biases", OffBiases, group)
	sums := Row(k.p, OffSums, row)
	for t := range acc {
		sum, v := k.vec(), k.vec()
		VPBROADCASTD(Mem{Base: sums, Disp: 4 * t}, sum)
		VCVTDQ2PS(sum, sum)
		for p := range 2 {
			for part := range acc[t][p] {
				VMULPS(b[p][part], sum, v)
				VSUBPS(v, acc[t][p][part], acc[t][p][part])
			}
		}
	}
	Label("nobias")
	scales, y := Row(k.p, OffXScales, row), Field(k.p, OffY)
	for t := range acc {
		x := k.vec()
		VBROADCASTSS(Mem{Base: scales, Disp: 4 * t}, x)
		for p := range 2 {
			for part, v := range acc[t][p] {
				at := Mem{Base: y, Disp: (t*2+p)*StepBytes + part*k.bytes()}
				VMULPS(x, v, v)
				VADDPS(at, v, v)
				VMOVUPS(v, at)
			}
		}
	}
}

// floats reads the scales or biases of a group in both panels.
func (k *product) floats(name string, off int, group Register) (v [2][]Register) {
	for p := range 2 {
		v[p] = k.panel()
		Floats(k.p, fmt.Sprint(name, p), Field(k.p, p*PanelSize+off), group, k.bytes(), v[p])
	}
	return v
}

// VMOVDQU_ moves a register to or from memory.
func VMOVDQU_(a isa, from, to Op) {
	if a.wide {
		VMOVDQU32(from, to)
	} else {
		VMOVDQU(from, to)
	}
}

// and sets c to a and b.
func and(i isa, a, b, c Op) {
	if i.wide {
		VPANDD(a, b, c)
	} else {
		VPAND(a, b, c)
	}
}

// unpack8 turns 4-bit codes into 8-bit codes.
func unpack8(a isa) {
	TEXT("unpack8"+a.name, NOSPLIT, "func(dst, src []byte)")
	Doc("unpack8" + a.name + " turns 4-bit codes into 8-bit codes; unpack8 is the specification.")
	dst, src, n := Load(Param("dst").Base(), GP64()), Load(Param("src").Base(), GP64()), Load(Param("src").Len(), GP64())
	mask := (&product{isa: a}).constant(0x0f0f0f0f)
	TESTQ(n, n)
	JZ(LabelRef("done"))
	Label("loop")
	for part := range a.parts() {
		lo, hi := a.vec(), a.vec()
		VMOVDQU_(a, Mem{Base: src, Disp: part * a.bytes()}, hi)
		and(a, mask, hi, lo)
		VPSRLD(Imm(4), hi, hi)
		and(a, mask, hi, hi)
		VMOVDQU_(a, lo, Mem{Base: dst, Disp: part * a.bytes()})
		VMOVDQU_(a, hi, Mem{Base: dst, Disp: StepBytes + part*a.bytes()})
	}
	ADDQ(Imm(StepBytes), src)
	ADDQ(Imm(2*StepBytes), dst)
	SUBQ(Imm(StepBytes), n)
	JNZ(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}
