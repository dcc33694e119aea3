package npu

import (
	"slices"
	"sync"

	"nibble/internal/kernel"
	"nibble/internal/parallel"
)

// stripRows is how many rows of a weight are in memory for each thread.
const stripRows = 64

// strips multiplies strip by strip.
func (p *pass) strips(node *node, xs, ys [][]float32, rows int) error {
	weight := node.In[1]
	w := weight.Param
	k, cols := w.from.k, w.from.n
	ld := k + 16 // rows in different sets of the caches
	count := (cols + stripRows - 1) / stripRows
	bits := make([]int, len(p.variants)) // of the weight; 0: float
	for v, q := range p.variants {
		if q != nil {
			bits[v] = q.weight(weight)
		}
	}
	rooms := sync.Pool{New: func() any { return &[2][]float32{make([]float32, stripRows*ld), make([]float32, stripRows*ld)} }}
	return parallel.Each(p.ctx, count, p.threads, func(i int) error {
		room := rooms.Get().(*[2][]float32)
		defer rooms.Put(room)
		row := i * stripRows
		n := min(stripRows, cols-row)
		if err := p.graph.Model.rows(w, room[0], ld, row, n); err != nil {
			return err
		}
		for _, b := range slices.Compact(slices.Sorted(slices.Values(bits))) {
			use := room[0]
			if b > 0 {
				use = room[1]
				q := p.variants[slices.Index(bits, b)]
				for r := range n {
					q.roundRow(w, row+r, b, use[r*ld:r*ld+k], nil, room[0][r*ld:r*ld+k])
				}
			}
			var turned []float32 // the strip, for products in the order of ONNX Runtime
			for v := range p.variants {
				if bits[v] == b && p.arithmetic(v) == inOrder {
					if turned == nil {
						turned = turnStrip(use, n, ld, k)
					}
					p.inOrder(node, ys[v][row:], xs[v], use, turned, n, rows, ld)
				} else if bits[v] == b {
					kernel.DotRows(ys[v][row:], cols, use, xs[v], n, rows, ld, k)
				}
			}
		}
		return nil
	})
}

// turnStrip returns a strip of n rows as columns, stripRows in each of its k rows.
func turnStrip(strip []float32, n, ld, k int) []float32 {
	t := make([]float32, k*stripRows)
	for r := range n {
		for j, x := range strip[r*ld : r*ld+k] {
			t[j*stripRows+r] = x
		}
	}
	return t
}

// inOrder multiplies rows of x by a strip of n rows.
func (p *pass) inOrder(node *node, y, x, strip, turned []float32, n, rows, ld int) {
	w := node.In[1].Param
	k, cols, across := w.from.k, w.from.n, w.from.n
	single := p.graph.Tokens == 1
	if node.Op == "Conv" {
		across = p.graph.Tokens // a convolution is the product of the weights and a matrix of tokens
	}
	var sums, room [stripRows]float32
	for r := range rows {
		row := x[r*k : (r+1)*k]
		if node.Op == "Conv" && single {
			for c := range n {
				y[r*cols+c] = channelTimes(strip[c*ld:c*ld+k], row)
			}
			continue
		}
		rowTimes(sums[:], room[:], row, turned, stripRows, across, single)
		copy(y[r*cols:], sums[:n])
	}
}
