// Command tile writes the assembly of products of several rows and tokens in float32; internal/kernel/tile.go has their
// definition.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	. "nibble/internal/kernel/asm/emit"
)

func main() {
	ConstraintExpr("!purego")
	dotTile("AVX2", 32, 2, 2)
	dotTile("AVX512", 64, 4, 2)
	dotTile("AVX512", 64, 4, 6)
	Generate()
}

// dotTile multiplies so many rows and tokens; registers have so many bytes.
func dotTile(set string, bytes, rows, tokens int) {
	name := fmt.Sprintf("dot%dx%d%s", rows, tokens, set)
	TEXT(name, NOSPLIT, "func(y []float32, stride int, w, x []float32, ld, k int)")
	Doc(name + " is Dot of every row of w and every row of x; dot is the specification.")
	k := Load(Param("k"), GP64())
	n := GP64()
	MOVQ(k, n)
	SHLQ(Imm(2), k)
	ld := Load(Param("ld"), GP64())
	SHLQ(Imm(2), ld)
	w := RowsAt(Load(Param("w").Base(), GP64()), ld, rows)
	x := RowsAt(Load(Param("x").Base(), GP64()), k, tokens)
	vec := func() VecVirtual {
		if bytes == 64 {
			return ZMM()
		}
		return YMM()
	}
	parts := 64 / bytes
	sums := map[[3]int]VecVirtual{}
	for r := range rows {
		for t := range tokens {
			for p := range parts {
				s := vec()
				VXORPS(s.AsX(), s.AsX(), s.AsX())
				sums[[3]int{r, t, p}] = s
			}
		}
	}
	Label("loop")
	v := vec()
	for p := range parts {
		var weights []VecVirtual
		for r := range rows {
			weights = append(weights, vec())
			VMOVUPS(w.At(r, p*bytes), weights[r])
		}
		input := vec()
		for t := range tokens {
			VMOVUPS(x.At(t, p*bytes), input)
			for r := range rows {
				s := sums[[3]int{r, t, p}]
				VMULPS(input, weights[r], v)
				VADDPS(v, s, s)
			}
		}
	}
	w.Advance(64)
	x.Advance(64)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("loop"))

	y, stride := Load(Param("y").Base(), GP64()), Load(Param("stride"), GP64())
	SHLQ(Imm(2), stride)
	for t := range tokens {
		for r := range rows {
			eight := sums[[3]int{r, t, 0}].AsY()
			high := YMM()
			if parts == 1 {
				VEXTRACTF64X4(Imm(1), sums[[3]int{r, t, 0}], high)
				VADDPS(high, eight, eight)
				VEXTRACTF32X4(Imm(1), eight, high.AsX())
			} else {
				VADDPS(sums[[3]int{r, t, 1}], eight, eight)
				VEXTRACTF128(Imm(1), eight, high.AsX())
			}
			four := sums[[3]int{r, t, 0}].AsX()
			VADDPS(high.AsX(), four, four)
			VPERMILPS(Imm(0x4e), four, high.AsX())
			VADDPS(high.AsX(), four, four)
			VPERMILPS(Imm(0xb1), four, high.AsX())
			VADDSS(high.AsX(), four, four)
			VMOVSS(four, Mem{Base: y, Disp: 4 * r})
		}
		ADDQ(stride, y)
	}
	VZEROUPPER()
	RET()
}
