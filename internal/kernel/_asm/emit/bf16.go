package emit

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// VDPBF16PS adds the products of pairs of bfloat16 in a and b to the float32 in sum, ZMM registers all: of each pair the
// second product first. Neither Go's assembler nor avo knows the instruction.
func VDPBF16PS(a, b, sum reg.VecPhysical) {
	code := EncodeVDPBF16PS(number(a), number(b), number(sum))
	Comment(fmt.Sprintf("VDPBF16PS %s, %s, %s", a.Asm(), b.Asm(), sum.Asm()))
	raw("LONG", uint64(code[0])|uint64(code[1])<<8|uint64(code[2])<<16|uint64(code[3])<<24)
	raw("WORD", uint64(code[4])|uint64(code[5])<<8)
}

// EncodeVDPBF16PS returns the bytes of VDPBF16PS on registers by number: EVEX.512.F3.0F38.W0 52 /r, sum in ModRM.reg,
// b in EVEX.vvvv, a in ModRM.rm; the prefix has register numbers inverted.
func EncodeVDPBF16PS(a, b, sum int) [6]byte {
	bit := func(n, i int) byte { return byte(^n >> i & 1) }
	return [6]byte{
		0x62,
		0x02 | bit(sum, 3)<<7 | bit(a, 4)<<6 | bit(a, 3)<<5 | bit(sum, 4)<<4,
		0x06 | byte(^b&15)<<3,
		0x40 | bit(b, 4)<<3,
		0x52,
		0xc0 | byte(sum&7)<<3 | byte(a&7),
	}
}

func number(r reg.VecPhysical) int { return int(r.(reg.Physical).PhysicalIndex()) }

func raw(directive string, bytes uint64) {
	Instruction(&ir.Instruction{Opcode: directive, Operands: []Op{Imm(bytes)}})
}
