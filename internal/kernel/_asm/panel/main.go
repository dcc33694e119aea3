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

func main() {
	set := flag.String("set", "", "which instructions to write for")
	flag.Parse()
	ConstraintExpr("!purego")
	switch *set {
	case "avx2":
		one4(AVX2)
		codes4(AVX2, 2)
		for _, t := range []int{1, 2} {
			codes8(AVX2, t)
		}
		short4(AVX2, 6)
		short8(AVX2, 6)
		levels4(AVX2)
		unpackLevels(AVX2)
	case "avx512":
		for _, t := range []int{1, 2, 4, 8} {
			codes4(AVX512, t)
		}
		for _, t := range []int{1, 4, 8} {
			codes8(AVX512, t)
		}
		levels4(AVX512)
		unpack8(AVX512)
		unpackLevels(AVX512)
	case "vnni":
		for _, t := range []int{1, 2, 4, 8} {
			codes4(VNNI, t)
		}
		levels4(VNNI)
		for _, t := range []int{1, 4, 8, 12} {
			codes8(VNNI, t)
		}
	}
	Generate()
}

// codes4 multiplies 4-bit codes of a panel by the int8 activations of so many tokens.
func codes4(a ISA, tokens int) {
	TEXT(fmt.Sprintf("codes4x%d%s", tokens, a.Name), NOSPLIT, "func(p *byte)")
	Doc(fmt.Sprintf("codes4x%d%s is Codes4 for %d tokens; codes4 is the specification.", tokens, a.Name, tokens))
	k := begin(a, tokens)
	mask := k.constant(0x0f0f0f0f)
	var high Register
	if k.sixteenfold = k.tokens == 1 && k.VNNI; k.sixteenfold {
		high = k.constant(0xf0f0f0f0)
	}
	k.halves(mask, high, nil)
}

// levels4 multiplies 4-bit codes that stand for levels by the int8 activations of a token.
func levels4(a ISA) {
	TEXT("levels4x1"+a.Name, NOSPLIT, "func(p *byte)")
	Doc("levels4x1" + a.Name + " is Levels4 for one token; levels4 is the specification.")
	k := begin(a, 1)
	mask, table := k.constant(0x0f0f0f0f), k.FillLevels()
	if !a.VNNI {
		k.nibble, k.sixteens = mask, k.constant(0x00100010)
	}
	k.halves(mask, nil, table)
}

// halves multiplies both halves of the bytes of a panel: the high ones as they are with a mask for them, else moved down; with a table what it
// has in their places.
func (k *product) halves(mask, high, table Register) {
	k.blocks(func(acc accumulators, x Rows, codes Register) {
		k.together(func(list []lane) {
			var lo, hi []lane
			for _, l := range list {
				h := k.vec()
				l.v = k.vec()
				k.Move(Mem{Base: codes, Disp: l.part * k.Bytes()}, h)
				k.And(mask, h, l.v)
				if high != nil {
					k.And(high, h, h)
				} else {
					VPSRLD(Imm(4), h, h)
					k.And(mask, h, h)
				}
				if table != nil {
					VPSHUFB(l.v, table, l.v)
					VPSHUFB(h, table, h)
				}
				lo, hi = append(lo, l), append(hi, lane{l.part, h})
			}
			k.multiply(acc, x, 0, lo)
			k.multiply(k.second(acc), x, 4, hi)
		})
		k.Fetch(k.p, codes, k.tokens, 1)
		ADDQ(U32(StepBytes), codes)
		x.Advance(8)
	})
}

// codes8 multiplies 8-bit codes of a panel by the int8 activations of so many tokens.
func codes8(a ISA, tokens int) {
	TEXT(fmt.Sprintf("codes8x%d%s", tokens, a.Name), NOSPLIT, "func(p *byte)")
	Doc(fmt.Sprintf("codes8x%d%s is Codes8 for %d tokens; codes8 is the specification.", tokens, a.Name, tokens))
	k := begin(a, tokens)
	if !a.VNNI {
		k.nibble, k.sixteens = k.constant(0x0f0f0f0f), k.constant(0x00100010)
	}
	k.blocks(func(acc accumulators, x Rows, codes Register) {
		for i := range 2 {
			k.together(func(list []lane) {
				for j := range list {
					l := &list[j]
					l.v = k.vec()
					a.Move(Mem{Base: codes, Disp: i*StepBytes + l.part*a.Bytes()}, l.v)
				}
				sums := acc
				if i == 1 {
					sums = k.second(acc)
				}
				k.multiply(sums, x, 4*i, list)
			})
		}
		k.Fetch(k.p, codes, tokens, 2)
		ADDQ(U32(2*StepBytes), codes)
		x.Advance(8)
	})
}

