package tile

import (
	"encoding/binary"
	"math"
)

// DotBF16 is TDPBF16PS: c += a·b. The products of even and of odd k are added up apart, k rising, each by a fused operation; then come the
// sum of both, and that and c. Operands and results below 2^-126 in magnitude are zeros of their sign, rounding is to the nearest,
// ties to even, whatever MXCSR says.
func (s *State) DotBF16(c, a, b int) error {
	rows, cols, err := s.fit(c, a, b)
	if err != nil {
		return err
	}
	value := func(b []byte) float32 {
		return flush(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
	}
	for m := range rows[0] {
		var even, odd [MostRows]float32
		for k := range rows[2] {
			pair := s.data[a][m][4*k:]
			x0, x1 := value(pair), value(pair[2:])
			for n := range cols[0] / 4 {
				w := s.data[b][k][4*n:]
				even[n] = round(float64(x0)*float64(value(w)) + float64(even[n]))
				odd[n] = round(float64(x1)*float64(value(w[2:])) + float64(odd[n]))
			}
		}
		for n := range cols[0] / 4 {
			at := s.data[c][m][4*n:]
			was := flush(math.Float32frombits(binary.LittleEndian.Uint32(at)))
			sum := round(float64(even[n]) + float64(odd[n]))
			binary.LittleEndian.PutUint32(at, math.Float32bits(round(float64(was)+float64(sum))))
		}
	}
	return nil
}

// flush returns v, or a zero of its sign in place of a subnormal number.
func flush(v float32) float32 {
	if bits := math.Float32bits(v); bits&0x7f800000 == 0 {
		return math.Float32frombits(bits & (1 << 31))
	}
	return v
}

// round rounds to float32 and flushes what is below 2^-126 then. In float64 a product of bfloat16, of 16 bits, and a float32, of 24, add
// up exactly or to something whose rounding to 24 bits is that of the exact sum: it can be no tie that the exact sum is not.
func round(v float64) float32 {
	const up = 1 << 60 // exact, and out of the range where float32 has fewer bits
	if math.Abs(v) < 0x1p-100 {
		if f := float32(v * up); math.Abs(float64(f)) >= 0x1p-126*up {
			return f / up
		}
		return float32(math.Copysign(0, v))
	}
	return float32(v)
}
