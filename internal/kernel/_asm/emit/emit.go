// Package emit holds what the generators of the kernels share.
package emit

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// Each runs body for every so many elements of a slice; body advances the pointers.
func Each(slice string, per int, body func()) {
	n := Load(Param(slice).Len(), GP64())
	TESTQ(n, n)
	JZ(LabelRef("done"))
	Label("loop")
	body()
	SUBQ(Imm(uint64(per)), n)
	JNZ(LabelRef("loop"))
	Label("done")
}
