package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// constants are those of the specification.
var constants = []struct {
	name  string
	value float32
}{
	{"log2e", 0x1.715476p+0}, {"ln2Hi", 0x1.63p-1}, {"ln2Lo", -0x1.bd0106p-13}, {"expMin", -104}, {"expMax", 89},
	{"exp0", 0x1.fffffcp-2}, {"exp1", 0x1.555492p-3}, {"exp2", 0x1.5558f2p-5}, {"exp3", 0x1.1239d8p-7}, {"exp4", 0x1.6a2444p-10},
	{"one", 1},
	{"small", 0.625}, {"tanh0", -0x1.555532p-2}, {"tanh1", 0x1.110726p-3}, {"tanh2", -0x1.b83c5ap-5}, {"tanh3", 0x1.52269cp-6},
	{"tanh4", -0x1.75e1ccp-8}, {"-2", -2},
	{"gelu0", 0x1.f1b89cp-4}, {"gelu1", -0x1.a6b66ap-3}, {"gelu2", 0x1.f8badp-4}, {"gelu3", -0x1.7a944cp-5},
	{"gelu4", 0x1.91df14p-8}, {"gelu5", 0x1.7cb4bep-9}, {"gelu6", -0x1.01e2eep-10}, {"gelu7", -0x1.63f9dep-12},
	{"gelu8", 0x1.e4a076p-14}, {"gelu9", 0x1.c23bfep-15}, {"15", 15}, {"3", 3}, {"-0.5", -0.5}, {"0", 0},
	{"geluG", -0x1.988454p+0}, {"geluH", -0x1.2444f2p-4},
	{"sign", float32(math.Copysign(0, -1))}, {"magnitude", math.Float32frombits(1<<31 - 1)},
	{"bias", math.Float32frombits(127)}, {"-inf", float32(math.Inf(-1))}, {"127", 127},
	{"high", math.Float32frombits(127)}, {"low", math.Float32frombits(1<<32 - 127)},
}

var at = map[string]Mem{}

// table writes the constants.
func table() {
	t := GLOBL("layerConstants", RODATA|NOPTR)
	for i, c := range constants {
		DATA(4*i, U32(math.Float32bits(c.value)))
		at[c.name] = t.Offset(4 * i)
	}
}

// pool hands out constants: from registers that were loaded before the loop, or from memory.
type pool struct {
	set
	kept map[string]VecVirtual
}

// keep loads constants into registers, of which AVX2 has none to spare.
func (s set) keep(names ...string) pool {
	p := pool{s, map[string]VecVirtual{}}
	if s.wide {
		for _, name := range names {
			p.kept[name] = p.get(name)
		}
	}
	return p
}

func (p pool) get(name string) VecVirtual {
	if r, ok := p.kept[name]; ok {
		return r
	}
	r := p.reg()
	VBROADCASTSS(at[name], r)
	return r
}

var forExp = []string{"log2e", "ln2Hi", "ln2Lo", "expMin", "expMax", "exp0", "exp1", "exp2", "exp3", "exp4", "one"}

// horner leaves c[0] + c[1]·z + c[2]·z² + … in a new register.
func (p pool) horner(z VecVirtual, c ...string) VecVirtual {
	s := p.reg()
	VMULPS(p.get(c[len(c)-1]), z, s)
	for i := len(c) - 2; ; i-- {
		VADDPS(p.get(c[i]), s, s)
		if i == 0 {
			return s
		}
		VMULPS(z, s, s)
	}
}

// exp replaces x by e^x. Of two operands VMAXPS and VMINPS give the first here where one is NaN.
func (p pool) exp(x VecVirtual) {
	VMAXPS(x, p.get("expMin"), x)
	VMINPS(x, p.get("expMax"), x)
	n, t := p.reg(), p.reg()
	VMULPS(p.get("log2e"), x, n)
	if p.wide {
		VRNDSCALEPS(Imm(0), n, n)
	} else {
		VROUNDPS(Imm(0), n, n)
	}
	VMULPS(p.get("ln2Hi"), n, t)
	VSUBPS(t, x, x)
	VMULPS(p.get("ln2Lo"), n, t)
	VSUBPS(t, x, x)
	z, even, odd := p.reg(), p.reg(), p.reg()
	VMULPS(x, x, z)
	VMULPS(p.get("exp3"), x, odd)
	VADDPS(p.get("exp2"), odd, odd)
	VMULPS(p.get("exp4"), z, even)
	VADDPS(odd, even, even)
	VMULPS(z, even, even)
	VMULPS(p.get("exp1"), x, odd)
	VADDPS(p.get("exp0"), odd, odd)
	VADDPS(odd, even, even)
	VMULPS(z, even, even)
	VADDPS(even, x, x)
	VADDPS(p.get("one"), x, x)
	if p.wide {
		VSCALEFPS(n, x, x)
		return
	}
	half := p.reg()
	VCVTPS2DQ(n, n)
	VPSRAD(Imm(1), n, half)
	VPSUBD(half, n, n)
	for _, k := range []VecVirtual{half, n} {
		VPADDD(p.get("bias"), k, k)
		VPSLLD(Imm(23), k, k)
		VMULPS(k, x, x)
	}
}

