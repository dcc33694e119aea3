package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"nibble/internal/half"
)

var storedNames = [storedTypes]string{"f32", "bf16", "f16", "int8"}

// stored makes n vectors of a type that are stride bytes apart, of any bits that are finite numbers, and reads them back.
func stored(r *rand.Rand, typ Stored, n, dim, extra int) (Vectors, [][]float32) {
	size := typ.Bytes(dim)
	v := Vectors{typ, make([]byte, (n-1)*(size+extra)+size), size + extra, n}
	for i := range v.Data {
		v.Data[i] = byte(r.Uint32())
	}
	var want [][]float32
	for i := range n {
		row := v.Data[i*v.Stride:]
		x := make([]float32, dim)
		if typ == StoredInt8 {
			binary.LittleEndian.PutUint32(row, math.Float32bits(float32(r.NormFloat64())))
		}
		for j := range x {
			switch typ {
			case StoredF32:
				x[j] = float32(r.NormFloat64())
				binary.LittleEndian.PutUint32(row[4*j:], math.Float32bits(x[j]))
			case StoredBF16:
				row[2*j+1] = row[2*j+1]&0x81 | 0x3e // near 1
				x[j] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(row[2*j:])) << 16)
			case StoredF16:
				h := binary.LittleEndian.Uint16(row[2*j:])
				if h>>10&31 == 31 {
					h &= 0x83ff // a subnormal in its place
					binary.LittleEndian.PutUint16(row[2*j:], h)
				}
				x[j] = halfOf(h)
			case StoredInt8:
				x[j] = math.Float32frombits(binary.LittleEndian.Uint32(row)) * float32(int8(row[4+j]))
			}
		}
		want = append(want, x)
	}
	return v, want
}

// halfOf is the definition of a finite float16.
func halfOf(h uint16) float32 {
	e, f := int(h>>10&31), float64(h&0x3ff)/1024
	x := math.Ldexp(f, -14)
	if e > 0 {
		x = math.Ldexp(1+f, e-15)
	}
	if h>>15 == 1 {
		x = -x
	}
	return float32(x)
}

// Every score is the Dot of a query and a key, and every row of values is made by Axpy, position after position: whatever
// the number of rows and vectors, their distances, and the head's size.
func TestAttend(t *testing.T) { underEach(t, testAttend) }

func testAttend(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 1))
	for typ := range storedTypes {
		for _, dim := range []int{16, 32, 48, 64, 80, 96, 128, 256, 8, 20} {
			scratch := make([]float32, dim)
			for range 40 {
				rows, n, extra := 1+r.IntN(19), 1+r.IntN(40), 4*r.IntN(3)
				name := fmt.Sprintf("%s, head %d, %d rows, %d vectors", storedNames[typ], dim, rows, n)
				v, vectors := stored(r, typ, n, dim, extra)
				ldq, ldd, room := dim+r.IntN(5), 5+r.IntN(3), (n+15)&^15
				q, _ := random(r, (rows-1)*ldq+dim)
				for i := range q {
					q[i] *= 1.1
				}
				ldd += room
				dst := make([]float32, (rows-1)*ldd+room)
				Scores(dst, ldd, q, ldq, rows, dim, v, scratch)
				for i := range rows {
					want := make([]float32, n)
					for j, key := range vectors {
						want[j] = sixteen(q[i*ldq:i*ldq+dim], key)
					}
					wantBits(t, name, dst[i*ldd:i*ldd+n], want)
				}
				// The scores are weights, the queries what is there already.
				want := append([]float32(nil), q...)
				for j, value := range vectors {
					for i := range rows {
						axpy(want[i*ldq:], dst[i*ldd+j], value)
					}
				}
				Values(q, ldq, dst, ldd, rows, dim, v, scratch)
				wantBits(t, name, q, want)
			}
		}
	}
}

// Stored vectors have the bits of the scalar conversions, at every length, and no other byte changes.
func TestStore(t *testing.T) { underEach(t, testStore) }

