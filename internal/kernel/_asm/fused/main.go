// Command fused writes the assembly of products of a row and a matrix in the orders of other programs.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("!purego")
	for _, columns := range []int{64, 16} {
		fused(columns, "AVX2", 8, func() VecVirtual { return YMM() })
		fused(columns, "AVX512", 16, func() VecVirtual { return ZMM() })
		quads(columns, "AVX2", 8, func() VecVirtual { return YMM() })
		quads(columns, "AVX512", 16, func() VecVirtual { return ZMM() })
	}
	Generate()
}

// operands are what all of them have.
type operands struct {
	y, x, n, w, ld Register
}

func load() operands {
	o := operands{Load(Param("y").Base(), GP64()), Load(Param("x").Base(), GP64()), Load(Param("x").Len(), GP64()), Load(Param("w").Base(), GP64()), Load(Param("ld"), GP64())}
	SHLQ(Imm(2), o.ld)
	return o
}

// zeros are registers for so many columns.
func zeros(columns, lanes int, vector func() VecVirtual) (list []VecVirtual) {
	for range columns / lanes {
		v := vector()
		if lanes == 16 {
			VPXORD(v, v, v)
		} else {
			VXORPS(v, v, v)
		}
		list = append(list, v)
	}
	return list
}

func store(o operands, sums []VecVirtual, lanes int) {
	for i, v := range sums {
		VMOVUPS(v, Mem{Base: o.y, Disp: 4 * lanes * i})
	}
	VZEROUPPER()
	RET()
}

func fused(columns int, set string, lanes int, vector func() VecVirtual) {
	name := fmt.Sprintf("fused%d%s", columns, set)
	TEXT(name, NOSPLIT, "func(y, x, w []float32, ld int)")
	Doc(name + " sets y to x times w; fused is the specification.")
	o := load()
	sums := zeros(columns, lanes, vector)
	TESTQ(o.n, o.n)
	JZ(LabelRef("done"))
	Label("loop")
	a := vector()
	VBROADCASTSS(Mem{Base: o.x}, a)
	for i, v := range sums {
		VFMADD231PS(Mem{Base: o.w, Disp: 4 * lanes * i}, a, v)
	}
	ADDQ(Imm(4), o.x)
	ADDQ(o.ld, o.w)
	DECQ(o.n)
	JNZ(LabelRef("loop"))
	Label("done")
	store(o, sums, lanes)
}

func quads(columns int, set string, lanes int, vector func() VecVirtual) {
	name := fmt.Sprintf("quads%d%s", columns, set)
	TEXT(name, NOSPLIT, "func(y, x, w []float32, ld int)")
	Doc(name + " sets y to x times w; quads is the specification.")
	o := load()
	sums := zeros(columns, lanes, vector)
	step := func(n int) {
		rows := []Register{o.w}
		factors := []VecVirtual{}
		for j := range n {
			a := vector()
			VBROADCASTSS(Mem{Base: o.x, Disp: 4 * j}, a)
			factors = append(factors, a)
			if j > 0 {
				row := GP64()
				LEAQ(Mem{Base: rows[j-1], Index: o.ld, Scale: 1}, row)
				rows = append(rows, row)
			}
		}
		for i, sum := range sums {
			t, p := vector(), vector()
			for j, a := range factors {
				if j == 0 {
					VMULPS(Mem{Base: rows[j], Disp: 4 * lanes * i}, a, t)
					continue
				}
				VMULPS(Mem{Base: rows[j], Disp: 4 * lanes * i}, a, p)
				VADDPS(p, t, t)
			}
			VADDPS(t, sum, sum)
		}
		ADDQ(Imm(uint64(4*n)), o.x)
		LEAQ(Mem{Base: rows[n-1], Index: o.ld, Scale: 1}, o.w.(GPVirtual))
	}
	Label("fours")
	CMPQ(o.n, Imm(4))
	JLT(LabelRef("twos"))
	step(4)
	SUBQ(Imm(4), o.n)
	JMP(LabelRef("fours"))
	Label("twos")
	TESTQ(U32(2), o.n)
	JZ(LabelRef("ones"))
	step(2)
	Label("ones")
	TESTQ(U32(1), o.n)
	JZ(LabelRef("done"))
	step(1)
	Label("done")
	store(o, sums, lanes)
}
