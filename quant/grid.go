package quant

import (
	"encoding/binary"
	"fmt"
	"math"

	"nibble/internal/half"
	"nibble/internal/kernel"
	"nibble/safetensors"
)

// Check verifies that the spec is complete: what no format can be asked for.
func (s Spec) Check() error {
	switch {
	case s.Bits < 2 || s.Bits > 8:
		return fmt.Errorf("%d bits: a code has 2 to 8", s.Bits)
	case s.Group < 1 && s.Group != -1:
		return fmt.Errorf("group size %d: it is 1 or more, or -1 for the whole row", s.Group)
	case s.Scale != safetensors.BF16 && s.Scale != safetensors.F16 && s.Scale != safetensors.F32:
		return fmt.Errorf("scales of type %s: they can be BF16, F16 or F32", s.Scale)
	}
	return nil
}

// CheckGroups verifies that the groups of a row of k columns are all full.
func (s Spec) CheckGroups(k int) error {
	if g := s.GroupSize(k); k%g != 0 {
		return fmt.Errorf("%d columns are not a multiple of the group size %d", k, g)
	}
	return nil
}

// Round rounds a finite f to the type in which it is stored: BF16, F16 or F32. What is beyond the type's range becomes
// its largest value, since an infinity would make every weight of the group NaN.
func Round(f float32, d safetensors.DType) float32 {
	if b := math.Float32bits(f); d == safetensors.BF16 && b&^(1<<31) < 0x7f000000 {
		return math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff) // cannot go beyond the range
	}
	return round(f, d)
}

func round(f float32, d safetensors.DType) float32 {
	var limit float32
	switch d {
	case safetensors.BF16:
		limit = 0x1.fep127
		f = half.RoundBF16(f)
	case safetensors.F16:
		limit = 65504
		f = half.RoundF16(f)
	default:
		limit = math.MaxFloat32
	}
	return min(max(f, -limit), limit)
}

// RoundScale is Round for a scale, by which weights are divided: a magnitude below the smallest usable one becomes that,
// keeping the sign. It is 2^-24 in F16, the smallest value of all, and 2^-126 in BF16 and F32, below which float32
// loses precision and some processors flush to zero.
func RoundScale(s float32, d safetensors.DType) float32 {
	if b := math.Float32bits(s); d == safetensors.BF16 && b&^(1<<31)-0x00800000 < 0x7f000000-0x00800000 {
		return math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff) // from 2^-126 to 2^127, the most of a search
	}
	return roundScale(s, d)
}

func roundScale(s float32, d safetensors.DType) float32 {
	least := float32(0x1p-126)
	if d == safetensors.F16 {
		least = 0x1p-24
	}
	negative := s < 0
	switch s = Round(s, d); {
	case s >= least || s <= -least:
		return s
	case negative:
		return -least
	}
	return least
}

// EncodeFloats stores src in dst as little-endian values of type d: BF16, F16 or F32.
func EncodeFloats(dst []byte, src []float32, d safetensors.DType) {
	switch d {
	case safetensors.BF16:
		kernel.NarrowBF16(dst, src)
	case safetensors.F16:
		half.EncodeF16(dst, src)
	default:
		half.EncodeF32(dst, src)
	}
}

// DecodeFloats widens len(dst) values of type d: BF16, F16, F32, or F64, which is rounded to float32.
func DecodeFloats(dst []float32, src []byte, d safetensors.DType) {
	switch d {
	case safetensors.BF16:
		kernel.WidenBF16(dst, src)
	case safetensors.F16:
		half.DecodeF16(dst, src)
	case safetensors.F64:
		for i := range dst {
			dst[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:])))
		}
	default:
		half.DecodeF32(dst, src)
	}
}

// EachGroup calls solve for every group of the matrix with the group's slot in Scales, its weights of w [m.N, m.K], the
// weights d of their columns, nil if d is, and the codes to be set.
func (m *Matrix) EachGroup(w, d []float32, solve func(slot int, w, d []float32, codes []uint8)) {
	groups := m.Groups()
	for n := range m.N {
		for g := range groups {
			lo, hi := g*m.Group, min((g+1)*m.Group, m.K)
			var part []float32
			if d != nil {
				part = d[lo:hi]
			}
			solve(n*groups+g, w[n*m.K+lo:n*m.K+hi], part, m.Codes[n*m.K+lo:n*m.K+hi])
		}
	}
}

// EachWeighed is EachGroup where the weights of columns are made up if d is nil: those of Importance, or nil in a group whose squares
// float32 does not hold.
func (m *Matrix) EachWeighed(w, d []float32, solve func(slot int, w, d []float32, codes []uint8)) {
	c := make([]float32, min(m.Group, m.K))
	m.EachGroup(w, d, func(slot int, w, d []float32, codes []uint8) {
		if d == nil {
			if sigma := Importance(c, w); sigma > 0 && sigma <= math.MaxFloat32 {
				d = c[:len(w)]
			}
		}
		solve(slot, w, d, codes)
	})
}

// Importance sets c to what the squared errors of weights count where nothing is known of the columns, σ + |w|, and returns the root mean
// square σ of the weights. Large weights count more: the columns that models give large weights tend to be those that matter. With it
// builds come nearer to the original than with weights of one (docs/solvers.md, docs/gguf.md).
func Importance(c, w []float32) (sigma float32) {
	sigma = float32(math.Sqrt(float64(kernel.Dot(w, w)) / float64(len(w))))
	kernel.Lift(c[:len(w)], w, sigma)
	return sigma
}
