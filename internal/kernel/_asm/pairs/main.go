// Command pairs writes the assembly of products of panels and bfloat16 activations. internal/kernel/panel.go has the layout
// of panels and the definition of the products. Registers are numbered by hand, as VDPBF16PS needs them.
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
		unpack(AVX2, 4)
		unpack(AVX2, 8)
		round(AVX2)
		pairs(AVX2, 1)
		pairs(AVX2, 2)
		pairs(AVX2, 4)
	case "avx512":
		unpackTable(AVX512, numbers())
		unpack(AVX512, 8)
		round(AVX512)
		for _, t := range []int{1, 2, 4, 8} {
			pairs(AVX512, t)
		}
	case "bf16":
		for _, t := range []int{1, 2, 4, 8, 12} {
			pairs(BF16, t)
		}
		n := numbers()
		for _, t := range []int{1, 2, 4, 8} {
			direct4(BF16, t, n)
		}
	}
	Generate()
}

var (
	zmm = []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15,
		Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31}
	ymm = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}
)

// product is a kernel that is being written.
type product struct {
	ISA
	p      Register
	panels int             // that are multiplied side by side, by one token
	acc    [][]VecPhysical // of each token and part of the panel
	parts  int             // of the panel that are multiplied together
	first  Register        // the first row of those; nil: all are
	free   []VecPhysical
	high   VecPhysical // a mask of the upper halves of float32, without bf16
}

func begin(a ISA, name, doc string, tokens int) *product {
	name = fmt.Sprintf("%sx%d%s", name, tokens, a.Name)
	TEXT(name, NOSPLIT, "func(p *byte)")
	Doc(fmt.Sprintf("%s is %s for %d tokens; pairs is the specification.", name, doc, tokens))
	k := &product{ISA: a, p: Load(Param("p"), GP64()), free: ymm, acc: make([][]VecPhysical, tokens)}
	if a.Wide {
		k.free = zmm
	}
	k.parts = a.Parts()
	if !a.Wide && tokens > 2 {
		k.parts = 2
	}
	for t := range k.acc {
		k.acc[t] = k.take(k.parts)
	}
	if !a.BF16 {
		k.high = k.take(1)[0]
		fill(k.high, 0xffff0000)
	}
	return k
}

// take reserves registers.
func (k *product) take(n int) []VecPhysical {
	r := k.free[:n]
	k.free = k.free[n:]
	return r
}

// borrow lets f use the registers that it takes.
func (k *product) borrow(f func()) {
	was := k.free
	f()
	k.free = was
}

// fill sets every 32 bits of a register.
func fill(r VecPhysical, v uint32) {
	c := GP32()
	MOVL(U32(v), c)
	VMOVD(c, r.AsX())
	VPBROADCASTD(r.AsX(), r)
}

// pairs multiplies pairs of a panel by the activations of so many tokens.
func pairs(a ISA, tokens int) {
	k := begin(a, "pairs", "Pairs", tokens)
	k.blocks(func(x Rows, codes Register) {
		for i := range 4 {
			k.together(func(list []lane) {
				for j := range list {
					l := &list[j]
					l.v = k.take(1)[0]
					a.Move(k.ofRows(Mem{Base: codes, Disp: i * StepBytes}, l.part*a.Bytes()/4, 4), l.v)
				}
				k.multiply(x, 4*i, list)
			})
		}
		if k.first != nil {
			FetchRows(k.p, codes, k.first, 4*StepBytes)
		} else {
			k.Fetch(k.p, codes, tokens, 4)
		}
		ADDQ(U32(4*StepBytes), codes)
		x.Advance(16)
	})
}

// direct4 multiplies 4-bit codes less mid; numbers are 0 to 15. A table turns codes into bfloat16.
func direct4(a ISA, tokens int, numbers Mem) {
	k := begin(a, "direct4", "Codes4Pairs", tokens)
	table := k.take(1)[0]
	k.borrow(func() {
		v, w := k.take(1)[0], k.take(1)[0]
		tableOf(table, v, w, Mem{Base: k.p, Disp: OffMid}, numbers)
	})
	k.blocks(func(x Rows, codes Register) {
		w := k.take(len(k.acc[0]))
		for part, v := range w {
			VMOVDQU32(Mem{Base: codes, Disp: part * a.Bytes()}, v)
		}
		k.Fetch(k.p, codes, tokens, 1)
		ADDQ(U32(StepBytes), codes)
		// Bits 0 and 8 begin the columns 0, 2 and 1, 3 of the step, bits 4 and 12 the columns 4, 6 and 5, 7.
		for i, bit := range []uint64{0, 8, 4, 12} {
			k.borrow(func() {
				v := k.take(len(w))
				var list []lane
				for p := range w {
					from := w[p]
					if bit > 0 {
						VPSRLD(Imm(bit), w[p], v[p])
						from = v[p]
					}
					VPERMW(table, from, v[p])
					list = append(list, lane{p, v[p]})
				}
				k.multiply(x, 4*i, list)
			})
		}
		x.Advance(16)
	})
}

// lane is a register with weights of some rows of the panel.
type lane struct {
	part int
	v    VecPhysical
}

