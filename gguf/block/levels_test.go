package block

import (
	"math"
	"math/rand/v2"
	"testing"

	"nibble/internal/half"
	"nibble/internal/kernel"
)

// Levels of random blocks, put together as the comment on them says, are the decoder's weights in every bit.
func TestLevels(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	middles := map[Type]int{Q4_K: 0, Q5_K: 0, Q6_K: 32, IQ4_XS: 0}
	for typ := range Type(64) {
		middle, ok := middles[typ]
		if has := leveled[typ] != nil; ok != has {
			t.Fatalf("%s has levels: %v", typ, has)
		}
		if !ok {
			continue
		}
		for range 50 {
			src := make([]byte, typ.Bytes())
			for i := range src {
				src[i] = byte(r.Uint32())
			}
			want := make([]float32, typ.Size())
			if err := typ.Decode(want, src); err != nil {
				t.Fatal(err)
			}
			x := kernel.KRow{Scales: [16]int8{15: 99}} // from before: what is not a group's stays
			var codes [kernel.KColumns]uint8
			typ.Levels(&x, &codes, src)
			size := 32
			if typ == Q6_K {
				size = 16
			}
			d, dmin := half.FromF16(x.D), half.FromF16(x.DMin)
			for i, q := range codes {
				code := int(q) - middle
				if typ == IQ4_XS {
					code = int(levels[q])
				}
				got := float32(d*float32(x.Scales[i/size])) * float32(code)
				if typ == Q4_K || typ == Q5_K {
					got -= float32(dmin * float32(x.Mins[i/size]))
				}
				if math.Float32bits(got) != math.Float32bits(want[i]) && (got == got || want[i] == want[i]) {
					t.Fatalf("%s: weight %d is %v, want %v", typ, i, got, want[i])
				}
			}
		}
	}
}

// The numbers of levels stand for the codes, under the same scales.
func TestSplitNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	const blocks = 5
	src := make([]byte, blocks*IQ4_NL.Bytes())
	for i := range src {
		src[i] = byte(r.Uint32())
	}
	codes, scales := make([]uint8, 32*blocks), make([]float32, blocks)
	IQ4_NL.Split(codes, scales, nil, src)
	numbers, same := make([]uint8, len(codes)), make([]float32, blocks)
	SplitNumbers(numbers, same, src)
	for i, q := range numbers {
		if int(codes[i])-128 != int(levels[q]) || math.Float32bits(scales[i/32]) != math.Float32bits(same[i/32]) {
			t.Fatalf("weight %d is level %d under %v, want code %d under %v", i, q, same[i/32], codes[i], scales[i/32])
		}
	}
}
