package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Predicates of a comparison: false for what is no number, quietly, but for the first.
const (
	unequal    = 4 // true for what is no number
	smaller    = 17
	notGreater = 18
	atLeast    = 29
	greater    = 30
)

// op makes the result of an operation on two registers: a − b, a ÷ b and so on.
func (p wide) op(f func(...Op), a, b VecVirtual) VecVirtual {
	v := p.vector()
	f(b, a, v)
	return v
}

func (p wide) add(a, b VecVirtual) VecVirtual { return p.op(VADDPS, a, b) }
func (p wide) sub(a, b VecVirtual) VecVirtual { return p.op(VSUBPS, a, b) }
func (p wide) mul(a, b VecVirtual) VecVirtual { return p.op(VMULPS, a, b) }
func (p wide) div(a, b VecVirtual) VecVirtual { return p.op(VDIVPS, a, b) }

// mask says for every number yes or no.
type mask struct {
	y VecVirtual // of AVX2
	k Register   // of AVX-512
}

// compare makes a mask of a ≥ b, a > b or a < b.
func compare(predicate uint64, a, b Op) mask {
	if evex {
		k := K()
		VCMPPS(Imm(predicate), b, a, k)
		return mask{k: k}
	}
	y := YMM()
	VCMPPS(Imm(predicate), b, a, y)
	return mask{y: y}
}

// and leaves in the first mask what all have.
func (m mask) and(more ...mask) mask {
	for _, x := range more {
		if evex {
			KANDW(x.k, m.k, m.k)
		} else {
			VANDPS(x.y, m.y, m.y)
		}
	}
	return m
}

// choose sets v to a where the mask is set, else to b.
func (m mask) choose(a, b Op, v VecVirtual) VecVirtual {
	if evex {
		VBLENDMPS(a, b, m.k, v)
	} else {
		VBLENDVPS(m.y, a, b, v)
	}
	return v
}

// upper is the second way.
func upper(v VecVirtual) Register {
	y := YMM()
	VEXTRACTF64X4(Imm(1), v, y)
	return y
}

// keep puts scale, floor and number of a way in the place of the best if its loss is smaller.
func keep(best, number Register, scale, floor, loss Op) {
	row := func(i int) Mem { return Mem{Base: best, Disp: 32 * i} }
	low, way, old := XMM(), YMM(), YMM()
	VMOVUPS(row(bestLoss), old)
	less := compare(smaller, loss, old)
	VMOVD(number.(GPVirtual).As32(), low)
	VPBROADCASTD(low, way)
	for i, v := range []Op{bestLoss: loss, bestScale: scale, bestFloor: floor, bestWay: way} {
		x := YMM()
		VMOVUPS(row(i), x)
		VMOVUPS(less.choose(v, x, x), row(i))
	}
}

// fitLine makes the best scale and floor of sums.
func (s *search) fitLine(p wide, sums map[int]VecVirtual) (_, _, _ VecVirtual) {
	c := p.shared(s.lanes, sumC)
	q, qq, r, qr, rr := sums[sumQ], sums[sumQQ], sums[sumR], sums[sumQR], sums[sumRR]
	cqq := p.mul(c, qq)
	det := p.sub(cqq, p.mul(q, q))
	a := p.div(p.sub(p.mul(c, qr), p.mul(q, r)), det)
	b := p.div(p.sub(p.mul(q, qr), p.mul(qq, r)), det)
	loss := p.add(p.sub(rr, p.mul(a, qr)), p.mul(b, r))
	step, f := p.load(s.ways, scale), p.load(s.ways, floor)
	loss = p.mul(p.mul(step, step), loss)
	line, height, bottom := p.add(step, p.mul(step, a)), p.add(f, p.mul(step, b)), spread("bottom", p.vector())
	zero := p.vector()
	p.zero(zero)
	good := compare(greater, det, p.mul(p.every(1e-5), cqq)).and(compare(greater, line, zero), compare(atLeast, height, bottom))

	qw := p.sub(p.mul(step, p.add(qq, qr)), p.mul(f, q))
	through := p.div(qw, qq)
	other := p.sub(p.shared(s.lanes, energy), p.mul(qw, through))
	other = compare(greater, through, zero).choose(other, p.every(float32(math.NaN())), p.vector())
	return good.choose(line, through, p.vector()), good.choose(height, zero, p.vector()), good.choose(loss, other, p.vector())
}

// fitScale makes the best scale of sums.
func (s *search) fitScale(p wide, sums map[int]VecVirtual) (_, _, _ VecVirtual) {
	step, qr, zero := p.load(s.ways, scale), sums[sumQR], p.vector()
	a := p.div(qr, sums[sumQQ])
	p.zero(zero)
	return p.add(step, p.mul(step, a)), zero, p.mul(p.mul(step, step), p.sub(sums[sumRR], p.mul(a, qr)))
}

// same makes the scale and floor of a way.
func (s *search) same(p wide, sums map[int]VecVirtual) (_, _, _ VecVirtual) {
	step := p.load(s.ways, scale)
	return step, p.load(s.ways, floor), p.mul(p.mul(step, step), sums[sumRR])
}

// fitMinimum makes the best integer for a floor.
func (s *search) fitMinimum(p wide, sums map[int]VecVirtual) (_, _, _ VecVirtual) {
	m, c, step, zero := Load(Param("m"), GP64()), p.shared(s.lanes, sumC), p.load(s.ways, scale), p.vector()
	p.zero(zero)
	middle := p.div(p.mul(step, sums[sumQ]), c)
	better := p.mul(p.sub(middle, p.shared(m, mean)), p.shared(m, inverseUnit))
	VMAXPS(zero, better, better)
	VMINPS(p.shared(m, top), better, better)
	round(better)
	b := p.mul(p.sub(better, p.shared(m, minimum)), p.shared(m, unit))
	loss := p.mul(step, p.add(p.mul(step, sums[sumRR]), p.mul(p.add(b, b), sums[sumR])))
	return step, better, p.add(loss, p.mul(p.mul(b, b), c))
}
