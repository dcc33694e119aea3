package npu

import (
	"math"

	"nibble/internal/kernel"
)

// arithmetic is how nodes are computed.
type arithmetic uint8

const (
	inFloat arithmetic = iota // the model: norms have their epsilon
	onGrids                   // the file: LpNormalization has none
	inOrder                   // the file, to the last bit as ONNX Runtime computes it (order.go)
)

// compute sets dst to what a node makes of its inputs, in float32. Products with weights are not among the nodes that it knows (lanes.go).
// But for inOrder, sums run in the order of the elements, and products are rounded first.
func compute(n *node, dst []float32, in [][]float32, how arithmetic) {
	x, ordered := in[0], how == inOrder
	switch n.Op {
	case "Convert", "Reshape":
		copy(dst, x)
	case "MatMul":
		multiply(n, dst, x, in[1], ordered)
	case "Add":
		broadcast(n, dst, x, in[1], func(d, a, b []float32) {
			for i := range d {
				d[i] = a[i] + b[i]
			}
		})
	case "Sub":
		broadcast(n, dst, x, in[1], func(d, a, b []float32) {
			for i := range d {
				d[i] = a[i] - b[i]
			}
		})
	case "Mul":
		broadcast(n, dst, x, in[1], func(d, a, b []float32) {
			for i := range d {
				d[i] = a[i] * b[i]
			}
		})
	case "Sigmoid":
		if ordered {
			curve(dst, x, sigmoid)
			return
		}
		kernel.Sigmoids(dst, x)
	case "Tanh":
		if ordered {
			curve(dst, x, tanh)
			return
		}
		copy(dst, x)
		kernel.Softcaps(dst, 1)
	case "Gelu":
		switch {
		case ordered && n.Tanh:
			curve(dst, x, geluTanh)
		case ordered:
			curve(dst, x, gelu)
		case n.Tanh:
			kernel.GELUTanhs(dst, x)
		default:
			kernel.GELUs(dst, x)
		}
	case "Softmax":
		copy(dst, x)
		row := kernel.Softmax
		if ordered {
			row = softmaxInOrder
		}
		for w := n.Out.Shape[n.Axis]; len(dst) > 0; dst = dst[w:] {
			row(dst[:w])
		}
	case "LpNormalization":
		if ordered {
			unitInOrder(dst, x, n.Out.Shape[n.Axis])
			return
		}
		eps := n.Eps
		if how == onGrids {
			eps = 0
		}
		unit(dst, x, n.Out.Shape[n.Axis], eps)
	case "RMSNormalization":
		if ordered {
			rmsInOrder(dst, x, in[1], n.Eps)
			return
		}
		w := n.Out.Shape[n.Axis]
		for i := 0; i < len(x); i += w {
			kernel.RMSNorm(dst[i:i+w], x[i:i+w], in[1], n.Eps, false)
		}
	case "Transpose":
		transpose(n, dst, x)
	case "Slice":
		w := n.In[0].Shape[n.Axis]
		for i := 0; i < len(x); i += w {
			dst = dst[copy(dst, x[i+n.Begin:i+n.End]):]
		}
	case "Concat":
		concat(n, dst, in)
	}
}

// unit divides vectors of w elements by their length; eps is added to its square.
func unit(dst, x []float32, w int, eps float32) {
	for i := 0; i < len(x); i += w {
		var sum float64
		for _, v := range x[i : i+w] {
			sum += float64(float64(v) * float64(v))
		}
		f := float32(1)
		if sum += float64(eps); sum > 0 {
			f = float32(math.Sqrt(sum))
		}
		for j, v := range x[i : i+w] {
			dst[i+j] = v / f
		}
	}
}

// multiply is MatMul of activations: matrices over the last two axes, those of b used for all of a that have the same place
// in the first axis.
func multiply(n *node, dst, a, b []float32, ordered bool) {
	sa, sb := n.In[0].Shape, n.In[1].Shape
	rows, k, cols := sa[len(sa)-2], sa[len(sa)-1], sb[len(sb)-1]
	if ordered {
		room := make([]float32, cols)
		for r := range len(a) / k {
			rowTimes(dst[r*cols:(r+1)*cols], room, a[r*k:(r+1)*k], b[r/rows*k*cols:(r/rows+1)*k*cols], cols, cols, rows == 1)
		}
		return
	}
	clear(dst)
	for i := 0; i*rows*k < len(a); i++ {
		w := b[i*k*cols : (i+1)*k*cols]
		for r := range rows {
			y, x := dst[(i*rows+r)*cols:(i*rows+r+1)*cols], a[(i*rows+r)*k:]
			for j := range k {
				if x[j] != 0 {
					kernel.Axpy(y, x[j], w[j*cols:(j+1)*cols])
				}
			}
		}
	}
}

// broadcast runs f over the last axis. Shapes are aligned at their ends; an axis of 1 is repeated.
func broadcast(n *node, dst, a, b []float32, f func(d, a, b []float32)) {
	shape := n.Out.Shape
	w := shape[len(shape)-1]
	sa, sb := strides(n.In[0].Shape, shape), strides(n.In[1].Shape, shape)
	spread := func(x []float32, stride int, room []float32) []float32 {
		if stride == 1 || w == 1 {
			return x[:w]
		}
		for i := range room {
			room[i] = x[0]
		}
		return room
	}
	ra, rb := make([]float32, w), make([]float32, w)
	last := len(shape) - 1
	at := make([]int, len(shape))
	for d := dst; len(d) > 0; d = d[w:] {
		ia, ib := 0, 0
		for j := range last {
			ia += at[j] * sa[j]
			ib += at[j] * sb[j]
		}
		f(d[:w], spread(a[ia:], sa[last], ra), spread(b[ib:], sb[last], rb))
		advance(at[:last], shape)
	}
}

// strides are the distances between neighbours along the axes of out, 0 where the shape repeats.
func strides(shape, out []int) []int {
	s := make([]int, len(out))
	step := 1
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] > 1 {
			s[len(out)-len(shape)+i] = step
		}
		step *= shape[i]
	}
	return s
}

// advance counts an index up.
func advance(at, shape []int) {
	for i := len(at) - 1; i >= 0; i-- {
		if at[i]++; at[i] < shape[i] {
			return
		}
		at[i] = 0
	}
}

func transpose(n *node, dst, x []float32) {
	from := strides(n.In[0].Shape, n.In[0].Shape)
	shape := n.Out.Shape
	step := make([]int, len(shape))
	for i, p := range n.Perm {
		step[i] = from[p]
	}
	last := len(shape) - 1
	w, s := shape[last], step[last]
	at := make([]int, len(shape))
	for d := dst; len(d) > 0; d = d[w:] {
		i := 0
		for j := range last {
			i += at[j] * step[j]
		}
		if s == 1 {
			copy(d[:w], x[i:])
		} else {
			for j := range w {
				d[j] = x[i+j*s]
			}
		}
		advance(at[:last], shape)
	}
}

func concat(n *node, dst []float32, in [][]float32) {
	inner := 1
	for _, d := range n.Out.Shape[n.Axis+1:] {
		inner *= d
	}
	for at := 0; len(dst) > 0; at++ {
		for i, v := range n.In {
			w := v.Shape[n.Axis] * inner
			dst = dst[copy(dst, in[i][at*w:(at+1)*w]):]
		}
	}
}
