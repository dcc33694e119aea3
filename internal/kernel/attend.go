package kernel

import (
	"encoding/binary"
	"math"

	"nibble/internal/half"
)

// Stored is a type in which keys and values are stored. Float32, bfloat16 and float16 are little-endian.
type Stored uint8

// The types of stored vectors. Int8 has a float32 first, the scale: an element is the product of both, rounded.
const (
	StoredF32 Stored = iota
	StoredBF16
	StoredF16
	StoredInt8
	storedTypes
)

// Vectors are keys or values of one head at consecutive positions.
type Vectors struct {
	Type   Stored
	Data   []byte // from the first vector on
	Stride int    // bytes from one to the next
	N      int
}

// Slice returns the vectors lo to hi−1.
func (v Vectors) Slice(lo, hi int) Vectors {
	v.Data, v.N = v.Data[lo*v.Stride:], hi-lo
	return v
}

// attend multiplies vectors by some rows that are ldf apart, and puts the result into others that are ldt apart. dim is a
// multiple of 16, and rows at most 4 or 8.
type attend func(to []float32, ldt int, from []float32, ldf int, data []byte, stride, rows, n, dim int)

// attends is attention of a set, by types of vectors; nil: in plain Go.
type attends struct {
	scores, values [storedTypes]attend
	narrowF16      func(dst []byte, x []float32) // a multiple of 16
}

var attendsGeneric = attends{narrowF16: half.EncodeF16}

// most returns the rows of the next call, of so many that are left: eight or at most four.
func most(rows int) int {
	if rows >= 8 {
		return 8
	}
	return min(rows, 4)
}

// Scores sets dst[r, i] to the Dot of query r and key i, for a number of queries of dim elements. Rows of dst are ldd apart,
// those of q ldq. dst has room for N of every row rounded up to 16; what is written behind N has no meaning. scratch has
// room for a vector.
func Scores(dst []float32, ldd int, q []float32, ldq, rows, dim int, k Vectors, scratch []float32) {
	if k.N == 0 {
		return
	}
	f := active.scores[k.Type]
	if f == nil || dim%16 != 0 {
		scores(dst, ldd, q, ldq, rows, dim, k, scratch[:dim])
		return
	}
	k.check(dim)
	for n := 0; rows > 0; rows -= n {
		n = most(rows)
		_, _ = dst[:(n-1)*ldd+(k.N+15)&^15], q[:(n-1)*ldq+dim]
		f(dst, ldd, q, ldq, k.Data, k.Stride, n, k.N, dim)
		if n < rows {
			dst, q = dst[n*ldd:], q[n*ldq:]
		}
	}
}

// Values adds weights[r, i] · value i to row r of dst, in the order of i, every product rounded first. Rows of dst have dim
// elements and are ldd apart, those of weights ldw. scratch has room for a vector.
func Values(dst []float32, ldd int, weights []float32, ldw, rows, dim int, v Vectors, scratch []float32) {
	if v.N == 0 {
		return
	}
	f := active.values[v.Type]
	if f == nil || dim%16 != 0 {
		values(dst, ldd, weights, ldw, rows, dim, v, scratch[:dim])
		return
	}
	v.check(dim)
	for n := 0; rows > 0; rows -= n {
		n = most(rows)
		_, _ = dst[:(n-1)*ldd+dim], weights[:(n-1)*ldw+v.N]
		f(dst, ldd, weights, ldw, v.Data, v.Stride, n, v.N, dim)
		if n < rows {
			dst, weights = dst[n*ldd:], weights[n*ldw:]
		}
	}
}

// Bytes returns the size of a vector.
func (t Stored) Bytes(dim int) int {
	switch t {
	case StoredF32:
		return 4 * dim
	case StoredInt8:
		return 4 + dim
	}
	return 2 * dim
}

// Store writes a vector, which is rounded to nearest, ties to even, or to int8 as by QuantizeInt8.
func (t Stored) Store(dst []byte, x []float32) {
	switch t {
	case StoredF32:
		half.EncodeF32(dst, x)
	case StoredBF16:
		NarrowBF16(dst, x)
	case StoredF16:
		n := len(x) &^ 15
		active.narrowF16(dst[:2*n], x[:n])
		half.EncodeF16(dst[2*n:], x[n:])
	case StoredInt8:
		s, _ := QuantizeInt8(Int8s(dst[4:]), x)
		binary.LittleEndian.PutUint32(dst, math.Float32bits(s))
	}
}

// check panics, as an index would, if the vectors reach beyond their memory.
func (v *Vectors) check(dim int) { _ = v.Data[:(v.N-1)*v.Stride+v.Type.Bytes(dim)] }

// scores is Scores.
func scores(dst []float32, ldd int, q []float32, ldq, rows, dim int, k Vectors, key []float32) {
	for i := range k.N {
		k.load(key, i)
		for r := range rows {
			dst[r*ldd+i] = Dot(q[r*ldq:r*ldq+dim], key)
		}
	}
}

// values is Values.
func values(dst []float32, ldd int, weights []float32, ldw, rows, dim int, v Vectors, value []float32) {
	for i := range v.N {
		v.load(value, i)
		for r := range rows {
			Axpy(dst[r*ldd:r*ldd+dim], weights[r*ldw+i], value)
		}
	}
}

// load reads a vector.
func (v *Vectors) load(x []float32, i int) {
	src := v.Data[i*v.Stride:][:v.Type.Bytes(len(x))]
	switch v.Type {
	case StoredF32:
		half.DecodeF32(x, src)
	case StoredBF16:
		half.DecodeBF16(x, src)
	case StoredF16:
		half.DecodeF16(x, src)
	case StoredInt8:
		s := math.Float32frombits(binary.LittleEndian.Uint32(src))
		for j, c := range src[4:] {
			x[j] = float32(s * float32(int8(c)))
		}
	}
}
