package block

import (
	"math/rand/v2"
	"testing"
)

func BenchmarkEncode(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	w := make([]float32, 1<<14)
	ones := make([]float32, len(w))
	for i := range w {
		w[i], ones[i] = float32(r.NormFloat64()*0.02), 1
	}
	for t := range codecs {
		if codecs[t].encode == nil || codecs[t].size == 1 {
			continue
		}
		for name, weights := range map[string][]float32{"plain": nil, "weighted": ones} {
			b.Run(Type(t).String()+"/"+name, func(b *testing.B) {
				dst := make([]byte, len(w)/codecs[t].size*codecs[t].bytes)
				b.SetBytes(int64(4 * len(w)))
				for b.Loop() {
					codecs[t].encode(dst, w, weights)
				}
			})
		}
	}
}
