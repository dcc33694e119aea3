package emit

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Short are sums of several tokens without VNNI. VPMADDUBSW adds two products of bytes up in 16 bits, and taking them to 32
// bits is a multiplication more. Where weights are small, several such sums fit into 16 bits, and only their sum is taken to
// 32 bits, to what is in memory: sixteen registers do not hold both.
//
// Weights above 4 bits may be split: the first register of two has their low halves, the second the high ones.
type Short struct {
	ISA
	Split bool
	sums  [][]Register // 16 bits, of each token and register of weights
	x, v  Register
	wide  Register // the address of the sums of 32 bits
}

// Fits returns how many sums of four columns, of weights up to most and any int8, fit into 16 bits.
func Fits(most int) int { return (1<<15 - 1) / (2 * 128 * most) }

// NewShort takes registers for two of weights, and memory.
func NewShort(a ISA, tokens int, split bool) *Short {
	s := &Short{ISA: a, Split: split, x: a.Vec(), v: a.Vec(), wide: GP64()}
	for range tokens {
		s.sums = append(s.sums, []Register{a.Vec(), a.Vec()})
	}
	LEAQ(AllocLocal((2*tokens+2)*a.Bytes()).Offset(a.Bytes()-1), s.wide)
	ANDQ(I32(-int32(a.Bytes())), s.wide)
	a.Move(a.Fill(0x0f0f0f0f), s.mask())
	return s
}

// mask is where the mask of low halves is.
func (s *Short) mask() Mem { return Mem{Base: s.wide} }

// Parts is the number of registers for the rows that are multiplied together.
func (s *Short) Parts() int {
	if s.Split {
		return 1
	}
	return 2
}

// Rows is the number of those rows.
func (s *Short) Rows() int { return s.Parts() * s.Bytes() / 4 }

// Sum is where the sums of a token and part of the rows are.
func (s *Short) Sum(token, part int) Mem {
	return Mem{Base: s.wide, Disp: (1 + 2*token + part) * s.Bytes()}
}

// Low loads the low halves of bytes.
func (s *Short) Low(from, to Op) {
	s.Move(from, to)
	s.And(s.mask(), to, to)
}

// High loads the high halves of bytes.
func (s *Short) High(from, to Op) {
	s.Move(from, to)
	VPSRLD(Imm(4), to, to)
	s.And(s.mask(), to, to)
}

// Clear begins with nothing in memory.
func (s *Short) Clear() {
	s.ISA.Zero(s.v)
	for t := range s.sums {
		for part := range s.Parts() {
			s.Move(s.v, s.Sum(t, part))
		}
	}
}

// Zero begins with nothing in registers.
func (s *Short) Zero() {
	for _, list := range s.sums {
		for _, v := range list {
			s.ISA.Zero(v)
		}
	}
}

// Add adds the products of four columns, with those of x at disp; the first begin.
func (s *Short) Add(x Rows, disp int, w [2]Register, first bool) {
	for t, sums := range s.sums {
		VPBROADCASTD(x.At(t, disp), s.x)
		if first {
			VPMADDUBSW(s.x, w[0], sums[0])
			VPMADDUBSW(s.x, w[1], sums[1])
			continue
		}
		VPMADDUBSW(s.x, w[0], s.v)
		VPMADDUBSW(s.x, w[1], s.x)
		VPADDW(s.v, sums[0], sums[0])
		VPADDW(s.x, sums[1], sums[1])
	}
}

// Widen multiplies the sums by a pair of int16 for each row and adds those in memory; it returns them, of each token and part of the rows.
func (s *Short) Widen(times [2]Register) (sums [][]Register) {
	for t, v := range s.sums {
		VPMADDWD(times[0], v[0], v[0])
		VPMADDWD(times[1], v[1], v[1])
		if s.Split {
			VPADDD(v[1], v[0], v[0])
		}
		v = v[:s.Parts()]
		for part, sum := range v {
			VPADDD(s.Sum(t, part), sum, sum)
		}
		sums = append(sums, v)
	}
	return sums
}

// Keep puts what Widen returned into memory.
func (s *Short) Keep(sums [][]Register) {
	for t, list := range sums {
		for part, v := range list {
			s.Move(v, s.Sum(t, part))
		}
	}
}
