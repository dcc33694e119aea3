// Command gemm writes the assembly of sums of outer products; internal/kernel/gemm.go and moment.go have their definitions.
// Registers are numbered by hand, as VDPBF16PS needs them.
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
		moments(AVX2, 4, 2, false)
		moments(AVX2, 4, 3, true)
		pack(AVX2)
	case "avx512":
		outers(AVX512, float32s, 8, 3)
		outers(AVX512, float64s, 8, 3)
		moments(AVX512, 8, 3, false)
		pack(AVX512)
	case "bf16":
		moments(BF16, 8, 3, false)
		pack(BF16)
	}
	Generate()
}

// arithmetic is what is done with elements of one type.
type arithmetic struct {
	name   string
	size   uint64 // log2 of the bytes of an element
	move   func(ops ...Op)
	spread func(ops ...Op) // fills a register with an element
	mul    func(ops ...Op)
	mulAll func(ops ...Op) // multiplies by one element in memory
	add    func(ops ...Op)
	sub    func(ops ...Op)
}

var (
	float32s = arithmetic{"32", 2, VMOVUPS, VBROADCASTSS, VMULPS, VMULPS_BCST, VADDPS, VSUBPS}
	float64s = arithmetic{"64", 3, VMOVUPD, VBROADCASTSD, VMULPD, VMULPD_BCST, VADDPD, VSUBPD}
)

// outers writes what adds, what subtracts and what divides, for one to parts registers of columns.
func outers(a ISA, t arithmetic, rows, parts int) {
	for p := range parts {
		outer(a, t, "add", t.add, rows, p+1)
		outer(a, t, "sub", t.sub, rows, p+1)
		if t.size == 3 {
			divide(a, t, rows, p+1)
		}
	}
}

// outer adds or subtracts outer products of so many rows by so many registers of columns.
func outer(a ISA, t arithmetic, name string, combine func(ops ...Op), rows, parts int) {
	element := "float32"
	if t.size == 3 {
		element = "float64"
	}
	spec := name + "Outer"
	name = fmt.Sprintf("%s%sx%d%s", name, t.name, parts, a.Name)
	TEXT(name, NOSPLIT, fmt.Sprintf("func(c []%[1]s, ldc int, a []%[1]s, rs, ks int, b []%[1]s, bs, k int)", element))
	Doc(fmt.Sprintf("%s is for %d columns; %s is the specification.", name, parts*a.Bytes()>>t.size, spec))
	k := begin(a, t, rows, parts)
	c := RowsAt(base("c"), bytes("ldc", t.size), rows)
	each := func(c Rows, f func(sum VecPhysical, at Mem)) {
		for i, sum := range k.sums {
			f(sum, c.At(i/parts, i%parts*a.Bytes()))
		}
	}
	each(c, func(sum VecPhysical, at Mem) { t.move(at, sum) })
	each(c.Below(rows), func(_ VecPhysical, at Mem) { PREFETCHT0(at) }) // the next call takes these, most often
	x, ks := RowsAt(base("a"), bytes("rs", t.size), rows), bytes("ks", t.size)
	k.steps(combine, func(i int) Mem { return x.At(i, 0) }, func() { x.Step(ks) })
	each(c, func(sum VecPhysical, at Mem) { t.move(sum, at) })
	VZEROUPPER()
	RET()
}

// divide solves a triangle of as many rows as a tile has, for so many registers of columns.
func divide(a ISA, t arithmetic, rows, parts int) {
	name := fmt.Sprintf("dividex%d%s", parts, a.Name)
	TEXT(name, NOSPLIT, "func(y []float64, ldy int, l []float64, ldl int)")
	Doc(fmt.Sprintf("%s is for %d columns; divideOuter is the specification.", name, parts*a.Bytes()>>t.size))
	k := begin(a, t, rows, parts)
	y, l := RowsAt(base("y"), bytes("ldy", t.size), rows), RowsAt(base("l"), bytes("ldl", t.size), rows)
	value, product := k.take(1)[0], k.take(1)[0]
	for r := range rows {
		for p, v := range k.sums[r*parts:][:parts] {
			t.move(y.At(r, p*a.Bytes()), v)
		}
	}
	for r := range rows {
		x := k.sums[r*parts:][:parts]
		for i, before := range k.sums[:r*parts] {
			if i%parts == 0 {
				t.spread(l.At(r, i/parts<<t.size), value)
			}
			t.mul(value, before, product)
			t.sub(product, x[i%parts], x[i%parts])
		}
		t.spread(l.At(r, r<<t.size), value)
		for p, v := range x {
			VDIVPD(value, v, v)
			t.move(v, y.At(r, p*a.Bytes()))
		}
	}
	VZEROUPPER()
	RET()
}

// tile is a kernel that is being written.
type tile struct {
	ISA
	arithmetic
	parts int
	fused bool
	sums  []VecPhysical // row by row
	free  []VecPhysical
}

func begin(a ISA, t arithmetic, rows, parts int) *tile {
	k := &tile{ISA: a, arithmetic: t, parts: parts, free: ymm}
	if a.Wide {
		k.free = zmm
	}
	k.sums = k.take(rows * parts)
	return k
}

// take reserves registers.
func (k *tile) take(n int) []VecPhysical {
	r := k.free[:n]
	k.free = k.free[n:]
	return r
}

func base(param string) Register { return Load(Param(param).Base(), GP64()) }

// bytes returns a parameter that counts elements, in bytes.
func bytes(param string, size uint64) Register {
	r := Load(Param(param), GP64())
	SHLQ(Imm(size), r)
	return r
}

// steps adds up k outer products. Row i of a is at x(i), and advance moves on in a.
func (k *tile) steps(combine func(ops ...Op), x func(i int) Mem, advance func()) {
	n := Load(Param("k"), GP64())
	TESTQ(n, n)
	JZ(LabelRef("done"))
	b, bs := base("b"), bytes("bs", k.size)
	columns, value := k.take(k.parts), k.take(1)[0]
	products := k.take(min(len(k.free), 2))
	Label("step")
	for p, v := range columns {
		k.move(Mem{Base: b, Disp: p * k.Bytes()}, v)
	}
	ADDQ(bs, b)
	for i, sum := range k.sums {
		at, v := x(i/k.parts), columns[i%k.parts]
		if i%k.parts == 0 && (k.BF16 || !k.Wide) {
			k.spread(at, value)
		}
		switch {
		case k.BF16:
			VDPBF16PS(value, v, sum)
			continue
		case k.fused:
			VFMADD231PS(value, v, sum)
			continue
		}
		product := products[i%len(products)]
		if k.Wide { // to spread an element costs time in registers of 64 bytes, but not in an operand
			k.mulAll(at, v, product)
		} else {
			k.mul(value, v, product)
		}
		combine(product, sum, sum)
	}
	advance()
	DECQ(n)
	JNZ(LabelRef("step"))
	Label("done")
	k.free = append(k.free, columns...)
}

var (
	zmm = []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15,
		Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31}
	ymm = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}
)
