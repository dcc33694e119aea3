package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// softmax writes its two passes.
func softmax(s set) {
	s.function("peak", "func(x []float32, scale float32) float32", "returns the largest x times scale.")
	x, scale, most := base("x"), s.broadcast("scale", 24), s.keep().get("-inf")
	s.each("x", func(l lane) {
		v := l.load(x)
		VMULPS(scale, v, v)
		if l.mask != nil {
			VMAXPS(v, most, l.mask, most)
		} else {
			VMAXPS(v, most, most)
		}
	})
	Store(s.reduce(most, func(a, b, to VecVirtual) { VMAXPS(a, b, to) }), ReturnIndex(0))
	done()

	if !s.wide {
		expLanes(s)
		return
	}
	s.function("expSum", "func(x []float32, scale, most float32) float32",
		"replaces x by the exponentials of x times scale less most, and returns their sum.")
	p := s.keep(forExp...)
	x, scale, most = base("x"), s.broadcast("scale", 24), s.broadcast("most", 28)
	sum := s.reg()
	VXORPS(sum.AsY(), sum.AsY(), sum.AsY())
	s.each("x", func(l lane) {
		v := l.load(x)
		VMULPS(scale, v, v)
		VSUBPS(most, v, v)
		p.exp(v)
		l.store(v, x)
		if l.mask != nil {
			VADDPS(v, sum, l.mask, sum)
		} else {
			VADDPS(v, sum, sum)
		}
	})
	Store(s.reduce(sum, func(a, b, to VecVirtual) { VADDPS(a, b, to) }), ReturnIndex(0))
	done()
}

// expLanes is expSum without the tail and the fold.
func expLanes(s set) {
	s.start("expLanes", "func(x []float32, scale, most float32) [16]float32",
		"is expSum for a multiple of 16, and returns the lanes of the sum.")
	p := s.keep()
	x, scale, most := base("x"), s.broadcast("scale", 24), s.broadcast("most", 28)
	sums := [2]VecVirtual{s.reg(), s.reg()}
	for _, sum := range sums {
		VXORPS(sum, sum, sum)
	}
	s.eachBy("x", 16, func(l lane) {
		for i, sum := range sums {
			l.more = 8 * i
			v := l.load(x)
			VMULPS(scale, v, v)
			VSUBPS(most, v, v)
			p.exp(v)
			l.store(v, x)
			VADDPS(v, sum, sum)
		}
	})
	VMOVUPS(sums[0], NewParamAddr("ret", 32))
	VMOVUPS(sums[1], NewParamAddr("ret_8", 64))
	done()
}

// parts is the number of registers that hold eight float64.
func (s set) parts() int { return 16 / s.width() }

// eights runs body for every eight elements of x, which it widens to float64.
func (s set) eights(x Register, body func(at Register, v []VecVirtual)) {
	narrow := set{s.name, false} // eight float32 fill a YMM
	narrow.each("x", func(l lane) {
		var list []VecVirtual
		for i := range s.parts() {
			v := s.reg()
			VCVTPS2PD(Mem{Base: x, Index: l.at, Scale: 4, Disp: 16 * i}, v)
			list = append(list, v)
		}
		body(l.at, list)
	})
}

// lanes64 returns the sums of terms, which are made of widened elements in place, in eight lanes.
func (s set) lanes64(ret int, term func(v VecVirtual)) {
	var sums []VecVirtual
	for range s.parts() {
		sum := s.reg()
		VXORPD(sum.AsY(), sum.AsY(), sum.AsY())
		sums = append(sums, sum)
	}
	s.eights(base("x"), func(_ Register, list []VecVirtual) {
		for i, v := range list {
			term(v)
			VADDPD(v, sums[i], sums[i])
		}
	})
	for i, sum := range sums {
		VMOVUPS(sum, NewParamAddr([]string{"ret", "ret_4"}[i], ret+32*i))
	}
	done()
}

// doubles writes the passes of LayerNorm, for multiples of 8.
func doubles(s set) {
	s.start("totals", "func(x []float32) [8]float64", "is totals, of a multiple of 8.")
	s.lanes64(24, func(VecVirtual) {})

	s.start("squares", "func(x []float32, mean float64) [8]float64", "is squares, of a multiple of 8.")
	mean := s.reg()
	VBROADCASTSD(NewParamAddr("mean", 24), mean)
	s.lanes64(32, func(v VecVirtual) {
		VSUBPD(mean, v, v)
		VMULPD(v, v, v)
	})

	s.start("centre", "func(dst, x, w, b []float32, mean, scale float64)", "is centre for a multiple of 8.")
	dst, w, b := base("dst"), base("w"), base("b")
	mean, scale := s.reg(), s.reg()
	VBROADCASTSD(NewParamAddr("mean", 96), mean)
	VBROADCASTSD(NewParamAddr("scale", 104), scale)
	s.eights(base("x"), func(at Register, list []VecVirtual) {
		for i, v := range list {
			VSUBPD(mean, v, v)
			VMULPD(scale, v, v)
			part := func(base Register) Mem { return Mem{Base: base, Index: at, Scale: 4, Disp: 16 * i} }
			var f VecVirtual
			if s.wide {
				f = YMM()
				VCVTPD2PS(v, f)
			} else {
				f = XMM()
				VCVTPD2PSY(v, f)
			}
			VMULPS(part(w), f, f)
			VADDPS(part(b), f, f)
			VMOVUPS(f, part(dst))
		}
	})
	done()
}

// integers writes the passes of QuantizeInt8.
func integers(s set) {
	s.function("largest", "func(x []float32) uint32", "returns the bits of the largest magnitude.")
	p := s.keep("magnitude")
	x, most := base("x"), s.reg()
	VXORPS(most.AsY(), most.AsY(), most.AsY())
	s.each("x", func(l lane) {
		v := l.load(x)
		VANDPS(p.get("magnitude"), v, v)
		VPMAXUD(v, most, most)
	})
	r := GP32()
	VMOVD(s.reduce(most, func(a, b, to VecVirtual) { VPMAXUD(a, b, to) }), r)
	Store(r, ReturnIndex(0))
	done()

	s.function("codes", "func(q []int8, x []float32, s float32) int32", "rounds x in steps of s and returns the sum of the codes.")
	p = s.keep("high", "low")
	q, x, step, sum := base("q"), base("x"), s.broadcast("s", 48), s.reg()
	VXORPS(sum.AsY(), sum.AsY(), sum.AsY())
	s.each("x", func(l lane) {
		v := l.load(x)
		VDIVPS(step, v, v)
		VCVTPS2DQ(v, v)
		VPMINSD(p.get("high"), v, v)
		VPMAXSD(p.get("low"), v, v)
		VPADDD(v, sum, sum)
		to := Mem{Base: q, Index: l.at, Scale: 1}
		switch {
		case l.mask != nil:
			VPMOVDB(v, l.mask, to)
		case s.wide:
			VPMOVDB(v, to)
		default:
			hi := XMM()
			VEXTRACTI128(Imm(1), v, hi)
			VPACKSSDW(hi, v.AsX(), hi)
			VPACKSSWB(hi, hi, hi)
			VMOVQ(hi, to)
		}
	})
	r = GP32()
	VMOVD(s.reduce(sum, func(a, b, to VecVirtual) { VPADDD(a, b, to) }), r)
	Store(r, ReturnIndex(0))
	done()
}
