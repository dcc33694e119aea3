// Command lanes writes the assembly of what the searches of blocks of codes do over and over.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// one is 1 as a float32, in bits.
const one = 0x3f800000

// Rows of a Way, 32 bytes each.
const (
	scale = iota
	floor
	sumQ
	sumQQ
	sumR
	sumQR
	sumRR
	rows
)

func main() {
	ConstraintExpr("!purego")
	integers("lineWaysAVX2", true, 1)
	integers("scaleWaysAVX2", false, 1)
	integers("lineWaysAVX512", true, 2)
	integers("scaleWaysAVX512", false, 2)
	levels("levelWaysAVX2")
	Generate()
}

// wide is vectors of one way, or of two beside one another.
type wide int

// vector makes a register.
func (p wide) vector() VecVirtual {
	if p == 2 {
		return ZMM()
	}
	return YMM()
}

// zero clears a register.
func (p wide) zero(v VecVirtual) {
	if p == 2 {
		VPXORQ(v, v, v)
	} else {
		VXORPS(v, v, v)
	}
}

// field is row i of way k.
func field(ways Register, k wide, i int) Mem { return Mem{Base: ways, Disp: 32 * (int(k)*rows + i)} }

// load reads a row of the ways.
func (p wide) load(ways Register, i int) VecVirtual {
	v := p.vector()
	VMOVUPS(field(ways, 0, i), v.AsY())
	if p == 2 {
		VINSERTF64X4(Imm(1), field(ways, 1, i), v, v)
	}
	return v
}

// store writes a row.
func (p wide) store(v VecVirtual, ways Register, i int) {
	VMOVUPS(v.AsY(), field(ways, 0, i))
	if p == 2 {
		VEXTRACTF64X4(Imm(1), v, field(ways, 1, i))
	}
}

// weights reads a row of Lanes, for both ways.
func (p wide) weights(m Mem) VecVirtual {
	v := p.vector()
	if p == 2 {
		VBROADCASTF64X4(m, v)
	} else {
		VMOVUPS(m, v)
	}
	return v
}

// search is a function: the ways that are left, and what becomes of t.
type search struct {
	ways, count Register
	ones        VecVirtual
	floors      bool
	value       func(p wide, t VecVirtual) (q VecVirtual)
}

// begin writes the head of a function.
func begin(name, more string) *search {
	TEXT(name, NOSPLIT, "func(ways *float32, count int, w, c *float32, n int, "+more+")")
	Doc(name + " fills the sums of ways; lanes.go is the specification.")
	s := &search{ways: Load(Param("ways"), GP64()), count: Load(Param("count"), GP64()), ones: YMM()}
	bits, low := GP32(), XMM()
	MOVL(U32(one), bits)
	VMOVD(bits, low)
	VBROADCASTSS(low, s.ones)
	return s
}

// integers writes the sums for values from lo to hi.
func integers(name string, floors bool, most wide) {
	s := begin(name, "lo, hi float32")
	lo, hi := most.vector(), most.vector()
	for _, p := range []struct {
		name string
		to   VecVirtual
	}{{"lo", lo}, {"hi", hi}} {
		a, err := Param(p.name).Resolve()
		if err != nil {
			panic(err) // a mistake in this file
		}
		VBROADCASTSS(a.Addr, p.to)
	}
	s.floors = floors
	s.value = func(p wide, t VecVirtual) VecVirtual {
		q := p.vector()
		if p == 2 {
			VMAXPS(lo, t, q) // of a NaN, and of equals, lo
			VMINPS(hi, q, q)
			VRNDSCALEPS(Imm(0), q, q)
		} else {
			VMAXPS(lo.AsY(), t, q)
			VMINPS(hi.AsY(), q, q)
			VROUNDPS(Imm(0), q, q)
		}
		return q
	}
	s.write(most)
}