func testStore(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 6))
	for n := range 70 {
		x, scratch := make([]float32, n), make([]int8, n)
		for i := range x {
			x[i] = math.Float32frombits(uint32(r.IntN(64)+0x60)<<23 | r.Uint32()&0x807fffff) // where float16 is, and around
			if r.IntN(8) == 0 {
				x[i] = special[r.IntN(len(special))]
			}
		}
		for typ := range storedTypes {
			size := typ.Bytes(n)
			got, want := make([]byte, size+1), make([]byte, size)
			got[size] = 99
			typ.Store(got[:size], x)
			for i, v := range x {
				switch typ {
				case StoredF32:
					binary.LittleEndian.PutUint32(want[4*i:], math.Float32bits(v))
				case StoredBF16:
					binary.LittleEndian.PutUint16(want[2*i:], half.BF16(v))
				case StoredF16:
					binary.LittleEndian.PutUint16(want[2*i:], half.F16(v))
				}
			}
			if typ == StoredInt8 {
				s, _ := QuantizeInt8(scratch, x)
				binary.LittleEndian.PutUint32(want, math.Float32bits(s))
				for i, c := range scratch {
					want[4+i] = byte(c)
				}
			}
			if !bytes.Equal(got[:size], want) || got[size] != 99 {
				t.Fatalf("%s of %v: %x, want %x", storedNames[typ], x, got, want)
			}
		}
	}
}

// Infinities, NaN and negative zeros are as in Dot and Axpy, and stay in their row.
func TestAttendNonFinite(t *testing.T) { underEach(t, testAttendNonFinite) }

func testAttendNonFinite(t *testing.T) {
	const dim, n, rows = 32, 21, 8
	r := rand.New(rand.NewPCG(21, 2))
	scratch := make([]float32, dim)
	for typ := range storedTypes {
		for round := range 60 {
			v, _ := stored(r, typ, n, dim, 0)
			at := v.Data[r.IntN(n)*v.Stride:]
			bad := special[r.IntN(len(special))]
			switch typ {
			case StoredF32, StoredInt8: // the scale
				binary.LittleEndian.PutUint32(at, math.Float32bits(bad))
			case StoredBF16:
				binary.LittleEndian.PutUint16(at[2:], uint16(math.Float32bits(bad)>>16))
			case StoredF16:
				binary.LittleEndian.PutUint16(at[4:], []uint16{0x7c00, 0xfc00, 0x7e01, 0x7c01, 0x8000, 1, 0x83ff}[r.IntN(7)])
			}
			q, _ := random(r, rows*dim)
			q[r.IntN(len(q))] = special[r.IntN(len(special))]
			if round%3 == 0 { // sums of zeros of either sign
				for i := range q {
					q[i] = float32(math.Copysign(0, float64(r.IntN(2))-0.5))
				}
			}
			dst, want := make([]float32, rows*32), make([]float32, rows*32)
			Scores(dst, 32, q, dim, rows, dim, v, scratch)
			scores(want, 32, q, dim, rows, dim, v, scratch)
			sums := append([]float32(nil), q...)
			Values(q, dim, want, 32, rows, dim, v, scratch)
			values(sums, dim, want, 32, rows, dim, v, scratch)
			wantBits(t, storedNames[typ]+" values", q, sums)
			for i := range rows {
				wantBits(t, storedNames[typ]+" scores", dst[i*32:i*32+n], want[i*32:i*32+n])
			}
		}
	}
}

// Slices that are too short panic: the assembly would not notice.
func TestAttendShort(t *testing.T) { underEach(t, testAttendShort) }

