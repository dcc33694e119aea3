package npu

import (
	"math"

	"nibble/internal/kernel"
)

// What ONNX Runtime computes on a processor with AVX-512, on one thread and without optimizing the graph: the order of its sums, and
// which products it rounds; curves.go has its curves. The simulation of the files follows it, so that what lies between two codes falls
// on the same side.

// depth is how many products are added up before they join those that came before: 128, and more where the columns are few, of a
// product of k by columns.
func depth(k, columns int) int {
	d := 128
	if columns < k {
		for width := 128; width > 16 && width/2 >= columns; width /= 2 {
			d *= 2
		}
	}
	return d
}

// rowTimes sets y to x [k] times w [k, len(y)], of a product with so many columns and, with single, one row. One row is made four products
// at a time; more of them one after the other, each rounded together with its sum.
func rowTimes(y, room, x, w []float32, ld, columns int, single bool) {
	if single {
		kernel.Quads(y, x, w, ld)
		return
	}
	d := depth(len(x), columns)
	kernel.Fused(y, x[:min(d, len(x))], w, ld)
	for at := d; at < len(x); at += d {
		kernel.Fused(room[:len(y)], x[at:min(at+d, len(x))], w[at*ld:], ld)
		for c, v := range room[:len(y)] {
			y[c] += v
		}
	}
}

// channelTimes is the product of a row of weights and one token in a convolution, where the rows are added up in eight lanes.
func channelTimes(w, x []float32) float32 {
	var lanes [8]float32
	for i, v := range w {
		lanes[i&7] += float32(v * x[i])
	}
	return ((lanes[0] + lanes[1]) + lanes[2] + lanes[3]) + ((lanes[4] + lanes[5]) + lanes[6] + lanes[7])
}

// unitInOrder divides vectors of w elements by their length, whose squares are added up one after the other.
func unitInOrder(dst, x []float32, w int) {
	for i := 0; i < len(x); i += w {
		var sum float32
		for _, v := range x[i : i+w] {
			sum += float32(v * v)
		}
		length := float32(math.Sqrt(float64(sum)))
		if length == 0 {
			clear(dst[i : i+w])
			continue
		}
		for j, v := range x[i : i+w] {
			dst[i+j] = v / length
		}
	}
}

// rmsInOrder multiplies vectors as long as the weight by the reciprocal of the root of their mean square, and by the weight. Squares
// are added up in eight lanes, each rounded together with its sum, and what is left over behind the sum of the lanes.
func rmsInOrder(dst, x, weight []float32, eps float32) {
	n := len(weight)
	for i := 0; i < len(x); i += n {
		var lanes [8]float32
		whole := n &^ 7
		for j, v := range x[i : i+whole] {
			lanes[j&7] = kernel.FMA(v, v, lanes[j&7])
		}
		for j := range 4 {
			lanes[j] += lanes[j+4]
		}
		sum := (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
		for _, v := range x[i+whole : i+n] {
			sum += float32(v * v)
		}
		factor := 1 / float32(math.Sqrt(float64(sum/float32(n)+eps)))
		for j, v := range x[i : i+n] {
			dst[i+j] = float32(v*factor) * weight[j]
		}
	}
}

// softmaxInOrder replaces a row by its softmax: e^(x-max) is added up in 16 lanes, and its share is a product with the reciprocal of the sum.
func softmaxInOrder(x []float32) {
	most := x[0]
	for _, v := range x {
		most = max(most, v)
	}
	var lanes [16]float32
	for i, v := range x {
		x[i] = exp(v - most)
		lanes[i&15] += x[i]
	}
	for i := range 8 {
		lanes[i] += lanes[i+8]
	}
	low, high := (lanes[0]+lanes[1])+(lanes[2]+lanes[3]), (lanes[4]+lanes[5])+(lanes[6]+lanes[7])
	share := 1 / (low + high)
	for i := range x {
		x[i] *= share
	}
}
