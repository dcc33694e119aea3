package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "nibble/internal/kernel/asm/emit"
)

// fit is how many sums of four columns fit into 16 bits, or as many as a group has.
func (k kind) fit() int {
	if k.table { // split
		return min(Fits(15), k.group/4)
	}
	return min(Fits(1<<(4+k.high)-1), k.group/4)
}

// packed reports whether short reads codes as the panel has them: those of 4 bits.
func (k kind) packed() bool { return k.high == 0 && !k.table }

// short multiplies a panel by so many tokens without VNNI, some rows of it after the other. Codes of more than 4 bits are those of 8 bits.
func short(a ISA, k kind, tokens int) {
	name := fmt.Sprintf("%sx%d%s", k.name, tokens, a.Name)
	TEXT(name, NOSPLIT, "func(p *byte)")
	Doc(fmt.Sprintf("%s is KBlocks for %d tokens; kblocksOne is the specification.", name, tokens))
	x := &product{ISA: a, kind: k, tokens: tokens, p: Load(Param("p"), GP64()), sums: NewShort(a, tokens, k.table)}
	half := k.wide()
	if k.packed() {
		half = k.half()
	}
	x.records(half, func(at place) {
		fit := k.fit()
		for quad := range k.group / 4 {
			x.sums.Add(at.acts, 4*quad, x.weights(at.data, quad), quad%fit == 0)
			if quad%fit == fit-1 {
				x.sums.Keep(x.sums.Widen(x.times(at)))
			}
		}
		FetchRows(x.p, at.data, x.first, (half-k.scales())/(block/k.group))
	})
}

// weights loads the codes of four columns of a group.
func (x *product) weights(data Register, quad int) [2]Register {
	w := [2]Register{x.Vec(), x.Vec()}
	from := Mem{Base: data, Index: x.first, Scale: 4, Disp: quad * StepBytes}
	if x.sums.Split {
		x.sums.Low(from, w[0])
		x.sums.High(from, w[1])
		return w
	}
	load := x.Move
	if x.packed() {
		from.Disp = quad / 2 * StepBytes
		load = []func(from, to Op){x.sums.Low, x.sums.High}[quad%2]
	}
	for part, v := range w {
		load(from.Offset(part*x.Bytes()), v)
	}
	return w
}

// times loads the scales of the rows that are multiplied; where codes are split, those of both halves.
func (x *product) times(at place) [2]Register {
	s := [2]Register{x.scale(at, 0), nil}
	if x.sums.Split {
		s[1] = x.Vec()
		VPSLLW(Imm(4), s[0], s[1])
	} else {
		s[1] = x.scale(at, 1)
	}
	return s
}

// scale loads the scales of a part of the rows, each of them twice.
func (x *product) scale(at place, part int) Register {
	v, both := x.Vec(), Imm(0xa0)
	if at.second {
		both = Imm(0xf5)
	}
	VPMOVSXBW(x.ofRows(Mem{Base: at.scales}, part, 2), v)
	VPSHUFLW(both, v, v)
	VPSHUFHW(both, v, v)
	return v
}

// beginOneShort begins a product of one token whose sums are in 16 bits first, those of all rows side by side.
func beginOneShort(a ISA, k kind) *product {
	x := &product{ISA: a, kind: k, tokens: 1, p: Load(Param("p"), GP64()), nibble: a.Fill(0x0f0f0f0f)}
	x.unpacker()
	x.isums, x.dots = make([][]Register, 1), make([][]Register, 1)
	for range a.Parts() {
		x.isums[0], x.dots[0] = append(x.isums[0], a.Vec()), append(x.dots[0], a.Vec())
	}
	return x
}

// oneShort multiplies a group.
func (x *product) oneShort(at place) {
	FetchAhead(at.data, AheadOfOne, x.groupBytes())
	acts := [2]Register{x.Vec(), x.Vec()}
	for quad := 0; quad < x.kind.group/4; quad += 2 {
		for i, b := range acts {
			VPBROADCASTD(at.acts.At(0, 4*(quad+i)), b)
		}
		for part, sum := range x.dots[0] {
			first := quad%x.fit() == 0
			x.pair(at.data, quad, part, func(i int, w Register) {
				if first {
					VPMADDUBSW(acts[i], w, sum)
					first = false
					return
				}
				VPMADDUBSW(acts[i], w, w)
				VPADDW(w, sum, sum)
			})
		}
		if (quad+2)%x.fit() == 0 {
			for part, sum := range x.dots[0] {
				VPMADDWD(x.scale(at, part), sum, sum)
				VPADDD(sum, x.isums[0][part], x.isums[0][part])
			}
		}
	}
}

// pair takes the codes of two times four columns apart, of a part of the rows: f gets the codes of the first and the second.
func (x *product) pair(data Register, quad, part int, f func(i int, w Register)) {
	codes := Mem{Base: data, Disp: quad/2*StepBytes + part*x.Bytes()}
	var high Register
	if x.high > 0 {
		high = x.Vec()
		x.Move(Mem{Base: data, Disp: part * x.Bytes()}, high)
		codes.Disp += StepBytes
	}
	v, w := x.Vec(), x.Vec()
	x.Move(codes, v)
	x.And(x.nibble, v, w)
	for i, codes := range []Register{w, v} {
		if i == 1 {
			VPSRLD(Imm(4), v, v)
			x.And(x.nibble, v, v)
		}
		if high != nil {
			x.addHigh(high, quad+i, codes)
		}
		f(i, codes)
	}
}
