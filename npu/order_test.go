package npu

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"
)

// spread are numbers from -2·scale to 2·scale that look random: 24 bits of a multiple of 2^32 over the golden ratio.
func spread(n int, seed uint32, scale float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(float64(((uint32(i)+seed)*2654435761)>>8)/(1<<22)-2) * scale
	}
	return x
}

// checksum is the CRC-32 of the bits.
func checksum(x []float32) uint32 {
	sum := crc32.NewIEEE()
	for _, v := range x {
		_ = binary.Write(sum, binary.LittleEndian, math.Float32bits(v))
	}
	return sum.Sum32()
}

// The checksums are those of what ONNX Runtime 1.32.0 made of the same numbers, on one thread of a processor with AVX-512.
func TestOrder(t *testing.T) {
	check := func(name string, got []float32, want uint32) {
		t.Helper()
		if sum := checksum(got); sum != want {
			t.Errorf("%s: %#08x, want %#08x", name, sum, want)
		}
	}
	x := spread(4096, 1, 4)
	for _, c := range []struct {
		name string
		node node
		want uint32
	}{
		{"sigmoid", node{Op: "Sigmoid"}, 0x364f95a6}, {"tanh", node{Op: "Tanh"}, 0x3057a1ad},
		{"gelu", node{Op: "Gelu"}, 0x3a9d61ea}, {"gelu by tanh", node{Op: "Gelu", Tanh: true}, 0xe0e6aa34},
	} {
		y := make([]float32, len(x))
		compute(&c.node, y, [][]float32{x}, inOrder)
		check(c.name, y, c.want)
	}
	row := spread(600, 5, 8)
	for i := range 3 {
		softmaxInOrder(row[200*i : 200*(i+1)])
	}
	check("softmax", row, 0x324421fc)
	v, y := spread(4*76, 9, 1), make([]float32, 4*76)
	unitInOrder(y, v, 76)
	check("length", y, 0x55183493)
	rmsInOrder(y, v, spread(76, 11, 1), 1e-5)
	check("mean square", y, 0xd2dbb6fa)
}

// Products of few and many columns, of one row, and convolutions, with checksums of ONNX Runtime as above.
func TestProducts(t *testing.T) {
	for _, c := range []struct {
		rows, k, columns int
		want             uint32
	}{{3, 300, 40, 0x612cf98d}, {3, 600, 150, 0x61dbaaff}, {2, 5, 200, 0xb04f569b}, {1, 303, 40, 0x6bb8474b}} {
		x, w := spread(c.rows*c.k, 3, 1), spread(c.k*c.columns, 17, 1)
		y, room := make([]float32, c.rows*c.columns), make([]float32, c.columns)
		for r := range c.rows {
			rowTimes(y[r*c.columns:(r+1)*c.columns], room, x[r*c.k:(r+1)*c.k], w, c.columns, c.columns, c.rows == 1)
		}
		if got := checksum(y); got != c.want {
			t.Errorf("%d x %d x %d: %#08x, want %#08x", c.rows, c.k, c.columns, got, c.want)
		}
	}
	const k, channels = 300, 40
	for tokens, want := range map[int]uint32{1: 0x4dac12b, 5: 0xeae22523} {
		image, w := spread(k*tokens, 3, 1), spread(channels*k, 17, 1)
		x := make([]float32, len(image)) // [tokens, k]
		turn(x, image, k, tokens)
		ld := k
		p := &pass{graph: &graph{Tokens: tokens}}
		node := &node{Op: "Conv", In: []*value{nil, {Param: &param{from: matrix{n: channels, k: k}}}}}
		y := make([]float32, channels*tokens)
		p.inOrder(node, y, x, w, turnStrip(w, channels, ld, k), channels, tokens, ld)
		image = make([]float32, len(y))
		turn(image, y, tokens, channels)
		if got := checksum(image); got != want {
			t.Errorf("a convolution of %d tokens: %#08x, want %#08x", tokens, got, want)
		}
	}
}
