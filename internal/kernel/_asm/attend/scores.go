package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// scores multiplies rows of queries by keys, as many at a time as fill a register with results: 16 or, in AVX2, 8.
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
	keys := s.width() / m // of a tile
	if m == 3 {
		keys = s.width() / 4
	}
	per := min(4, keys) // of a group
	if !s.wide {
		per = max(4/m, 1) // two registers for each sum
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
	var sums []VecVirtual // of every result: the register with its lanes, or sums of two of them
	for first := 0; first < keys; first += per {
		var key []Register
		for range per {
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
		for i := range part {
			if !s.wide {
				VADDPS(part[i][1], part[i][0], part[i][0]) // the first step of the tree
			}
			sums = append(sums, part[i][0])
		}
	}
	if per < keys { // groups have all rows: in the order of rows
		var rows []VecVirtual
		for row := range m {
			for first := 0; first < keys; first += per {
				at := first*m + row*per
				rows = append(rows, sums[at:at+per]...)
			}
		}
		sums = rows
	}
	var r VecVirtual
	if s.wide {
		r = s.fold16(sums)
	} else {
		r = s.fold8(sums)
	}
	zero := s.reg()
	VXORPS(zero, zero, zero)
	VADDPS(zero, r, r) // a sum of negative zeros began with a positive one
	storeRows(s, r, to, apart, m, keys)
	ADDQ(Imm(uint64(4*keys)), to)
	SUBQ(Imm(uint64(keys)), left)
	JGT(LabelRef(label("tile")))
}

// products adds the products of 16 elements to the lanes of every row and key, or begins with them.
func products(s set, k kind, q rowsOf, m int, key []Register, at Register, sums [][]VecVirtual, begin bool) {
	add := func(x Op, v, sum VecVirtual) {
		if begin {
			VMULPS(x, v, sum)
			return
		}
		p := s.reg()
		VMULPS(x, v, p)
		VADDPS(p, sum, sum)
	}
	if !s.wide { // few registers: queries are operands in memory
		for i, p := range key {
			fetch(k, p, at, 0)
			for part := range 2 {
				v := s.widen(k, p, at, part*s.width())
				for row := range m {
					add(q.row(row, 4*part*s.width()), v, sums[row*len(key)+i][part])
				}
			}
		}
		return
	}
	var wide []VecVirtual
	for _, p := range key {
		fetch(k, p, at, 0)
		wide = append(wide, s.widen(k, p, at, 0))
	}
	for row := range m {
		x := s.reg()
		VMOVUPS(q.row(row, 0), x)
		for i, v := range wide {
			add(v, x, sums[row*len(key)+i][0])
		}
	}
}

// fold16 folds the lanes of 16 sums, all at once, by the tree that folds one: l+8, l+4, l+2, l+1. Of 12 sums the last four
// results have no meaning.
func (s set) fold16(sums []VecVirtual) VecVirtual {
	var a [16]VecVirtual
	for i := range a { // where the result of sum i comes from
		if i < len(sums) {
			a[[]int{0, 8, 4, 12}[i/4]+[]int{0, 2, 1, 3}[i%4]] = sums[i]
		}
	}
	for i := range 8 {
		a[i] = s.pair(a[i], a[i+8], halves(0x44), halves(0xee))
	}
	for i := range 4 {
		a[i] = s.pair(a[i], a[i+4], halves(0x88), halves(0xdd))
	}
	for i := range 2 {
		a[i] = s.pair(a[i], a[i+2], lowDoubles, highDoubles)
	}
	return s.pair(a[0], a[1], singles(0x88), singles(0xdd))
}

// fold8 folds the lanes of eight sums of halves by the rest of that tree. Of six sums the last two results have no meaning.
func (s set) fold8(sums []VecVirtual) VecVirtual {
	var a [8]VecVirtual
	copy(a[:], sums)
	cross := func(order uint64) shuffle {
		return func(x, y, to VecVirtual) { VPERM2F128(Imm(order), y, x, to) }
	}
	for i := range 4 {
		a[i] = s.pair(a[i], a[i+4], cross(0x20), cross(0x31))
	}
	for i := 0; i < 4; i += 2 {
		a[i] = s.pair(a[i], a[i+1], lowDoubles, highDoubles)
	}
	return s.pair(a[0], a[2], singles(0x88), singles(0xdd))
}

// shuffle takes lanes of two registers.
type shuffle func(x, y, to VecVirtual)

func lowDoubles(x, y, to VecVirtual)  { VUNPCKLPD(y, x, to) }
func highDoubles(x, y, to VecVirtual) { VUNPCKHPD(y, x, to) }

func singles(order uint64) shuffle {
	return func(x, y, to VecVirtual) { VSHUFPS(Imm(order), y, x, to) }
}

func halves(order uint64) shuffle {
	return func(x, y, to VecVirtual) { VSHUFF64X2(Imm(order), y, x, to) }
}

// pair adds what two shuffles take of two registers, or of one.
func (s set) pair(x, y VecVirtual, lo, hi shuffle) VecVirtual {
	if y == nil {
		y = x
	}
	t, u := s.reg(), s.reg()
	lo(x, y, t)
	hi(x, y, u)
	VADDPS(u, t, t)
	return t
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
			s.extract(r, i, at)
		case keys == 2 && i%2 == 1:
			VMOVHPS(pair, at)
		case keys == 2:
			if i > 0 {
				pair = XMM()
				s.extract(r, i/2, pair)
			}
			VMOVLPS(pair, at)
		}
	}
}

// extract takes four lanes, the i-th, out of a register.
func (s set) extract(r VecVirtual, i int, to Op) {
	if s.wide {
		VEXTRACTF32X4(Imm(uint64(i)), r, to)
	} else {
		VEXTRACTF128(Imm(uint64(i)), r, to)
	}
}
