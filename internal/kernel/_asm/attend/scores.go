package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// scores multiplies rows of queries by keys, as many at a time as fill a register with results: 16 or, in AVX2, 4.
func scores(s set, k kind) {
	TEXT("scores"+k.name+s.name, NOSPLIT, signature)
	rows := []int{1, 2, 3, 4, 8}
	if !s.wide {
		rows = rows[:4]
	}
	Doc(fmt.Sprintf("scores%s%s multiplies %v rows of queries, a multiple of 16 long, by keys; scores is the specification.",
		k.name, s.name, rows))
	s.prepare(k)
	branch(rows, func(m int) { scoresOf(s, k, m) })
}

func scoresOf(s set, k kind, m int) {
	results := s.width() * s.width() / 16 // of a tile: 16 or 4
	keys := results / m                   // of a tile
	if m == 3 {
		keys = results / 4
	}
	label := func(name string) string { return fmt.Sprintf("%s%d", name, m) }
	to := Load(Param("to").Base(), GP64())
	apart := Load(Param("ldt"), GP64())
	SHLQ(Imm(2), apart)
	next := Load(Param("data").Base(), GP64())
	stride := Load(Param("stride"), GP64())
	left := Load(Param("n"), GP64())
	last := GP64() // key; a tile that reaches beyond it takes it again
	LEAQ(Mem{Base: left, Disp: -1}, last)
	IMULQ(stride, last)
	ADDQ(next, last)
	q := strided(GP64(), "ldf", m)
	at := GP64()

	Label(label("tile"))
	var sums [][]VecVirtual // of every result: the registers with its lanes
	for first := 0; first < keys; first += 4 {
		var key []Register
		for range min(4, keys) {
			p := GP64()
			MOVQ(next, p)
			CMPQ(p, last)
			CMOVQHI(last, p)
			ADDQ(stride, next)
			key = append(key, p)
		}
		part := make([][]VecVirtual, m*len(key))
		for i := range part {
			for range 16 / s.width() {
				part[i] = append(part[i], s.reg())
			}
		}
		Load(Param("from").Base(), q.base)
		XORQ(at, at)
		products(s, k, q, m, key, at, part, true)
		ADDQ(Imm(16), at)
		loop, done := label(fmt.Sprintf("loop%d_", first)), label(fmt.Sprintf("done%d_", first))
		JMP(LabelRef(done))
		Label(loop)
		ADDQ(Imm(64), q.base)
		products(s, k, q, m, key, at, part, false)
		ADDQ(Imm(16), at)
		Label(done)
		CMPQ(at, NewParamAddr("dim", 112))
		JLT(LabelRef(loop))
		sums = append(sums, part...)
	}
	if m == 2 && s.wide { // two groups of two rows and four keys: in the order of rows
		sums = append(append(append(sums[:4:4], sums[8:12]...), sums[4:8]...), sums[12:]...)
	}
	var r VecVirtual
	if s.wide {
		r = fold16(sums)
	} else {
		r = fold4(sums)
	}
	zero := s.reg()
	VXORPS(zero, zero, zero)
	if s.wide {
		VADDPS(zero, r, r) // a sum of negative zeros began with a positive one
	} else {
		VADDPS(zero.AsX(), r, r)
	}
	storeRows(s, r, to, apart, m, keys)
	ADDQ(Imm(uint64(4*keys)), to)
	SUBQ(Imm(uint64(keys)), left)
	JGT(LabelRef(label("tile")))
}

// products adds the products of 16 elements to the lanes of every row and key, or begins with them.
func products(s set, k kind, q rowsOf, m int, key []Register, at Register, sums [][]VecVirtual, begin bool) {
	for part := range 16 / s.width() {
		var wide []VecVirtual
		for _, p := range key {
			if part == 0 {
				fetch(k, p, at, 0)
			}
			wide = append(wide, s.widen(k, p, at, part*s.width()))
		}
		for row := range m {
			x := s.reg()
			VMOVUPS(q.row(row, 4*part*s.width()), x)
			for i, v := range wide {
				sum := sums[row*len(key)+i][part]
				if begin {
					VMULPS(v, x, sum)
					continue
				}
				p := s.reg()
				VMULPS(v, x, p)
				VADDPS(p, sum, sum)
			}
		}
	}
}

