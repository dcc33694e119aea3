package kernel

import (
	"encoding/binary"
	"math"

	"github.com/x448/float16"
)

// At reads element i of values of a type, little-endian.
func (f Float) At(b []byte, i int) float32 {
	switch f {
	case Float16:
		return float16.Frombits(binary.LittleEndian.Uint16(b[2*i:])).Float32()
	case BFloat16:
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
}

// codes4, codes8 and levels4 are Codes4, Codes8 and Levels4 for one token.
func codes4(p *Product)  { integers(p, formCodes4) }
func codes8(p *Product)  { integers(p, formCodes8) }
func levels4(p *Product) { integers(p, formLevels4) }

// integers multiplies codes by int8.
func integers(p *Product, f form) {
	codes, head := p.Codes, p.Codes
	for panel := range int(p.Panels) {
		var y [PanelRows]float32
		acts := Int8s(p.X)
		for b, block := range p.Blocks {
			if block.Begins != 0 {
				head, codes = codes, codes[p.Size:]
			}
			at := b * int(p.Row)
			negative := p.Sums[at]
			var sums [PanelRows]int32
			for r := range sums {
				sums[r] = negative * p.zero(head, r)
			}
			for range block.Steps {
				switch x := (*[PanelStep]int8)(acts); f {
				case formCodes4:
					add4(&sums, codes, x)
				case formCodes8:
					add8(&sums, codes, x)
				case formLevels4:
					var wide [2 * StepBytes]byte
					unpackLevels(wide[:], codes[:StepBytes])
					add8(&sums, wide[:], x)
				}
				codes, acts = codes[forms[f].kept:], acts[PanelStep:]
			}
			for r, sum := range sums {
				v := float32(float32(sum) * p.Type.At(head, r))
				if p.Biases != 0 {
					v -= float32(float32(negative) * p.Type.At(head[p.Biases:], r))
				}
				y[r] += float32(v * p.XScales[at])
			}
		}
		copy(p.Y[panel*PanelRows:], y[:])
	}
}

// zero returns the code of a row that is zero.
func (p *Product) zero(head []byte, row int) int32 {
	if p.Zeros == 0 {
		return int32(p.Mid)
	}
	return int32(head[int(p.Zeros)+row])
}

// add4 adds the products of PanelStep columns of 4-bit codes.
func add4(sums *[PanelRows]int32, codes []byte, x *[PanelStep]int8) {
	w := (*[StepBytes]byte)(codes)
	x0, x1, x2, x3 := int32(x[0]), int32(x[1]), int32(x[2]), int32(x[3])
	x4, x5, x6, x7 := int32(x[4]), int32(x[5]), int32(x[6]), int32(x[7])
	for r := range sums {
		v := binary.LittleEndian.Uint32(w[4*r:])
		sums[r] += int32(v&15)*x0 + int32(v>>8&15)*x1 + int32(v>>16&15)*x2 + int32(v>>24&15)*x3 +
			int32(v>>4&15)*x4 + int32(v>>12&15)*x5 + int32(v>>20&15)*x6 + int32(v>>28)*x7
	}
}

// add8 adds the products of PanelStep columns of 8-bit codes.
func add8(sums *[PanelRows]int32, codes []byte, x *[PanelStep]int8) {
	w := (*[2 * StepBytes]byte)(codes)
	x0, x1, x2, x3 := int32(x[0]), int32(x[1]), int32(x[2]), int32(x[3])
	x4, x5, x6, x7 := int32(x[4]), int32(x[5]), int32(x[6]), int32(x[7])
	for r := range sums {
		u, v := binary.LittleEndian.Uint32(w[4*r:]), binary.LittleEndian.Uint32(w[StepBytes+4*r:])
		sums[r] += int32(u&255)*x0 + int32(u>>8&255)*x1 + int32(u>>16&255)*x2 + int32(u>>24)*x3 +
			int32(v&255)*x4 + int32(v>>8&255)*x5 + int32(v>>16&255)*x6 + int32(v>>24)*x7
	}
}

// addPair adds the products of a step of pairs, of each the second first.
func addPair(sums *[PanelRows]float32, weights []byte, x0, x1 float32) {
	w := (*[StepBytes]byte)(weights)
	for r := range sums {
		v := binary.LittleEndian.Uint32(w[4*r:])
		sums[r] += float32(math.Float32frombits(v&0xffff0000) * x1)
		sums[r] += float32(math.Float32frombits(v<<16) * x0)
	}
}

// pairs is Pairs for one token.
func pairs(p *Product) {
	codes, head := p.Codes, p.Codes
	for panel := range int(p.Panels) {
		var y [PanelRows]float32
		acts := p.X
		for b, block := range p.Blocks {
			if block.Begins != 0 {
				head, codes = codes, codes[p.Size:]
			}
			var sums [PanelRows]float32
			for range int(block.Steps) * PanelStep / 2 {
				addPair(&sums, codes, BFloat16.At(acts, 0), BFloat16.At(acts, 1))
				codes, acts = codes[StepBytes:], acts[4:]
			}
			for r, v := range sums {
				y[r] += p.scaled(v, p.Totals[b*int(p.Row)], head, r)
			}
		}
		copy(p.Y[panel*PanelRows:], y[:])
	}
}

// scaled applies the scale, zero point and bias of a row to its sum of a block, whose activations' sum is total.
func (p *Product) scaled(v, total float32, head []byte, row int) float32 {
	if p.Size == 0 {
		return v
	}
	if p.Zeros != 0 {
		v += float32(float32(int32(p.Mid)-p.zero(head, row)) * total)
	}
	v = float32(v * p.Type.At(head, row))
	if p.Biases != 0 {
		v += float32(total * p.Type.At(head[p.Biases:], row))
	}
	return v
}

// unpack8 turns 4-bit codes into 8-bit codes, twice as many bytes. src is a whole number of steps.
func unpack8(dst, src []byte) {
	for len(src) > 0 {
		for i, c := range src[:StepBytes] {
			dst[i], dst[StepBytes+i] = c&15, c>>4
		}
		dst, src = dst[2*StepBytes:], src[StepBytes:]
	}
}

// unpackLevels is unpack8 with the codes of levels.
func unpackLevels(dst, src []byte) {
	unpack8(dst, src)
	for i, c := range dst[:2*len(src)] {
		dst[i] = IQ4Levels[c]
	}
}

// pairs4 turns 4-bit codes less mid into pairs, four times as many bytes.
func pairs4(dst, src []byte, mid int64) {
	var table [16]uint32
	fillBF16(table[:], mid)
	for len(src) > 0 {
		for r := range PanelRows {
			v, to := binary.LittleEndian.Uint32(src[4*r:]), dst[4*r:]
			for i, shift := range [4]int{0, 8, 4, 12} {
				pair := table[v>>shift&15] | table[v>>(16+shift)&15]<<16
				binary.LittleEndian.PutUint32(to[i*StepBytes:], pair)
			}
		}
		dst, src = dst[4*StepBytes:], src[StepBytes:]
	}
}

// pairs8 turns 8-bit codes less mid into pairs, twice as many bytes.
func pairs8(dst, src []byte, mid int64) {
	var table [256]uint32
	fillBF16(table[:], mid)
	for len(src) > 0 {
		for r := range PanelRows {
			v, to := binary.LittleEndian.Uint32(src[4*r:]), dst[4*r:]
			binary.LittleEndian.PutUint32(to, table[v&255]|table[v>>16&255]<<16)
			binary.LittleEndian.PutUint32(to[StepBytes:], table[v>>8&255]|table[v>>24]<<16)
		}
		dst, src = dst[2*StepBytes:], src[StepBytes:]
	}
}

// fillBF16 writes the bfloat16 of every code less mid, which has at most eight significant bits.
func fillBF16(table []uint32, mid int64) {
	for c := range table {
		table[c] = math.Float32bits(float32(int64(c)-mid)) >> 16
	}
}

// roundPairs rounds values to bfloat16 in the order of pairs and adds them up in sixteen lanes.
func roundPairs(dst []byte, x []float32) (lanes [16]float32) {
	for i := range x {
		to := dst[2*(i&^3+pairPlace[i&3]):]
		narrow(x[i:i+1], to)
		lanes[i&15] += BFloat16.At(to, 0)
	}
	return lanes
}