// overOnePlusExp replaces x by x/(1+e^z), and z by anything.
func (p pool) overOnePlusExp(x, z VecVirtual) {
	p.exp(z)
	VADDPS(p.get("one"), z, z)
	VDIVPS(z, x, x)
}

func (p pool) negated(x VecVirtual) VecVirtual {
	z := p.reg()
	VXORPS(p.get("sign"), x, z)
	return z
}

func (p pool) sigmoid(x VecVirtual) {
	z := p.negated(x)
	VMOVAPS(p.get("one"), x)
	p.overOnePlusExp(x, z)
}

func (p pool) silu(x VecVirtual) { p.overOnePlusExp(x, p.negated(x)) }

func (p pool) geluTanh(x VecVirtual) {
	z := p.reg()
	VMULPS(x, x, z)
	VMULPS(p.get("geluH"), z, z)
	VADDPS(p.get("geluG"), z, z)
	VMULPS(x, z, z)
	p.overOnePlusExp(x, z)
}

func (p pool) gelu(x VecVirtual) {
	a, s, t := p.reg(), p.reg(), p.reg()
	VANDPS(p.get("magnitude"), x, a)
	VMINPS(a, p.get("15"), a)
	VSUBPS(p.get("3"), a, s)
	VADDPS(p.get("3"), a, t)
	VDIVPS(t, s, s)
	y := p.horner(s, "gelu0", "gelu1", "gelu2", "gelu3", "gelu4", "gelu5", "gelu6", "gelu7", "gelu8", "gelu9")
	VMULPS(a, a, t)
	VMULPS(p.get("-0.5"), t, t)
	p.exp(t)
	VMULPS(y, t, t)
	VMULPS(t, a, t)
	VMAXPS(p.get("0"), x, x)
	VSUBPS(t, x, x)
}

// tanh replaces u by its hyperbolic tangent.
func (p pool) tanh(u VecVirtual) {
	a, z, e, t := p.reg(), p.reg(), p.reg(), p.reg()
	VANDPS(p.get("magnitude"), u, a)
	VMULPS(p.get("-2"), a, e)
	p.exp(e)
	VSUBPS(e, p.get("one"), t)
	VADDPS(p.get("one"), e, e)
	VDIVPS(e, t, e)
	VANDPS(p.get("sign"), u, t)
	VORPS(t, e, e)
	VMULPS(u, u, z)
	y := p.horner(z, "tanh0", "tanh1", "tanh2", "tanh3", "tanh4")
	VMULPS(z, u, z)
	VMULPS(y, z, z)
	VADDPS(z, u, u)
	const less = 0x11 // false for NaN
	if p.wide {
		k := K()
		VCMPPS(Imm(less), p.get("small"), a, k)
		VBLENDMPS(u, e, k, u)
		return
	}
	VCMPPS(Imm(less), p.get("small"), a, a)
	VBLENDVPS(a, u, e, u)
}

// curves writes every curve alone and, but for some, times another vector.
func curves(s set) {
	for _, c := range []struct {
		name, gated string
		keep        []string
		curve       func(p pool, x VecVirtual)
	}{
		{"sigmoids", "", []string{"sign"}, pool.sigmoid},
		{"silus", "siluGated", []string{"sign"}, pool.silu},
		{"geluTanhs", "geluTanhGated", []string{"geluG", "geluH"}, pool.geluTanh},
		{"gelus", "geluGated", []string{"3", "gelu0", "gelu1", "gelu2", "gelu3", "gelu4", "gelu5", "gelu6", "gelu7"}, pool.gelu},
	} {
		s.function(c.name, "func(dst, x []float32)", "sets dst to a curve of x.")
		p := s.keep(append(c.keep, forExp...)...)
		dst, x := base("dst"), base("x")
		s.each("x", func(l lane) {
			v := l.load(x)
			c.curve(p, v)
			l.store(v, dst)
		})
		done()
		if c.gated == "" {
			continue
		}
		s.function(c.gated, "func(dst, gate, up []float32)", "sets dst to up times a curve of gate.")
		p = s.keep(append(c.keep, forExp...)...)
		dst, gate, up := base("dst"), base("gate"), base("up")
		s.each("gate", func(l lane) {
			v := l.load(gate)
			c.curve(p, v)
			u := l.load(up)
			VMULPS(u, v, v)
			l.store(v, dst)
		})
		done()
	}
	s.function("softcaps", "func(x []float32, c float32)", "caps x at c.")
	p := s.keep(append([]string{"magnitude", "sign", "-2", "small", "tanh0", "tanh1", "tanh2", "tanh3", "tanh4"}, forExp...)...)
	x, c := base("x"), s.broadcast("c", 24)
	s.each("x", func(l lane) {
		v := l.load(x)
		VDIVPS(c, v, v)
		p.tanh(v)
		VMULPS(v, c, v)
		l.store(v, x)
	})
	done()
}
