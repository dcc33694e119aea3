package block

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// TestGrids holds the weights of codes, scales and biases against those of the decoders, for random blocks, and joins the codes
// with the scales again.
func TestGrids(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	count := 0
	for typ := range Type(64) {
		g, ok := typ.Grid()
		if !ok {
			continue
		}
		count++
		src := make([]byte, 20*typ.Bytes())
		for i := range src {
			src[i] = byte(r.Uint32())
		}
		for b := range 20 { // no scale is an infinity or a NaN
			for _, f := range typ.of().fields {
				for i := range f.count {
					if f.width == 2 {
						src[b*typ.Bytes()+f.at+2*i+1] &= 0xbf
					}
				}
			}
		}
		n := 20 * typ.Size()
		want, codes := make([]float32, n), make([]uint8, n)
		if err := typ.Decode(want, src); err != nil {
			t.Fatal(err)
		}
		scales, biases := make([]float32, n/g.Size), make([]float32, n/g.Size)
		typ.Split(codes, scales, biases, src)
		for i, q := range codes {
			if int(q) >= 1<<g.Bits {
				t.Fatalf("%s: code %d is %d", typ, i, q)
			}
			got := scales[i/g.Size] * float32(int(q)-1<<(g.Bits-1))
			tolerance := 0.0
			if g.Biases {
				got += biases[i/g.Size]
				tolerance = 2e-7 * math.Abs(float64(biases[i/g.Size]))
				tolerance += 4e-7 * math.Abs(float64(scales[i/g.Size])) * float64(int(1)<<g.Bits)
			}
			if math.Abs(float64(got)-float64(want[i])) > tolerance {
				t.Fatalf("%s: weight %d is %v, want %v", typ, i, got, want[i])
			}
		}
		back, least := bytes.Clone(src), make([]uint8, n)
		for i := range least {
			if g.Levels != nil {
				least[i] = g.Levels[0]
			}
		}
		typ.Join(back, least)
		if bytes.Equal(back, src) {
			t.Errorf("%s: other codes, the same blocks", typ)
		}
		if typ.Join(back, codes); !bytes.Equal(back, src) {
			t.Errorf("%s: the codes come back as other blocks", typ)
		}
	}
	if count != 12 {
		t.Errorf("%d types have a grid, want 12", count)
	}
}