func testAttendShort(t *testing.T) {
	const dim = 16
	q, w, scratch := make([]float32, 2*dim), make([]float32, 32), make([]float32, dim)
	data := make([]byte, 4*3*dim)
	for i, f := range []func(){
		func() { Scores(w[:17:17], 16, q, dim, 2, dim, Vectors{StoredF32, data, 4 * dim, 3}, scratch) },
		func() { Scores(w, 16, q[:2*dim-1:2*dim-1], dim, 2, dim, Vectors{StoredF32, data, 4 * dim, 3}, scratch) },
		func() {
			Scores(w, 16, q, dim, 2, dim, Vectors{StoredF32, data[: 4*3*dim-1 : 4*3*dim-1], 4 * dim, 3}, scratch)
		},
		func() { Scores(w, 16, q, dim, 2, dim, Vectors{StoredInt8, data[: 2*20+19 : 2*20+19], 20, 3}, scratch) },
		func() { Values(q, dim, w[:18:18], 16, 2, dim, Vectors{StoredF32, data, 4 * dim, 3}, scratch) },
		func() {
			Values(q[:2*dim-1:2*dim-1], dim, w, 16, 2, dim, Vectors{StoredBF16, data, 2 * dim, 3}, scratch)
		},
		func() {
			Values(q, dim, w, 16, 2, dim, Vectors{StoredBF16, data[: 2*3*dim-1 : 2*3*dim-1], 2 * dim, 3}, scratch)
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("case %d does not panic", i)
				}
			}()
			for j := range q {
				q[j] = 0
			}
			f()
		}()
	}
	Scores(w, 16, q, dim, 2, dim, Vectors{Type: StoredF16}, scratch)
	Values(q, dim, w, 16, 2, dim, Vectors{Type: StoredF16}, scratch)
}

// FuzzAttend compares every set with the plain code, for any shapes and any bits.
func FuzzAttend(f *testing.F) {
	f.Add(uint64(1), uint8(2), uint8(5), uint8(4), uint8(30))
	f.Add(uint64(2), uint8(3), uint8(8), uint8(8), uint8(1))
	f.Fuzz(func(t *testing.T, seed uint64, typ, steps, rows, n uint8) {
		r := rand.New(rand.NewPCG(seed, 5))
		dim := 16 * (1 + int(steps%16))
		v := Vectors{Type: Stored(typ) % storedTypes, N: 1 + int(n%70)}
		m := 1 + int(rows%20)
		v.Stride = v.Type.Bytes(dim) + int(seed%3)
		v.Data = make([]byte, v.N*v.Stride)
		for i := range v.Data {
			v.Data[i] = byte(r.Uint32())
		}
		q := make([]float32, m*dim)
		for i := range q {
			q[i] = math.Float32frombits(r.Uint32())
		}
		room := (v.N + 15) &^ 15
		want, scratch := make([]float32, m*room), make([]float32, dim)
		was := active
		defer func() { active = was }()
		active = generic
		scores(want, room, q, dim, m, dim, v, scratch)
		sums := append([]float32(nil), q...)
		values(sums, dim, want, room, m, dim, v, scratch)
		for _, s := range sets {
			active = s
			got := make([]float32, m*room)
			Scores(got, room, q, dim, m, dim, v, scratch)
			for i := range m {
				wantBits(t, s.name+" scores", got[i*room:i*room+v.N], want[i*room:i*room+v.N])
			}
			x := append([]float32(nil), q...)
			Values(x, dim, want, room, m, dim, v, scratch)
			wantBits(t, s.name+" values", x, sums)
		}
	})
}

// BenchmarkAttend is a block of 64 positions; rows are the query heads of a group, or tokens.
func BenchmarkAttend(b *testing.B) {
	const n, dim = 64, 64
	r := rand.New(rand.NewPCG(21, 4))
	q, dst, scratch := make([]float32, 8*dim), make([]float32, 8*n), make([]float32, dim)
	for typ := range storedTypes {
		v, _ := stored(r, typ, n, dim, 0)
		for _, rows := range []int{1, 2, 3, 4, 8} {
			b.Run(fmt.Sprintf("scores/%s/%d", storedNames[typ], rows), func(b *testing.B) {
				for b.Loop() {
					Scores(dst, n, q, dim, rows, dim, v, scratch)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n*rows), "ns/score")
			})
			b.Run(fmt.Sprintf("values/%s/%d", storedNames[typ], rows), func(b *testing.B) {
				clear(dst)
				for b.Loop() {
					Values(q, dim, dst, n, rows, dim, v, scratch)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n*rows), "ns/weight")
			})
		}
	}
}
