//go:build unix

package kernel

import (
	"math"
	"testing"
)

// No loop of the quantizers touches a byte outside its slices: it would be the end of the test.
func TestGuardPagesOfQuantizers(t *testing.T) { underEach(t, testGuardPagesOfQuantizers) }

func testGuardPagesOfQuantizers(t *testing.T) {
	const most = 160
	for _, atEnd := range []bool{true, false} {
		x, y, z := guarded(t, 8*most, atEnd), guarded(t, 8*most, atEnd), guarded(t, 8*most, atEnd)
		steps := guarded(t, most/PanelStep*StepBytes, atEnd)
		part := func(b []byte, n int) []byte {
			if atEnd {
				return b[len(b)-n:]
			}
			return b[:n:n]
		}
		for n := 1; n <= most; n++ {
			w, v, codes := floatsOf(part(x, 4*n)), floatsOf(part(y, 4*n)), part(z, n)
			for i := range w {
				w[i] = float32(i%7) - 3
			}
			NarrowBF16(part(z, 2*n), w)
			WidenBF16(v, part(z, 2*n))
			if !Finite(v) {
				t.Fatalf("length %d: %v", n, v)
			}
			lo, hi := Extremes(w)
			if signal, errors, _ := Noise(w, v); errors != 0 || signal == 0 || lo != -3 {
				t.Fatalf("length %d: signal %v, errors %v, lowest %v", n, signal, errors, lo)
			}
			if n%PanelStep == 0 {
				Lows(part(steps, (n/PanelStep-1)*StepBytes+32), part(z, 8*n), 8, n, n)
			}
			if n == 32 {
				packHighs(part(steps, 32), part(z, 8*n), 8, 1, n)
				packHighs(part(steps, 32), part(z, 4*n), 8, 2, n/2)
			}
			if n%16 == 0 {
				ones := floatsOf(part(y, n/4))
				for i := range ones {
					ones[i] = 1
				}
				EncodeRuns(codes, w, 16, ones, ones, -8, 7)
				if codes[n-1] != uint8(w[n-1]+7) {
					t.Fatalf("length %d: codes %v of %v", n, codes, w)
				}
			}
			g := Grid{Scale: 1, Add: 8, Hi: 15, Off: 8}
			g.EncodeBF16(codes, w)
			g.Encode(codes, w)
			Lift(v, v, 1)
			Spread(v, w)
			Expand(v, codes, 1, 8, float32(math.Copysign(0, -1)))
			if e := GridError(&g, w, nil); e != 0 || v[n-1] != w[n-1] {
				t.Fatalf("length %d: error %v, %v", n, e, v)
			}
			if _, _, sum, _, ok := g.Sums(w, 3); !ok || sum > 0 {
				t.Fatalf("length %d: sum %v", n, sum)
			}
			var c Trials
			c.Add(1, 0, 8, 0, 15)
			c.Add(1.5, 0.5, 0, -8, 7)
			if c.Sift(w, nil, max(hi, -lo), 16); c.Next(0) != 0 {
				t.Fatalf("length %d: an exact grid is sifted out", n)
			}

			nibbles, all := part(x, n), part(y, 2*n)
			JoinNibbles(nibbles, all[:2*n])
			SplitNibbles(all, nibbles)
			words, eight := part(x, 4*n), part(y, 8*n)
			Weave(words, eight, n)
			Unweave(eight, words, n)
			if n <= 40 {
				Transpose32(part(x, n/8*4*n), part(y, n/8*4*n), n, n/8)
			}
		}
	}
}
