package block

import (
	"fmt"
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
		for _, weights := range [][]float32{nil, ones} {
			b.Run(fmt.Sprintf("%s/weighted=%v", Type(t), weights != nil), func(b *testing.B) {
				dst := make([]byte, len(w)/codecs[t].size*codecs[t].bytes)
				b.SetBytes(int64(4 * len(w)))
				for b.Loop() {
					codecs[t].encode(dst, w, weights)
				}
			})
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	w := make([]float32, 1<<14)
	for t := range codecs {
		if codecs[t].decode == nil {
			continue
		}
		b.Run(Type(t).String(), func(b *testing.B) {
			src := make([]byte, len(w)/codecs[t].size*codecs[t].bytes)
			b.SetBytes(int64(4 * len(w)))
			for b.Loop() {
				codecs[t].decode(w, src)
			}
		})
	}
}
