package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "nibble/internal/kernel/asm/emit"
)

// clear sets the results to zero.
func (x *product) clear(y Register) {
	zero := x.Vec()
	x.Zero(zero)
	for i := 0; i < x.tokens*StepBytes; i += x.Bytes() {
		x.Move(zero, Mem{Base: y, Disp: i})
	}
}

// finish adds the sums of a block to the results. scales is behind the scales: where the minimums are.
func (x *product) finish(at Panel, scales, record, row Register) {
	for part := range x.rows() * 4 / x.Bytes() {
		sums := x.sumsOf(part)
		if !x.mins {
			x.zeros(scales, row, part, sums)
		}
		d := x.Vec()
		VCVTPH2PS(x.ofRows(Mem{Base: record}, part, 2), d)
		for _, v := range sums {
			VCVTDQ2PS(v, v)
			VMULPS(d, v, v)
		}
		if x.mins {
			VCVTPH2PS(x.ofRows(Mem{Base: record, Disp: 64}, part, 2), d)
			x.least(scales, row, part, func(t int, m Register) {
				VCVTDQ2PS(m, m)
				VMULPS(d, m, m)
				VSUBPS(m, sums[t], sums[t])
			})
		}
		xscales, y, b := Row(x.p, OffXScales, row), at.Y(), x.Vec()
		for t := range x.tokens {
			v, at := sums[t], x.ofRows(Mem{Base: y, Disp: t * StepBytes}, part, 4)
			VBROADCASTSS(Mem{Base: xscales, Disp: 4 * t}, b)
			VMULPS(b, v, v)
			VADDPS(at, v, v)
			VMOVUPS(v, at)
		}
	}
}

// ofRows is where the values of a part of the rows are, so many bytes each, of rows that begin at m.
func (x *product) ofRows(m Mem, part, size int) Mem {
	m.Disp += part * x.Bytes() * size / 4
	if x.first != nil {
		m.Index, m.Scale = x.first, uint8(size)
	}
	return m
}

// sumsOf returns the sums of a part of the rows, of each token, in registers.
func (x *product) sumsOf(part int) (sums []Register) {
	for t := range x.tokens {
		if x.sums == nil {
			sums = append(sums, x.isums[t][part])
			continue
		}
		v := x.Vec()
		x.Move(x.sums.Sum(t, part), v)
		sums = append(sums, v)
	}
	return sums
}

// zeros takes what the code that is zero makes of the activations off the sums of a part of the rows.
func (x *product) zeros(scales, row Register, part int, sums []Register) {
	x.weighted(Mem{Base: scales, Disp: -x.scales()}, row, part, func(t int, m Register) {
		VPSLLD(Imm(uint64(x.shift)), m, m)
		VPSUBD(m, sums[t], sums[t])
	})
}

// least calls f with the sums of minimums and activations.
func (x *product) least(mins, row Register, part int, f func(t int, m Register)) {
	x.weighted(Mem{Base: mins}, row, part, f)
}

// weighted calls f with the sums of activations, weighted by the bytes of a half at list, of a part of the rows.
func (x *product) weighted(list Mem, row Register, part int, f func(t int, m Register)) {
	pairs := block / x.group / 2
	var w []Register
	for i := range pairs {
		v := x.Vec()
		VPMOVSXBW(x.ofRows(list.Offset(64*i), part, 2), v)
		w = append(w, v)
	}
	parts, m, b := Field(x.p, OffParts), x.Vec(), x.Vec()
	if x.dots != nil {
		m = x.dots[0][0]
	}
	LEAQ(Mem{Base: parts, Index: row, Scale: 8}, parts)
	for t := range x.tokens {
		if x.VNNI {
			x.Zero(m)
		}
		for i, v := range w {
			at := Mem{Base: parts, Disp: 32*t + 4*i}
			if x.group == 32 {
				at.Disp += 16
			}
			if x.VNNI {
				VPDPWSSD_BCST(at, v, m)
				continue
			}
			VPBROADCASTD(at, b)
			if i == 0 {
				VPMADDWD(v, b, m)
				continue
			}
			VPMADDWD(v, b, b)
			VPADDD(b, m, m)
		}
		f(t, m)
	}
}
