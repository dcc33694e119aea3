//go:build unix

package kernel

import "testing"

// No operation on vectors touches a byte outside its slices.
func TestVectorGuardPages(t *testing.T) { underEach(t, testVectorGuardPages) }

func testVectorGuardPages(t *testing.T) {
	const most = 70
	for _, atEnd := range []bool{true, false} {
		var page [4][]byte
		for i := range page {
			page[i] = guarded(t, 4*most, atEnd)
		}
		codes := guarded(t, most, atEnd)
		for n := 1; n <= most; n++ {
			var v [4][]float32
			q := codes[:n]
			for i, p := range page {
				v[i] = floatsOf(p[:4*n])
				if atEnd {
					v[i], q = floatsOf(p[4*(most-n):]), codes[most-n:]
				}
			}
			for _, op := range vectorOps {
				for i := range v {
					for j := range v[i] {
						v[i][j] = float32(j%5) + 0.5
					}
				}
				op.run(v[0][:n:n], v[1][:n:n], v[2][:n:n], v[3][:n:n])
			}
			lo, hi := v[0], v[1]
			active.rotate(lo, hi, v[2], v[3])
			if n >= 3 {
				v[0][0], v[0][1], v[0][2] = 1, -127, 63.5
				for i := 3; i < n; i++ {
					v[0][i] = -1
				}
				if s, sum := QuantizeInt8(int8sOf(q), v[0]); s != 1 || sum != int32(1-127+64-(n-3)) || q[1] != 129 {
					t.Fatalf("length %d: scale %v, sum %d, codes %v", n, s, sum, q)
				}
			}
		}
	}
}
