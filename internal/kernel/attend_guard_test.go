//go:build unix

package kernel

import (
	"math/rand/v2"
	"testing"
)

// Nothing outside of queries, scores and vectors is touched.
func TestAttendGuardPages(t *testing.T) { underEach(t, testAttendGuardPages) }

func testAttendGuardPages(t *testing.T) {
	const most, dim = 36, 80
	scratch := make([]float32, dim)
	r := rand.New(rand.NewPCG(21, 3))
	for _, atEnd := range []bool{true, false} {
		part := func(b []byte, n int) []byte {
			if atEnd {
				return b[len(b)-n:]
			}
			return b[:n:n]
		}
		q, dst, data := guarded(t, 4*9*dim, atEnd), guarded(t, 4*9*48, atEnd), guarded(t, 4*dim*most, atEnd)
		for typ := range storedTypes {
			for rows := 1; rows <= 9; rows++ {
				for n := 1; n <= most; n += 1 + n%3 {
					v, _ := stored(r, typ, n, dim, 0)
					v.Data = append(part(data, len(v.Data))[:0], v.Data...)
					room := (n + 15) &^ 15
					x, y := floatsOf(part(q, 4*rows*dim)), floatsOf(part(dst, 4*rows*room))
					for i := range x {
						x[i] = 1
					}
					Scores(y, room, x, dim, rows, dim, v, scratch)
					// Weights need no room behind the last one.
					Values(x, dim, floatsOf(part(dst, 4*rows*n)), n, rows, dim, v, scratch)
					typ.Store(part(data, typ.Bytes(16*rows+n)), floatsOf(part(q, 4*(16*rows+n))))
				}
			}
		}
	}
}
