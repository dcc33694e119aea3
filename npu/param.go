package npu

// param is a weight or a constant of a graph. Both graphs of a model have the same, so that they share one file.
type param struct {
	Name  string
	Shape []int // in the file: a matrix [in, out], for a convolution [out, in, 1, 1], or the vector's

	// Of a matrix:
	from   matrix
	Fold   float32 // factor on all elements
	Axis   int     // of the output channels
	Output bool    // part of the head
	Table  bool    // the embedding: one grid, that of activations

	// Of a vector:
	Values []float32
}

// bytes returns the size of a matrix of so many bits in the file, its scales included.
func (p *param) bytes(bits int) int64 {
	n, k := int64(p.from.n), int64(p.from.k)
	if p.Table {
		return n * k * int64(bits) / 8
	}
	return (n*k*int64(bits)+7)/8 + 4*n
}
