package tile

import (
	"encoding/binary"
	"fmt"
)

// Op is an instruction.
type Op int

// The instructions, by their names.
const (
	LDTILECFG Op = iota
	TILERELEASE
	TILEZERO
	TILELOADD
	TILESTORED
	TDPBSSD
	TDPBSUD
	TDPBUSD
	TDPBUUD
	TDPBF16PS
)

// String is the mnemonic as disassemblers write it.
func (o Op) String() string {
	return [...]string{"ldtilecfg", "tilerelease", "tilezero", "tileloadd", "tilestored", "tdpbssd", "tdpbsud", "tdpbusd", "tdpbuud", "tdpbf16ps"}[o]
}

// Inst is a decoded instruction.
type Inst struct {
	Op      Op
	Len     int // bytes
	C, A, B int // tiles; C alone where there is one

	// The address is base + index·scale + disp; an index of -1 is none. For tiles index·scale is the distance of rows.
	Base, Index, Scale int
	Disp               int64
}

// Decode reads one instruction of AMX. All are VEX.128.0F38.W0: 49 configures, 4B moves tiles, 5C and 5E multiply, and the
// prefix in pp (0 none, 1 66, 2 F3, 3 F2) chooses.
func Decode(b []byte) (Inst, error) {
	var in Inst
	if len(b) < 5 || b[0] != 0xc4 || b[1]&0x1f != 2 || b[2]&0x84 != 0 {
		return in, fmt.Errorf("% x: no instruction of AMX", b[:min(len(b), 5)])
	}
	pp, vvvv := b[2]&3, int(^b[2]>>3&15)
	reg, rm, memory := int(b[4]>>3&7), int(b[4]&7), b[4]>>6 != 3
	bad := fmt.Errorf("% x: no instruction of AMX", b[:5])
	extended := b[1]&0x80 == 0 // R: there are eight tiles only
	switch {
	case b[3] == 0x49 && memory && pp == 0 && reg == 0:
		in.Op = LDTILECFG
	case b[3] == 0x49 && pp == 0 && b[4] == 0xc0:
		in.Op = TILERELEASE
	case b[3] == 0x49 && pp == 3 && !memory && rm == 0:
		in.Op, in.C = TILEZERO, reg
	case b[3] == 0x4b && pp == 3 && memory && rm == 4:
		in.Op, in.C = TILELOADD, reg
	case b[3] == 0x4b && pp == 2 && memory && rm == 4:
		in.Op, in.C = TILESTORED, reg
	case b[3] == 0x5e && !memory && vvvv < Tiles && b[1]&0x20 != 0:
		in.Op, in.C, in.A, in.B = [4]Op{TDPBUUD, TDPBUSD, TDPBSUD, TDPBSSD}[pp], reg, rm, vvvv
	case b[3] == 0x5c && pp == 2 && !memory && vvvv < Tiles && b[1]&0x20 != 0:
		in.Op, in.C, in.A, in.B = TDPBF16PS, reg, rm, vvvv
	default:
		return in, bad
	}
	if extended || in.Op < TDPBSSD && vvvv != 0 {
		return in, bad
	}
	in.Len = 5
	if !memory {
		return in, nil
	}
	return in, in.address(b, rm)
}

// address reads what follows ModRM.
func (in *Inst) address(b []byte, rm int) error {
	high := func(bit byte) int {
		if b[1]&bit == 0 {
			return 8
		}
		return 0
	}
	mod := b[4] >> 6
	in.Base, in.Index = rm+high(0x20), -1
	if rm == 4 {
		if len(b) < 6 {
			return fmt.Errorf("% x: ends before its address", b)
		}
		sib := b[5]
		in.Len++
		in.Base, in.Scale = int(sib&7)+high(0x20), 1<<(sib>>6)
		if i := int(sib>>3&7) + high(0x40); i != 4 {
			in.Index = i
		}
	}
	if mod == 0 && in.Base&7 == 5 {
		return fmt.Errorf("% x: an address without a base register", b[:in.Len])
	}
	size := [3]int{0, 1, 4}[mod]
	if len(b) < in.Len+size {
		return fmt.Errorf("% x: ends before its address", b)
	}
	switch mod {
	case 1:
		in.Disp = int64(int8(b[in.Len]))
	case 2:
		in.Disp = int64(int32(binary.LittleEndian.Uint32(b[in.Len:])))
	}
	in.Len += size
	return nil
}
