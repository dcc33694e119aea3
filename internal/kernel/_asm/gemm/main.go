// Command gemm writes the assembly of sums of outer products; internal/kernel/gemm.go has their definition. Registers are
// numbered by hand, as VDPBF16PS needs them.
package main

import (
	"flag"
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "nibble/internal/kernel/asm/emit"
)

func main() {
	set := flag.String("set", "", "which instructions to write for")
	flag.Parse()
	ConstraintExpr("!purego")
	switch *set {
	case "avx2":
		outers(AVX2, float32s, 4, 2)
		outers(AVX2, float64s, 4, 2)
	case "avx512":
		outers(AVX512, float32s, 8, 3)
		outers(AVX512, float64s, 8, 3)
	case "bf16":
		for parts := range 3 {
			outer(BF16, pairsOfBF16, true, 8, parts+1)
		}
	}
	Generate()
}

// arithmetic is what is done with elements of one type.
type arithmetic struct {
	name      string
	shift     uint64 // log2 of the bytes of an element
	broadcast func(from, to Op)
	load      func(from, to Op)
	mul       func(x, y, product Op)
	add, sub  func(x, sum, to Op)
}

var (
	float32s = arithmetic{
		"32", 2, func(m, x Op) { VBROADCASTSS(m, x) }, func(from, to Op) { VMOVUPS(from, to) },
		func(x, y, z Op) { VMULPS(x, y, z) }, func(x, y, z Op) { VADDPS(x, y, z) }, func(x, y, z Op) { VSUBPS(x, y, z) },
	}
	float64s = arithmetic{
		"64", 3, func(m, x Op) { VBROADCASTSD(m, x) }, func(from, to Op) { VMOVUPD(from, to) },
		func(x, y, z Op) { VMULPD(x, y, z) }, func(x, y, z Op) { VADDPD(x, y, z) }, func(x, y, z Op) { VSUBPD(x, y, z) },
	}
	pairsOfBF16 = arithmetic{
		name: "Pairs", shift: 2, broadcast: func(m, x Op) { VBROADCASTSS(m, x) }, load: func(from, to Op) { VMOVUPS(from, to) },
	}
)

// outers writes what adds and what subtracts, for one to parts registers of columns.
func outers(a ISA, t arithmetic, rows, parts int) {
	for p := range parts {
		outer(a, t, true, rows, p+1)
		outer(a, t, false, rows, p+1)
	}
}

// outer adds or subtracts outer products of so many rows by so many registers of columns.
func outer(a ISA, t arithmetic, add bool, rows, parts int) {
	name, combine := "sub", t.sub
	if add {
		name, combine = "add", t.add
	}
	name = fmt.Sprintf("%s%sx%d%s", name, t.name, parts, a.Name)
	element, params := "float32", "c []%[1]s, ldc int, a []%[1]s, rs, ks int, b []%[1]s, bs, k int"
	if t.shift == 3 {
		element = "float64"
	}
	TEXT(name, NOSPLIT, fmt.Sprintf("func("+params+")", element))
	free := ymm
	if a.Wide {
		free = zmm
	}
	take := func(n int) []VecPhysical {
		r := free[:n]
		free = free[n:]
		return r
	}
	bytes := func(param string) Register {
		r := Load(Param(param), GP64())
		SHLQ(Imm(t.shift), r)
		return r
	}
	sums := take(rows * parts)
	c := RowsAt(Load(Param("c").Base(), GP64()), bytes("ldc"), rows)
	each := func(f func(sum VecPhysical, at Mem)) {
		for i := range rows {
			for p := range parts {
				f(sums[i*parts+p], c.At(i, p*a.Bytes()))
			}
		}
	}
	each(func(sum VecPhysical, at Mem) { t.load(at, sum) })

	k := Load(Param("k"), GP64())
	TESTQ(k, k)
	JZ(LabelRef("done"))
	x := RowsAt(Load(Param("a").Base(), GP64()), bytes("rs"), rows)
	ks, b, bs := bytes("ks"), Load(Param("b").Base(), GP64()), bytes("bs")
	columns, value := take(parts), take(1)[0]
	Label("step")
	for p, v := range columns {
		t.load(Mem{Base: b, Disp: p * a.Bytes()}, v)
	}
	ADDQ(bs, b)
	for i := range rows {
		t.broadcast(x.At(i, 0), value)
		for p, v := range columns {
			sum := sums[i*parts+p]
			if a.BF16 {
				VDPBF16PS(value, v, sum)
				continue
			}
			product := free[(i*parts+p)%min(len(free), 2)]
			t.mul(value, v, product)
			combine(product, sum, sum)
		}
	}
	x.Step(ks)
	DECQ(k)
	JNZ(LabelRef("step"))
	Label("done")
	each(func(sum VecPhysical, at Mem) { t.load(sum, at) })
	VZEROUPPER()
	RET()
}

var (
	zmm = []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15,
		Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31}
	ymm = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}
)
