// Command lanes writes the assembly of what the searches of blocks of codes do over and over.
package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

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

// Rows of Best.
const (
	bestLoss = iota
	bestScale
	bestFloor
	bestWay
)

// Rows of Minima.
const (
	minimum = iota
	unit
	inverseUnit
	top
	mean
)

// Rows of Lanes from W on.
const (
	weights  = 0
	counts   = 32
	least    = 64
	most     = 65
	heaviest = 66
	sumC     = 67
	sumW     = 68
	energy   = 69
)

func main() {
	ConstraintExpr("!purego")
	load()
	weigh()
	steps()
	flat()
	ends()
	for _, set := range []struct {
		name string
		wide
	}{{"AVX2", 1}, {"AVX512", 2}} {
		all := []int{sumQ, sumQQ, sumR, sumQR, sumRR}
		integers("lineWays"+set.name, "lo, hi, bottom float32", set.wide, (*search).fitLine, all...)
		integers("minimaWays"+set.name, "lo, hi float32, m *float32", set.wide, (*search).fitMinimum, all...)
		integers("scaleWays"+set.name, "lo, hi float32", set.wide, (*search).fitScale, sumQQ, sumQR, sumRR)
		integers("errorWays"+set.name, "lo, hi float32", set.wide, (*search).same, sumRR)
	}
	levels("levelWaysAVX2")
	Generate()
}

// wide is vectors of one way, or of two beside one another.
type wide int

// evex says that the function is one of AVX-512, whose registers beyond 15 other instructions cannot name.
var evex bool

// round rounds a register to integers, ties to even.
func round(v VecVirtual) {
	if evex {
		VRNDSCALEPS(Imm(0), v, v)
	} else {
		VROUNDPS(Imm(0), v, v)
	}
}

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

// shared reads row i of lanes, for both ways.
func (p wide) shared(lanes Register, i int) VecVirtual {
	v := p.vector()
	if p == 2 {
		VBROADCASTF64X4(Mem{Base: lanes, Disp: 32 * i}, v)
	} else {
		VMOVUPS(Mem{Base: lanes, Disp: 32 * i}, v)
	}
	return v
}

// every fills a register with a number.
func (p wide) every(x float32) VecVirtual {
	bits, low, v := GP32(), XMM(), p.vector()
	MOVL(U32(math.Float32bits(x)), bits)
	VMOVD(bits, low)
	VBROADCASTSS(low, v)
	return v
}

// search is a function: the ways that are left, the sums that it fills, what becomes of t, and of the sums of a way: scale, floor and loss.
type search struct {
	ways, count, lanes Register
	sums               []int
	value              func(p wide, t VecVirtual) (q VecVirtual)
	fit                func(s *search, p wide, sums map[int]VecVirtual) (scale, floor, loss VecVirtual)
}

// floors says that ways have them.
func (s *search) floors() bool { return len(s.sums) != 3 }

// begin writes the head of a function.
func begin(name, more string, sums ...int) *search {
	TEXT(name, NOSPLIT, "func(ways *float32, count int, lanes *float32, n int, "+more+", best *float32)")
	Doc(name + " fills ways; lanes.go is the specification.")
	return &search{ways: Load(Param("ways"), GP64()), count: Load(Param("count"), GP64()), lanes: Load(Param("lanes"), GP64()), sums: sums}
}

// parameter is where a parameter is.
func parameter(name string) Mem {
	a, err := Param(name).Resolve()
	if err != nil {
		panic(err) // a mistake in this file
	}
	return a.Addr
}

// spread fills a register with a parameter.
func spread(name string, v VecVirtual) VecVirtual {
	VBROADCASTSS(parameter(name), v)
	return v
}

// integers writes the sums for values from lo to hi.
func integers(name, more string, most wide, fit func(*search, wide, map[int]VecVirtual) (scale, floor, loss VecVirtual), sums ...int) {
	s := begin(name, more, sums...)
	evex = most == 2
	lo, hi := spread("lo", most.vector()), spread("hi", most.vector())
	s.fit = fit
	s.value = func(p wide, t VecVirtual) VecVirtual {
		q := p.vector()
		if p == 2 {
			VMAXPS(lo, t, q) // of a NaN, and of equals, lo
			VMINPS(hi, q, q)
		} else {
			VMAXPS(lo.AsY(), t, q)
			VMINPS(hi.AsY(), q, q)
		}
		round(q)
		return q
	}
	s.write(most)
}

// levels writes the sums for values from a table: a search in halves among the middles, the eight of the last step in one register.
func levels(name string) {
	s := begin(name, "values, middles *float32", sumQQ, sumQR, sumRR)
	evex = false
	s.fit = (*search).fitScale
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

// way writes p ways, and goes on to the next.
func (s *search) way(p wide) {
	label := []string{"", "weights", "weightsOfPairs"}[p]
	w, n := GP64(), Load(Param("n"), GP64())
	MOVQ(s.lanes, w)
	inverse := p.load(s.ways, scale)
	VDIVPS(inverse, p.every(1), inverse)
	var offset VecVirtual
	if s.floors() {
		offset = p.load(s.ways, floor)
	}
	sums := map[int]VecVirtual{}
	for _, i := range s.sums {
		sums[i] = p.vector()
		p.zero(sums[i])
	}
	Label(label)
	t := p.shared(w, weights)
	if s.floors() {
		VADDPS(offset, t, t)
	}
	VMULPS(inverse, t, t)
	q := s.value(p, t)
	VSUBPS(q, t, t) // r
	c, cr, cq := p.shared(w, counts), p.vector(), p.vector()
	VMULPS(t, c, cr)
	VMULPS(q, c, cq)
	for _, i := range s.sums {
		x := p.vector()
		switch i {
		case sumQ:
			x = cq
		case sumQQ:
			VMULPS(q, cq, x)
		case sumR:
			x = cr
		case sumQR:
			VMULPS(t, cq, x)
		case sumRR:
			VMULPS(t, cr, x)
		}
		VADDPS(x, sums[i], sums[i])
	}
	ADDQ(Imm(32), w)
	DECQ(n)
	JNZ(LabelRef(label))
	for _, i := range s.sums {
		p.store(sums[i], s.ways, i)
	}
	a, b, loss := s.fit(s, p, sums)
	best := Load(Param("best"), GP64())
	number := Load(Param("count"), GP64())
	SUBQ(s.count, number)
	keep(best, number, a.AsY(), b.AsY(), loss.AsY())
	if p == 2 {
		INCQ(number)
		keep(best, number, upper(a), upper(b), upper(loss))
	}
	ADDQ(U32(32*rows*int(p)), s.ways)
	SUBQ(Imm(uint64(p)), s.count)
}
