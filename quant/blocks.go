package quant

// Blocks are the blocks of a matrix whose groups do not stand alone: their scales are multiples of one number, and are chosen
// together.
type Blocks struct {
	Size   int     // columns of a block, whole groups
	Bytes  int     // of a block in the file
	Raw    []byte  // [N, K/Size, Bytes]: the blocks with their scales; the codes in them may be older than the matrix'
	Levels *Levels // the codes that there are; nil: all of the width
}

// NewBlocks allocates blocks for a matrix of n rows and k columns, which are whole blocks.
func NewBlocks(n, k, size, bytes int, levels *Levels) *Blocks {
	return &Blocks{Size: size, Bytes: bytes, Raw: make([]byte, n*k/size*bytes), Levels: levels}
}

// RowBytes returns the bytes of a row of k columns.
func (b *Blocks) RowBytes(k int) int { return k / b.Size * b.Bytes }

// Unit returns how many columns get their parameters together: those of a block, or of a group.
func (m *Matrix) Unit() int {
	if m.Blocks != nil {
		return m.Blocks.Size
	}
	return m.Group
}

// Like returns an empty matrix of n rows and k columns with the grid of m.
func (m *Matrix) Like(n, k int) *Matrix {
	x := NewMatrix(n, k, m.Bits, min(m.Group, k), m.Zero)
	if b := m.Blocks; b != nil {
		x.Blocks = NewBlocks(n, k, b.Size, b.Bytes, b.Levels)
	}
	return x
}

// Levels are codes that do not lie evenly.
type Levels struct{ nearest [2*256 + 1]uint8 } // by the number of half steps

// NewLevels takes the codes in ascending order.
func NewLevels(codes ...uint8) *Levels {
	l, at := new(Levels), 0
	for i := range l.nearest {
		for at+1 < len(codes) && i >= int(codes[at])+int(codes[at+1]) {
			at++
		}
		l.nearest[i] = codes[at]
	}
	return l
}

// Nearest returns the code nearest to q, of two the upper one, and the least for a NaN.
func (l *Levels) Nearest(q float32) float32 {
	if !(q > 0) {
		return float32(l.nearest[0])
	}
	return float32(l.nearest[int(2*min(q, 256))])
}
