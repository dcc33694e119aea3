package synthetic

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"

	"nibble/hf"
	"nibble/internal/half"
	"nibble/quant"
)

// pattern is the content of a tensor: runs of run bytes, each of which begins with another unit bytes of data and goes on
// with the same ones again.
type pattern struct {
	data      []byte
	unit, run int64
}

// read fills p from byte off on.
func (x *pattern) read(p []byte, off int64) {
	for len(p) > 0 {
		in := off % x.run
		at := in % x.unit
		n := copy(p[:min(int64(len(p)), x.run-in)], x.data[off/x.run*x.unit+at:(off/x.run+1)*x.unit])
		p, off = p[n:], off+int64(n)
	}
}

// endless is the run of a pattern without any other.
const endless = math.MaxInt64

// tileBytes is after how much a float matrix comes again. Every one starts elsewhere.
const tileBytes = 1 << 20

// floatTile returns twice the bytes of the tile: bfloat16 values whose spread is 0.02, each the sum of four uniform ones.
func floatTile() []byte {
	const spread = 0.02 * 1.7320508 // that of normal is 1/√3
	r := rand.New(rand.NewPCG(1, 1))
	p := make([]byte, tileBytes, 2*tileBytes)
	for i := 0; i < len(p); i += 2 {
		binary.LittleEndian.PutUint16(p[i:], half.BF16(normal(r)*spread))
	}
	return append(p, p...)
}

// normal returns the sum of four uniform variates from -1/2 to 1/2.
func normal(r *rand.Rand) float32 {
	x := r.Uint64()
	sum := int(x&0xffff) + int(x>>16&0xffff) + int(x>>32&0xffff) + int(x>>48) - 2*0xffff
	return float32(sum) / 0xffff
}

// floatPattern returns the content of a float tensor: norms do nothing, biases are 0.
func (m *maker) floatPattern(t *hf.Tensor) pattern {
	const page = 4096
	switch norm := t.Role >= hf.AttnNorm && t.Role <= hf.KNorm; {
	case t.Role == hf.Bias, norm && (strings.HasSuffix(t.Name, ".bias") || m.arch.NormPlusOne):
		return pattern{make([]byte, page), page, endless}
	case norm:
		ones := make([]byte, page)
		for i := 0; i < page; i += 2 {
			binary.LittleEndian.PutUint16(ones[i:], half.BF16(1))
		}
		return pattern{ones, page, endless}
	}
	start := len(m.specs) * 2 * 4099 % tileBytes
	return pattern{m.floats[start : start+tileBytes], tileBytes, endless}
}

// random returns the first rows of a quantized matrix.
func (m *maker) random(x kind) *quant.Matrix {
	r := rand.New(rand.NewPCG(uint64(x.role), uint64(x.k)))
	w := quant.NewMatrix(strip, x.k, m.Spec.Bits, m.Spec.GroupSize(x.k), m.Spec.Zero)
	levels := 1 << w.Bits
	for i := range w.Codes {
		w.Codes[i] = uint8(r.Uint32()) & uint8(levels-1)
	}
	scale := math.Sqrt(12/float64(x.k)) / float64(levels) // codes have a spread of levels/√12
	for i := range w.Scales {
		s := float32(scale * (0.75 + float64(r.Float64()/2)))
		w.Scales[i] = quant.RoundScale(s, m.Spec.Scale)
		switch w.Zero {
		case quant.Integer:
			w.Zeros[i] = uint8(levels*3/8 + r.IntN(levels/4+1))
		case quant.Float:
			w.Bias[i] = quant.Round(s*float32(r.Float64()), m.Spec.Scale)
		}
	}
	return w
}
