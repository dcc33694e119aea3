package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "nibble/internal/kernel/asm/emit"
)

// values adds weighted values to rows, a block of columns at a time that stays in registers for all values.
func values(s set, k kind) {
	TEXT("values"+k.name+s.name, NOSPLIT, signature)
	rows := []int{1, 2, 3, 4, 8}
	if !s.wide {
		rows = rows[:4]
	}
	Doc(fmt.Sprintf("values%s%s adds values times weights to %v rows, a multiple of 16 long; values is the specification.",
		k.name, s.name, rows))
	s.prepare(k)
	branch(rows, func(m int) { valuesOf(s, k, m) })
}

func valuesOf(s set, k kind, m int) {
	label := func(name string, per int) string { return fmt.Sprintf("%s%d_%d", name, m, per) }
	weights := strided(GP64(), "ldf", m)
	at := GP64()
	XORQ(at, at)
	least := 16 / s.width()
	most := map[int]int{1: 4, 2: 4, 3: 4, 4: 4, 8: 2}[m] // registers of a block
	if !s.wide {
		most = map[int]int{1: 8, 2: 4, 3: 2, 4: 2}[m]
	}
	for _, per := range []int{most, least} {
		columns := per * s.width()
		Label(label("columns", per))
		end := GP64()
		LEAQ(Mem{Base: at, Disp: columns}, end)
		CMPQ(end, NewParamAddr("dim", 112))
		JGT(LabelRef(label("end", per)))
		valueBlock(s, k, m, per, weights, at, label("loop", per))
		ADDQ(Imm(uint64(columns)), at)
		JMP(LabelRef(label("columns", per)))
		Label(label("end", per))
		if most == least {
			break
		}
	}
}

// valueBlock adds all values to per registers of columns of every row, which begin at element at.
func valueBlock(s set, k kind, m, per int, weights rowsOf, at Register, loop string) {
	var sums []VecVirtual
	eachRow(at, m, func(mem Mem) {
		for j := range per {
			v := s.reg()
			mem.Disp = 4 * j * s.width()
			VMOVUPS(mem, v)
			sums = append(sums, v)
		}
	})
	value, stride, left := Load(Param("data").Base(), GP64()), Load(Param("stride"), GP64()), Load(Param("n"), GP64())
	Load(Param("from").Base(), weights.base)
	one := func(disp int) {
		weight := make([]VecVirtual, m)
		for row := range m {
			if !s.wide || m == 1 { // for more rows, what AVX-512 broadcasts as it multiplies takes no slot of a shuffle
				weight[row] = s.reg()
				VBROADCASTSS(weights.row(row, disp), weight[row])
			}
		}
		for j := range per {
			if j*s.width()*k.size%64 == 0 {
				fetch(k, value, at, j*s.width())
			}
			v := s.widen(k, value, at, j*s.width())
			for row := range m {
				p := s.reg()
				if weight[row] == nil {
					VMULPS_BCST(weights.row(row, disp), v, p)
				} else {
					VMULPS(v, weight[row], p)
				}
				VADDPS(p, sums[row*per+j], sums[row*per+j])
			}
		}
	}
	if !s.wide {
		SUBQ(Imm(2), left)
		JLT(LabelRef(loop + "odd"))
		Label(loop + "two")
		one(0)
		ADDQ(stride, value)
		one(4)
		ADDQ(stride, value)
		ADDQ(Imm(8), weights.base)
		SUBQ(Imm(2), left)
		JGE(LabelRef(loop + "two"))
		Label(loop + "odd")
		ADDQ(Imm(2), left)
		JZ(LabelRef(loop + "none"))
	}
	Label(loop)
	one(0)
	ADDQ(stride, value)
	ADDQ(Imm(4), weights.base)
	DECQ(left)
	JNZ(LabelRef(loop))
	Label(loop + "none")
	i := 0
	eachRow(at, m, func(mem Mem) {
		for j := range per {
			mem.Disp = 4 * j * s.width()
			VMOVUPS(sums[i], mem)
			i++
		}
	})
}

// eachRow calls body with the place of element at of every row.
func eachRow(at Register, m int, body func(mem Mem)) {
	row, apart := Load(Param("to").Base(), GP64()), Load(Param("ldt"), GP64())
	for i := range m {
		if i > 0 {
			LEAQ(Mem{Base: row, Index: apart, Scale: 4}, row)
		}
		body(Mem{Base: row, Index: at, Scale: 4})
	}
}

// narrowF16 rounds to float16.
func narrowF16(s set) {
	TEXT("narrowF16"+s.name, NOSPLIT, "func(dst []byte, x []float32)")
	Doc("narrowF16" + s.name + " rounds a multiple of 16 numbers to float16; half.EncodeF16 is the specification.")
	dst, x := Load(Param("dst").Base(), GP64()), Load(Param("x").Base(), GP64())
	Each("x", 16, func() {
		v := s.reg()
		for i := range 16 / s.width() {
			VMOVUPS(Mem{Base: x, Disp: 4 * i * s.width()}, v)
			VCVTPS2PH(Imm(0), v, Mem{Base: dst, Disp: 2 * i * s.width()})
		}
		ADDQ(Imm(64), x)
		ADDQ(Imm(32), dst)
	})
	VZEROUPPER()
	RET()
}