// levels writes the sums for values from a table: a search in halves among the middles, the eight of the last step in one register.
func levels(name string) {
	s := begin(name, "values, middles *float32")
	values, middles := Load(Param("values"), GP64()), Load(Param("middles"), GP64())
	first := YMM()
	VBROADCASTSS(Mem{Base: middles, Disp: 4 * 7}, first)
	// step k has 2^k middles, from number 2^(3-k) - 1 on, 2^(4-k) apart
	var steps []VecVirtual
	for k := 1; k < 4; k++ {
		v := YMM()
		at := AllocLocal(32)
		for i := range 8 {
			x := GP32()
			MOVL(Mem{Base: middles, Disp: 4 * (1<<(3-k) - 1 + i%(1<<k)<<(4-k))}, x)
			MOVL(x, at.Offset(4*i))
		}
		VMOVUPS(at, v)
		steps = append(steps, v)
	}
	low, high := YMM(), YMM()
	VMOVUPS(Mem{Base: values}, low)
	VMOVUPS(Mem{Base: values, Disp: 32}, high)
	s.value = func(_ wide, t VecVirtual) VecVirtual {
		code, mask, middle := YMM(), YMM(), YMM()
		VCMPPS(Imm(29), first, t, mask) // t ≥ middle, no NaN, quietly
		VPSRLD(Imm(31), mask, code)
		for _, v := range steps {
			VPERMPS(v, code, middle)
			VCMPPS(Imm(29), middle, t, mask)
			VPADDD(code, code, code)
			VPSUBD(mask, code, code)
		}
		q, other := YMM(), YMM()
		VPERMPS(low, code, q)
		VPERMPS(high, code, other)
		VPSLLD(Imm(28), code, code) // bit 3 chooses
		VBLENDVPS(code, other, q, q)
		return q
	}
	s.write(1)
}

// write writes the loops: most ways at a time, then one.
func (s *search) write(most wide) {
	next := "single"
	if most == 2 {
		Label("pairs")
		CMPQ(s.count, Imm(2))
		JLT(LabelRef(next))
		s.way(2)
		JMP(LabelRef("pairs"))
	}
	Label(next)
	TESTQ(s.count, s.count)
	JZ(LabelRef("done"))
	s.way(1)
	JMP(LabelRef(next))
	Label("done")
	VZEROUPPER()
	RET()
}

// way writes the sums of p ways, and goes on to the next.
func (s *search) way(p wide) {
	label := []string{"", "weights", "weightsOfPairs"}[p]
	w, c, n := Load(Param("w"), GP64()), Load(Param("c"), GP64()), Load(Param("n"), GP64())
	inverse := p.load(s.ways, scale)
	ones := s.ones
	if p == 2 {
		ones = ZMM()
		VBROADCASTSS(s.ones.AsX(), ones)
	}
	VDIVPS(inverse, ones, inverse)
	var offset VecVirtual
	kept := []int{sumQQ, sumQR, sumRR}
	if s.floors {
		offset = p.load(s.ways, floor)
		kept = []int{sumQ, sumQQ, sumR, sumQR, sumRR}
	}
	sums := map[int]VecVirtual{}
	for _, i := range kept {
		sums[i] = p.vector()
		p.zero(sums[i])
	}
	add := func(i int, v VecVirtual) { VADDPS(v, sums[i], sums[i]) }
	TESTQ(n, n)
	JZ(LabelRef(label + "Done"))
	Label(label)
	t := p.weights(Mem{Base: w})
	if s.floors {
		VADDPS(offset, t, t)
	}
	VMULPS(inverse, t, t)
	q := s.value(p, t)
	VSUBPS(q, t, t) // r
	cq, cr, x := p.weights(Mem{Base: c}), p.vector(), p.vector()
	VMULPS(t, cq, cr)
	VMULPS(q, cq, cq)
	if s.floors {
		add(sumQ, cq)
		add(sumR, cr)
	}
	VMULPS(q, cq, x)
	add(sumQQ, x)
	VMULPS(t, cq, cq)
	add(sumQR, cq)
	VMULPS(t, cr, cr)
	add(sumRR, cr)
	ADDQ(Imm(32), w)
	ADDQ(Imm(32), c)
	DECQ(n)
	JNZ(LabelRef(label))
	Label(label + "Done")
	for _, i := range kept {
		p.store(sums[i], s.ways, i)
	}
	ADDQ(U32(32*rows*int(p)), s.ways)
	SUBQ(Imm(uint64(p)), s.count)
}
