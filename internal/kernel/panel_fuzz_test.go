package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Whatever the bits, blocks, zero points, scales and tokens, every set gives the bits of the plain code, which is near the
// exact product.
func FuzzPanels(f *testing.F) {
	f.Add(uint64(1), uint8(4), []byte{15, 2}, uint8(4))
	f.Add(uint64(2), uint8(8), []byte{0}, uint8(11))
	f.Add(uint64(3), uint8(2), []byte{7, 0, 15, 143, 3}, uint8(0))
	f.Fuzz(func(t *testing.T, seed uint64, bits uint8, blocks []byte, tokens uint8) {
		const mostBlocks, mostTokens = 6, 26
		var steps []int
		for i, b := range blocks[:min(len(blocks), mostBlocks)] {
			n := 1 + int(b)%(WidestBlock/PanelStep)
			if i > 0 && b >= 128 { // of the group before
				n = -n
			}
			steps = append(steps, n)
		}
		if steps == nil {
			return
		}
		was := active
		defer func() { active = was }()
		r := rand.New(rand.NewPCG(seed, 1))
		n := 1 + int(tokens)%mostTokens
		zero := []string{"symmetric", "integer", "float"}[r.IntN(3)]
		c := randomPanels(r, 2+int(bits)%7, n, steps, zero, Float(r.IntN(3)))
		name := fmt.Sprintf("%d bits, steps %v, %s, %d tokens", c.bits, steps, zero, n)
		c.asInt8(n)
		testProduct(t, name+", int8", c, n, true)
		c.asPairs(n)
		testProduct(t, name+", bf16", c, n, false)
	})
}