// fold16 folds the lanes of 16 sums, all at once, by the tree that folds one: l+8, l+4, l+2, l+1. Of 12 sums the last four
// results have no meaning.
func fold16(sums [][]VecVirtual) VecVirtual {
	var a [16]VecVirtual
	for i := range a { // where the result of sum i comes from
		if i < len(sums) {
			a[[]int{0, 8, 4, 12}[i/4]+[]int{0, 2, 1, 3}[i%4]] = sums[i][0]
		}
	}
	pair := func(x, y VecVirtual, lo, hi func(x, y, to VecVirtual)) VecVirtual {
		if y == nil {
			y = x
		}
		t, u := ZMM(), ZMM()
		lo(x, y, t)
		hi(x, y, u)
		VADDPS(u, t, t)
		return t
	}
	shuffle := func(order uint64) func(x, y, to VecVirtual) {
		return func(x, y, to VecVirtual) { VSHUFF64X2(Imm(order), y, x, to) }
	}
	for i := range 8 {
		a[i] = pair(a[i], a[i+8], shuffle(0x44), shuffle(0xee))
	}
	for i := range 4 {
		a[i] = pair(a[i], a[i+4], shuffle(0x88), shuffle(0xdd))
	}
	for i := range 2 {
		a[i] = pair(a[i], a[i+2], func(x, y, to VecVirtual) { VUNPCKLPD(y, x, to) }, func(x, y, to VecVirtual) { VUNPCKHPD(y, x, to) })
	}
	within := func(order uint64) func(x, y, to VecVirtual) {
		return func(x, y, to VecVirtual) { VSHUFPS(Imm(order), y, x, to) }
	}
	return pair(a[0], a[1], within(0x88), within(0xdd))
}

// fold4 is fold16 for four sums in two registers each; it returns an XMM. Of three sums the last result has no meaning.
func fold4(sums [][]VecVirtual) VecVirtual {
	var a [4]VecVirtual
	for i := range a {
		a[i] = a[0]
		if i < len(sums) {
			a[i] = sums[i][0]
			VADDPS(sums[i][1], a[i], a[i])
		}
	}
	t, u := YMM(), YMM()
	for i := 0; i < 4; i += 2 {
		VPERM2F128(Imm(0x20), a[i+1], a[i], t)
		VPERM2F128(Imm(0x31), a[i+1], a[i], u)
		a[i] = YMM()
		VADDPS(u, t, a[i])
	}
	VUNPCKLPD(a[2], a[0], t)
	VUNPCKHPD(a[2], a[0], u)
	VADDPS(u, t, t)
	VHADDPS(t, t, t) // sums 0, 2, 0, 2 and 1, 3, 1, 3
	x := XMM()
	VEXTRACTF128(Imm(1), t, x)
	VUNPCKLPS(x, t.AsX(), x)
	return x
}

// storeRows writes results, row by row.
func storeRows(s set, r VecVirtual, to, apart Register, m, keys int) {
	row := GP64()
	MOVQ(to, row)
	at := Mem{Base: row}
	pair := r.AsX() // of rows with two keys
	for i := range m {
		if i > 0 {
			ADDQ(apart, row)
		}
		switch {
		case keys == 16:
			VMOVUPS(r, at)
		case keys == 8 && i == 0:
			VMOVUPS(r.AsY(), at)
		case keys == 8:
			VEXTRACTF64X4(Imm(1), r, at)
		case keys == 4 && i == 0:
			VMOVUPS(r.AsX(), at)
		case keys == 4:
			VEXTRACTF32X4(Imm(uint64(i)), r, at)
		case keys == 2 && i%2 == 1:
			VMOVHPS(pair, at)
		case keys == 2:
			if i > 0 {
				pair = XMM()
				VEXTRACTF32X4(Imm(uint64(i/2)), r, pair)
			}
			VMOVLPS(pair, at)
		case keys == 1:
			VEXTRACTPS(Imm(uint64(i)), r, at)
		}
	}
}
