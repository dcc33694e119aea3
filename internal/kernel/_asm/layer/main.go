// Command layer writes the assembly of what happens to vectors between the products of matrices.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("!purego")
	table()
	for _, s := range []set{{"AVX2", false}, {"AVX512", true}} {
		vectors(s)
		softmax(s)
		curves(s)
		doubles(s)
		integers(s)
	}
	Generate()
}

// set is one of the two kinds of registers.
type set struct {
	name string
	wide bool
}

func (s set) reg() VecVirtual {
	if s.wide {
		return ZMM()
	}
	return YMM()
}

// start starts a function of the set.
func (s set) start(name, signature, doc string) {
	TEXT(name+s.name, NOSPLIT, signature)
	Doc(name + s.name + " " + doc)
}

// function is start for AVX-512's any number of elements and AVX2's multiples of 8.
func (s set) function(name, signature, doc string) {
	if !s.wide {
		doc += " Lengths are multiples of 8."
	}
	s.start(name, signature, doc+" The specification is "+name+".")
}

// done returns.
func done() {
	VZEROUPPER()
	RET()
}

// broadcast loads a float32 parameter at an offset.
func (s set) broadcast(name string, offset int) VecVirtual {
	r := s.reg()
	VBROADCASTSS(NewParamAddr(name, offset), r)
	return r
}

func base(name string) Register { return Load(Param(name).Base(), GP64()) }

// lane is one register full of elements, or under a mask what is left of them.
type lane struct {
	set
	at   Register // of the first, as a number of elements
	more int      // elements behind that
	mask Op       // nil: all
}

func (l lane) mem(base Register) Mem { return Mem{Base: base, Index: l.at, Scale: 4, Disp: 4 * l.more} }

// load reads elements; those behind the end are 0.
func (l lane) load(base Register) VecVirtual {
	r := l.reg()
	if l.mask != nil {
		VMOVUPS_Z(l.mem(base), l.mask, r)
	} else {
		VMOVUPS(l.mem(base), r)
	}
	return r
}

func (l lane) store(r VecVirtual, base Register) {
	if l.mask != nil {
		VMOVUPS(r, l.mask, l.mem(base))
	} else {
		VMOVUPS(r, l.mem(base))
	}
}

var loops int

// width returns the number of float32 in a register.
func (s set) width() int {
	if s.wide {
		return 16
	}
	return 8
}

// each runs body over the elements of a slice, a register at a time.
func (s set) each(slice string, body func(l lane)) { s.eachBy(slice, s.width(), body) }

// eachBy is each in larger steps, of which body gets the first register.
func (s set) eachBy(slice string, step int, body func(l lane)) {
	loops++
	label := func(name string) string { return fmt.Sprintf("%s%d", name, loops) }
	loop, tail, end := label("loop"), label("tail"), label("end")
	n, at := Load(Param(slice).Len(), GP64()), GP64()
	XORQ(at, at)
	SUBQ(Imm(uint64(step)), n)
	JL(LabelRef(tail))
	Label(loop)
	body(lane{s, at, 0, nil})
	ADDQ(Imm(uint64(step)), at)
	SUBQ(Imm(uint64(step)), n)
	JGE(LabelRef(loop))
	Label(tail)
	if !s.wide {
		return
	}
	ADDQ(Imm(16), n)
	JZ(LabelRef(end))
	bits, mask := GP64(), K()
	MOVQ(U64(0xffff), bits)
	SHLXQ(n, bits, bits)
	NOTQ(bits)
	KMOVW(bits.As32(), mask)
	body(lane{s, at, 0, mask})
	Label(end)
}

// vectors are scaling, the weights of a norm, and rotation.
func vectors(s set) {
	s.function("times", "func(x []float32, a float32)", "multiplies x by a.")
	x, a := base("x"), s.broadcast("a", 24)
	s.each("x", func(l lane) {
		v := l.load(x)
		VMULPS(v, a, v)
		l.store(v, x)
	})
	done()

	s.function("weigh", "func(dst, x, w []float32, scale, one float32)", "sets dst to x times scale times the sum of one and w.")
	dst, x, w := base("dst"), base("x"), base("w")
	scale, one := s.broadcast("scale", 72), s.broadcast("one", 76)
	s.each("x", func(l lane) {
		v, f := l.load(x), l.load(w)
		VMULPS(scale, v, v)
		VADDPS(f, one, f)
		VMULPS(f, v, v)
		l.store(v, dst)
	})
	done()

	s.function("rotate", "func(lo, hi, cos, sin []float32)", "turns pairs by angles.")
	lo, hi, cos, sin := base("lo"), base("hi"), base("cos"), base("sin")
	s.each("cos", func(l lane) {
		a, b, c, d := l.load(lo), l.load(hi), l.load(cos), l.load(sin)
		p, q := s.reg(), s.reg()
		VMULPS(c, a, p)
		VMULPS(d, b, q)
		VSUBPS(q, p, p)
		l.store(p, lo)
		VMULPS(c, b, p)
		VMULPS(d, a, q)
		VADDPS(q, p, p)
		l.store(p, hi)
	})
	done()
}

// reduce returns what op makes of all elements, pair by pair of halves.
func (s set) reduce(v VecVirtual, op func(a, b, to VecVirtual)) VecVirtual {
	x, next := XMM(), XMM()
	if s.wide {
		y := YMM()
		VEXTRACTF64X4(Imm(1), v, y)
		op(y, v.AsY().(VecVirtual), y)
		v = y
		VEXTRACTF32X4(Imm(1), v, x)
	} else {
		VEXTRACTF128(Imm(1), v, x)
	}
	op(x, v.AsX().(VecVirtual), x)
	for _, order := range []uint64{0x4e, 0xb1} {
		VPERMILPS(Imm(order), x, next)
		op(next, x, x)
	}
	return x
}
