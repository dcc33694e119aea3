// Command attend writes the assembly of attention.
package main

import (
	"flag"
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	part := flag.String("part", "", "avx2, scores or values: what the file has")
	flag.Parse()
	ConstraintExpr("!purego")
	narrow, wide := set{"AVX2", false}, set{"AVX512", true}
	if *part != "avx2" {
		t := GLOBL(*part+"Words", RODATA|NOPTR)
		for i := range 32 {
			DATA(2*i, U16(uint16(i/2)))
		}
		table = t.Offset(0)
	}
	switch *part {
	case "avx2":
		narrowF16(narrow)
	case "values":
		narrowF16(wide)
	}
	for _, k := range kinds {
		if *part == "avx2" {
			scores(narrow, k)
			values(narrow, k)
		}
		if *part == "scores" {
			scores(wide, k)
		}
		if *part == "values" {
			values(wide, k)
		}
	}
	Generate()
}

// set is one of the two kinds of registers.
type set struct {
	name string
	wide bool
}

func (s set) reg() VecVirtual {
	if s.wide {
		return ZMM()
	}
	return YMM()
}

// width returns the number of float32 in a register.
func (s set) width() int {
	if s.wide {
		return 16
	}
	return 8
}

// kind is a type of stored vectors.
type kind struct {
	name string
	size int // bytes of an element
	head int // bytes before the first
}

var kinds = []kind{{"F32", 4, 0}, {"BF16", 2, 0}, {"F16", 2, 0}, {"Int8", 1, 4}}

// widen loads a register of elements of the vector at base, from element at + more on.
func (s set) widen(k kind, base, at Register, more int) VecVirtual {
	from := Mem{Base: base, Index: at, Scale: uint8(k.size), Disp: k.head + k.size*more}
	v := s.reg()
	switch k.name {
	case "F32":
		VMOVUPS(from, v)
	case "BF16":
		if s.wide { // one shuffle puts words into upper halves
			VMOVDQU32(from, words.AsY())
			VPERMW_Z(words, order, upper, v)
			break
		}
		VPMOVZXWD(from, v)
		VPSLLD(Imm(16), v, v)
	case "F16":
		VCVTPH2PS(from, v)
	case "Int8":
		VPMOVSXBD(from, v)
		VCVTDQ2PS(v, v)
		if s.wide {
			VMULPS_BCST(Mem{Base: base}, v, v)
		} else {
			scale := s.reg()
			VBROADCASTSS(Mem{Base: base}, scale)
			VMULPS(scale, v, v)
		}
	}
	return v
}

// ahead is how far before their use the bytes of vectors are fetched: what a core reads from memory in the time of an access.
const ahead = 4096

// fetch has the line in the cache that is ahead of element at + more.
func fetch(k kind, base, at Register, more int) {
	PREFETCHT0(Mem{Base: base, Index: at, Scale: uint8(k.size), Disp: ahead + k.size*more})
}

// What widen needs for bfloat16: word i/2 at word i, every second word, and a place for words.
var (
	order VecVirtual
	words VecVirtual
	upper Register
	table Mem
)

// prepare loads what widen needs.
func (s set) prepare(k kind) {
	if k.name != "BF16" || !s.wide {
		return
	}
	order, words, upper = ZMM(), ZMM(), K()
	VMOVDQU16(table, order)
	bits := GP32()
	MOVL(U32(0xaaaaaaaa), bits)
	KMOVD(bits, upper)
}

const signature = "func(to []float32, ldt int, from []float32, ldf int, data []byte, stride, rows, n, dim int)"

// branch jumps to the code of every number of rows that it gets, and has body write it.
func branch(rows []int, body func(m int)) {
	r := Load(Param("rows"), GP64())
	for _, m := range rows[1:] {
		CMPQ(r, Imm(uint64(m)))
		JEQ(LabelRef(fmt.Sprintf("rows%d", m)))
	}
	for i, m := range rows {
		if i > 0 {
			Label(fmt.Sprintf("rows%d", m))
		}
		body(m)
		VZEROUPPER()
		RET()
	}
}

// rowsOf addresses rows of floats that are a number of bytes apart.
type rowsOf struct {
	base  Register
	apart map[int]Register // odd multiples of the distance
}

// strided prepares the addresses of m rows; ld is the parameter with the elements from one to the next.
func strided(base Register, ld string, m int) rowsOf {
	one := Load(Param(ld), GP64())
	SHLQ(Imm(2), one)
	r := rowsOf{base, map[int]Register{1: one}}
	for k := 3; k < m; k += 2 {
		x := GP64()
		switch k {
		case 3:
			LEAQ(Mem{Base: one, Index: one, Scale: 2}, x)
		case 5:
			LEAQ(Mem{Base: one, Index: one, Scale: 4}, x)
		case 7:
			LEAQ(Mem{Base: one, Index: one, Scale: 8}, x)
			SUBQ(one, x)
			SUBQ(one, x)
		}
		r.apart[k] = x
	}
	return r
}

func (r rowsOf) row(i, disp int) Mem {
	scale := uint8(1)
	for i > 0 && i%2 == 0 && scale < 8 {
		i, scale = i/2, 2*scale
	}
	if i == 0 {
		return Mem{Base: r.base, Disp: disp}
	}
	return Mem{Base: r.base, Index: r.apart[i], Scale: scale, Disp: disp}
}
