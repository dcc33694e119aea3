package kernel

// gemms are the sums of outer products of a set, of which products of matrices are made.
type gemms struct {
	outer32 Outer[float32]
	outer64 Outer[float64]
}

var gemmsGeneric = gemms{
	Outer[float32]{2, 4, 4, []outer[float32]{addOuter[float32]}, []outer[float32]{subOuter[float32]}, nil},
	Outer[float64]{2, 4, 4, []outer[float64]{addOuter[float64]}, []outer[float64]{subOuter[float64]}, []divider[float64]{divideOuter}},
}

// Outer adds outer products to a tile of a matrix, or subtracts them.
type Outer[T float32 | float64] struct {
	Rows  int        // of a tile
	Lanes int        // tiles have a multiple of so many columns,
	Cols  int        // and so many at most
	add   []outer[T] // for 1, 2, 3 … times Lanes columns
	sub   []outer[T]
	div   []divider[T]
}

// outer is an operation of Outer on one number of columns.
type outer[T float32 | float64] func(c []T, ldc int, a []T, rs, ks int, b []T, bs, k int)

// divider is Divide for one number of columns.
type divider[T float32 | float64] func(y []T, ldy int, l []T, ldl int)

// OuterOf returns the operations of the set in use.
func OuterOf[T float32 | float64]() Outer[T] {
	if o, ok := any(active.outer32).(Outer[T]); ok {
		return o
	}
	return any(active.outer64).(Outer[T])
}

// Add adds k outer products, one after the other, each product rounded first:
//
//	c[i·ldc+j] += a[i·rs+s·ks]·b[s·bs+j]    for s = 0, 1 … k−1, of all i < Rows and j < cols
func (o *Outer[T]) Add(c []T, ldc int, a []T, rs, ks int, b []T, bs, k, cols int) {
	o.add[cols/o.Lanes-1](c, ldc, a, rs, ks, b, bs, k)
}

// Sub is Add with a minus.
func (o *Outer[T]) Sub(c []T, ldc int, a []T, rs, ks int, b []T, bs, k, cols int) {
	o.sub[cols/o.Lanes-1](c, ldc, a, rs, ks, b, bs, k)
}

// Divide solves Rows rows of a triangle of which what comes before has been subtracted, cols columns wide, a multiple of Lanes:
//
//	y[i·ldy+j] = (y[i·ldy+j] − Σ_k l[i·ldl+k]·y[k·ldy+j]) / l[i·ldl+i]    over k = 0, 1 … i−1, of all i < Rows and j < cols
//
// Only float64 has it.
func (o *Outer[T]) Divide(y []T, ldy int, l []T, ldl, cols int) {
	o.div[cols/o.Lanes-1](y, ldy, l, ldl)
}

// addOuter is Add of 2 by 4.
func addOuter[T float32 | float64](c []T, ldc int, a []T, rs, ks int, b []T, bs, k int) {
	x, y := (*[4]T)(c), (*[4]T)(c[ldc:])
	x0, x1, x2, x3, y0, y1, y2, y3 := x[0], x[1], x[2], x[3], y[0], y[1], y[2], y[3]
	for s := range k {
		p, q, v := a[s*ks], a[rs+s*ks], (*[4]T)(b[s*bs:])
		x0 += T(p * v[0])
		x1 += T(p * v[1])
		x2 += T(p * v[2])
		x3 += T(p * v[3])
		y0 += T(q * v[0])
		y1 += T(q * v[1])
		y2 += T(q * v[2])
		y3 += T(q * v[3])
	}
	*x, *y = [4]T{x0, x1, x2, x3}, [4]T{y0, y1, y2, y3}
}

// subOuter is Sub of 2 by 4.
func subOuter[T float32 | float64](c []T, ldc int, a []T, rs, ks int, b []T, bs, k int) {
	x, y := (*[4]T)(c), (*[4]T)(c[ldc:])
	x0, x1, x2, x3, y0, y1, y2, y3 := x[0], x[1], x[2], x[3], y[0], y[1], y[2], y[3]
	for s := range k {
		p, q, v := a[s*ks], a[rs+s*ks], (*[4]T)(b[s*bs:])
		x0 -= T(p * v[0])
		x1 -= T(p * v[1])
		x2 -= T(p * v[2])
		x3 -= T(p * v[3])
		y0 -= T(q * v[0])
		y1 -= T(q * v[1])
		y2 -= T(q * v[2])
		y3 -= T(q * v[3])
	}
	*x, *y = [4]T{x0, x1, x2, x3}, [4]T{y0, y1, y2, y3}
}

// divideOuter is Divide of 2 by 4.
func divideOuter(y []float64, ldy int, l []float64, ldl int) {
	first, second := (*[4]float64)(y), (*[4]float64)(y[ldy:])
	for j := range first {
		first[j] /= l[0]
		second[j] = (second[j] - float64(l[ldl]*first[j])) / l[ldl+1]
	}
}
