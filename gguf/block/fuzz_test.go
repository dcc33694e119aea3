package block

import (
	"math"
	"testing"
)

// FuzzDecode decodes arbitrary bytes as every type, and turns their numbers around twice.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 292))
	f.Add([]byte("\xff\xff\xff\x7f\x00\x7c\x01\xfe\x80\x00"))
	f.Fuzz(func(t *testing.T, seed []byte) {
		for i := range codecs {
			typ := Type(i)
			if !typ.CanDecode() {
				continue
			}
			b := make([]byte, 2*typ.Bytes())
			for j := range b {
				if len(seed) > 0 {
					b[j] = seed[j%len(seed)]
				}
			}
			w := make([]float32, 2*typ.Size())
			if err := typ.Decode(w, b); err != nil {
				t.Fatal(err)
			}
			before := string(b)
			for range 2 {
				if err := typ.Swap(b); err != nil {
					t.Fatal(err)
				}
			}
			if string(b) != before {
				t.Fatalf("%s: swapped twice, % x became % x", typ, before, b)
			}
		}
	})
}

// FuzzEncode encodes arbitrary weights as every type, with importances that are powers of two: what is finite stays finite, no search is worse
// than zeros, and all kernels write the same bytes.
func FuzzEncode(f *testing.F) {
	f.Add([]byte{0x3f, 0x80}, []byte{127})
	f.Add([]byte{0x7f, 0x7f, 0, 0, 0x80, 0x01}, []byte{0, 0, 127})
	f.Add([]byte{0x01, 0x00, 0x3c, 0x00, 0xbc, 0x23, 0x33, 0x01, 0x80}, []byte{})
	f.Fuzz(func(t *testing.T, weights, importance []byte) {
		w, c := make([]float32, 256), constant(256, 1)
		for i := range w {
			var bits uint32
			for j := range 4 {
				if len(weights) > 0 {
					bits = bits<<8 | uint32(weights[(4*i+j)%len(weights)])
				}
			}
			if w[i] = math.Float32frombits(bits); w[i]-w[i] != 0 {
				w[i] = 1
			}
			if len(importance) > 0 {
				c[i] = math.Float32frombits(uint32(min(importance[i%len(importance)], 254)) << 23)
			}
		}
		for _, typ := range encoders {
			noWorse(t, typ, w, c)
		}
	})
}