// together calls f with lanes without registers: all at once if there are registers for them, else one by one.
func (k *product) together(f func(list []lane)) {
	var list []lane
	for part := range k.parts {
		list = append(list, lane{part: part})
	}
	if k.Wide || k.parts < k.Parts() {
		k.borrow(func() { f(list) })
		return
	}
	for i := range list {
		k.borrow(func() { f(list[i : i+1]) })
	}
}

// multiply adds the products of a pair of columns of every row, with those of x at disp.
func (k *product) multiply(x Rows, disp int, w []lane) {
	b := k.take(1)[0]
	if k.BF16 {
		for t := range k.acc {
			VPBROADCASTD(x.At(t, disp), b)
			for _, l := range w {
				VDPBF16PS(b, l.v, k.acc[t][l.part])
			}
		}
		return
	}
	first := k.take(len(w))
	for i, l := range w {
		VPSLLD(Imm(16), l.v, first[i])
		k.And(k.high, l.v, l.v)
	}
	second := k.take(1)[0]
	var v VecPhysical // a product
	if k.Wide {
		v = k.take(1)[0]
	}
	for t := range k.acc {
		VPBROADCASTD(x.At(t, disp), b)
		k.And(k.high, b, second)
		VPSLLD(Imm(16), b, b)
		for i, l := range w {
			sum := k.acc[t][l.part]
			if !k.Wide { // products are exact
				VFMADD231PS(second, l.v, sum)
				VFMADD231PS(b, first[i], sum)
				continue
			}
			VMULPS(second, l.v, v)
			VADDPS(v, sum, sum)
			VMULPS(b, first[i], v)
			VADDPS(v, sum, sum)
		}
	}
}

// blocks runs over all blocks; body multiplies PanelStep columns and moves on.
func (k *product) blocks(body func(x Rows, codes Register)) {
	codes := Field(k.p, OffCodes)
	Panels(k.p, len(k.acc) == 1, func(at Panel) {
		x := RowsAt(Field(k.p, OffX), Field(k.p, OffStride), len(k.acc))
		k.clear(at.Y())
		for t := range k.acc {
			for _, v := range k.acc[t] {
				k.Zero(v)
			}
		}
		Blocks(k.p, codes, len(k.acc) == 1, func(block, head, row Register) {
			EachRows(k.parts*k.Bytes()/4, func(first Register) {
				k.first = first
				Steps(block, func() { k.borrow(func() { body(x, codes) }) })
				for part := range k.parts {
					k.borrow(func() { k.finish(part, row, head, at.Y()) })
				}
			}, func() {
				n := GP64()
				MOVLQSX(Mem{Base: block}, n)
				IMUL3Q(I32(-2*PanelStep), n, n)
				x.Step(n)
				IMUL3Q(U32(2*StepBytes/PanelStep), n, n)
				ADDQ(n, codes)
			})
		})
	})
}

// ofRows is where the values of rows from one on are, so many bytes each, of rows that begin at m.
func (k *product) ofRows(m Mem, row, size int) Mem {
	m.Disp += row * size
	if k.first != nil {
		m.Index, m.Scale = k.first, uint8(size)
	}
	return m
}

// clear sets the results to zero.
func (k *product) clear(y Register) {
	v := k.acc[0][0]
	k.Zero(v)
	for i := 0; i < len(k.acc)*StepBytes; i += k.Bytes() {
		k.Move(v, Mem{Base: y, Disp: i})
	}
}

// finish adds the sums of a block, of some rows, to the results, and begins anew.
func (k *product) finish(part int, row, head, y Register) {
	label := func(name string) string { return fmt.Sprintf("%s%d", name, part) }
	rows := part * k.Bytes() / 4
	CMPQ(Mem{Base: k.p, Disp: OffHead}, Imm(0))
	JE(LabelRef(label("plain")))

	total, v, s := k.take(1)[0], k.take(1)[0], k.take(1)[0]
	zeros := InHead(k.p, OffZeros, head, label("centred"))
	VPMOVZXBD(k.ofRows(Mem{Base: zeros}, rows, 1), v)
	VPBROADCASTD(Mem{Base: k.p, Disp: OffMid}, s)
	VPSUBD(v, s, s)
	VCVTDQ2PS(s, s)
	totals := Row(k.p, OffTotals, row)
	for t := range k.acc {
		sum := k.acc[t][part]
		VBROADCASTSS(Mem{Base: totals, Disp: 4 * t}, total)
		VMULPS(total, s, v)
		VADDPS(v, sum, sum)
	}
	Label(label("centred"))
	Floats(k.p, label("scales"), head, k.first, rows, k.Bytes(), []Register{s})
	for t := range k.acc {
		VMULPS(s, k.acc[t][part], k.acc[t][part])
	}
	biases := InHead(k.p, OffBiases, head, label("plain"))
	Floats(k.p, label("biases"), biases, k.first, rows, k.Bytes(), []Register{s})
	totals = Row(k.p, OffTotals, row)
	for t := range k.acc {
		sum := k.acc[t][part]
		VBROADCASTSS(Mem{Base: totals, Disp: 4 * t}, total)
		VMULPS(s, total, v)
		VADDPS(v, sum, sum)
	}
	Label(label("plain"))
	for t := range k.acc {
		sum, at := k.acc[t][part], k.ofRows(Mem{Base: y, Disp: t * StepBytes}, rows, 4)
		VADDPS(at, sum, sum)
		VMOVUPS(sum, at)
		k.Zero(sum)
	}
}