// lane is a register with weights of some rows of the panel.
type lane struct {
	part int
	v    Register
}

// together calls f with lanes without registers: all at once if there are registers for them, else one by one.
func (k *product) together(f func(list []lane)) {
	var list []lane
	for part := range k.Parts() {
		list = append(list, lane{part: part})
	}
	if k.Wide {
		f(list)
		return
	}
	for i := range list {
		f(list[i : i+1])
	}
}

// accumulators are the sums of a block: of each token and part of the panel.
type accumulators [][]Register

// product is the part that all integer products share.
type product struct {
	ISA
	tokens           int
	p                Register
	nibble, sixteens Register // of 8-bit codes without VNNI
	ones             Register // without VNNI
	other            accumulators
	// The second sums are of codes in the high halves of bytes, as they are: sixteen times as large.
	sixteenfold bool
}

func begin(a ISA, tokens int) *product {
	k := &product{ISA: a, tokens: tokens, p: Load(Param("p"), GP64())}
	if !a.VNNI {
		k.ones = k.constant(0x00010001)
	}
	return k
}

// vec takes a free register.
func (k *product) vec() Register { return k.Vec() }

// constant fills a register.
func (k *product) constant(v uint32) Register { return k.Fill(v) }

// multiply adds the products of four columns of every row, with those of x at disp.
func (k *product) multiply(acc accumulators, x Rows, disp int, w []lane) {
	var low []Register // of 8-bit codes in two halves
	if k.nibble != nil {
		for _, l := range w {
			v := k.vec()
			k.And(k.nibble, l.v, v)
			VPSRLD(Imm(4), l.v, l.v)
			k.And(k.nibble, l.v, l.v)
			low = append(low, v)
		}
	}
	b := k.vec()
	for t := range k.tokens {
		VPBROADCASTD(x.At(t, disp), b)
		for i, l := range w {
			sum := acc[t][l.part]
			switch {
			case k.VNNI:
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
func (k *product) blocks(body func(acc accumulators, x Rows, codes Register)) {
	codes := Field(k.p, OffCodes)
	Panels(k.p, k.tokens == 1, func(at Panel) {
		x := RowsAt(Field(k.p, OffX), Field(k.p, OffStride), k.tokens)
		k.clear(at.Y())
		Blocks(k.p, codes, k.tokens == 1, func(block, head, row Register) {
			acc := make(accumulators, k.tokens)
			for t := range acc {
				acc[t] = k.panel()
			}
			k.offsets(acc, Row(k.p, OffSums, row), head)
			k.beginSecond()
			Steps(block, func() { body(acc, x, codes) })
			k.addSecond(acc)
			k.finish(acc, row, head, at.Y())
		})
	})
}

// With one token the chain of additions to one register would take longer than its weights: a second one takes every other.

// beginSecond clears the second accumulators.
func (k *product) beginSecond() {
	if k.tokens > 1 || !k.Wide {
		return
	}
	k.other = accumulators{k.panel()}
	for _, v := range k.other[0] {
		VPXORD(v, v, v)
	}
}

// second returns the second accumulators, or the first where there are no others.
func (k *product) second(acc accumulators) accumulators {
	if k.other == nil {
		return acc
	}
	return k.other
}

// addSecond adds the second accumulators to the first.
func (k *product) addSecond(acc accumulators) {
	if k.other == nil {
		return
	}
	for part, v := range k.other[0] {
		if k.sixteenfold {
			VPSRAD(Imm(4), v, v)
		}
		VPADDD(v, acc[0][part], acc[0][part])
	}
}

// panel takes registers for the rows of a panel.
func (k *product) panel() []Register { return k.panelOf(k.Parts()) }

// panelOf takes so many registers.
func (k *product) panelOf(n int) (v []Register) {
	for range n {
		v = append(v, k.vec())
	}
	return v
}

// clear sets the results to zero.
func (k *product) clear(y Register) {
	zero := k.vec()
	k.Zero(zero)
	for i := 0; i < k.tokens*StepBytes; i += k.Bytes() {
		k.Move(zero, Mem{Base: y, Disp: i})
	}
}
