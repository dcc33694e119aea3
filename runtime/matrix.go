package runtime

import (
	"fmt"

	"nibble/build"
	"nibble/hf"
	"nibble/internal/half"
	"nibble/quant"
	"nibble/safetensors"
)

// matrix is a weight matrix [n, k] as it is kept in memory: floats in the type of the file, or codes.
type matrix struct {
	n, k  int
	bias  []float32 // [n]; nil for none
	dtype safetensors.DType
	raw   []byte  // [n, k] of dtype; nil for a quantized matrix
	q     *packed // nil for a float matrix
}

// packed is a quantized matrix: codes with 4 bits or fewer two to a byte, others one.
type packed struct {
	bits   int
	zero   quant.Zero
	codes  []byte    // [n, (k+1)/2], the even column in the low half, or [n, k]
	scales []float32 // [n, groups]
	zeros  []uint8   // [n, groups], of an integer zero
	biases []float32 // [n, groups], of a float zero
	starts []int     // [groups+1], first column of every group
	blocks []block   // runs of columns for int8 inputs
	cuts   int       // number of the columns of blocks in Model.cuts
	order  []int32   // column of the checkpoint at every place, where groups are not contiguous there; nil otherwise
}

// loadMatrix reads the matrix of a row of the table.
func loadMatrix(b *build.Build, t *hf.Tensor) (*matrix, error) {
	m := &matrix{n: t.Out(), k: t.In()}
	if t.Source == "" {
		l := b.Linears[t.Module()]
		if l == nil {
			return nil, fmt.Errorf("runtime: %s: its quantized tensors cannot be read", t.Name)
		}
		var err error
		m.q, err = loadPacked(l)
		return m, err
	}
	x, _ := b.Set.Lookup(t.Source)
	if !x.DType.IsFloat() || x.DType == safetensors.F64 {
		return nil, fmt.Errorf("runtime: %s is %s: weights are BF16, F16 or F32", t.Name, x.DType)
	}
	m.dtype = x.DType
	size := x.DType.Bits() / 8
	m.raw = make([]byte, m.n*m.k*size)
	if err := b.Set.ReadAt(t.Source, m.raw, t.Offset*int64(size)); err != nil {
		return nil, err
	}
	if t.Transposed {
		m.raw = transpose(m.raw, m.k, m.n, size)
	}
	return m, nil
}

// bytes returns the memory of a matrix.
func (m *matrix) bytes() int64 {
	n := int64(len(m.raw)) + 4*int64(len(m.bias))
	if m.q != nil {
		n += int64(len(m.q.codes)) + 4*int64(len(m.q.scales)+len(m.q.biases)) + int64(len(m.q.zeros))
	}
	return n
}

// transpose turns [rows, cols] elements of size bytes into [cols, rows].
func transpose(src []byte, rows, cols, size int) []byte {
	dst := make([]byte, len(src))
	for r := range rows {
		for c := range cols {
			copy(dst[(c*rows+r)*size:(c*rows+r+1)*size], src[(r*cols+c)*size:])
		}
	}
	return dst
}

// loadPacked reads a quantized matrix strip by strip.
func loadPacked(l quant.Linear) (*packed, error) {
	n, k := l.Shape()
	var p *packed
	const strip = 256
	for row0 := 0; row0 < n; row0 += strip {
		m, err := l.Rows(row0, min(strip, n-row0))
		if err != nil {
			return nil, err
		}
		if p == nil {
			p = newPacked(m, n)
			p.blocks = cut(p.starts)
		}
		g := m.Groups()
		copy(p.scales[row0*g:], m.Scales)
		if m.Zero == quant.Integer {
			copy(p.zeros[row0*g:], m.Zeros)
		}
		if m.Zero == quant.Float {
			copy(p.biases[row0*g:], m.Bias)
		}
		for i := range m.N {
			p.setRow(row0+i, k, m.Codes[i*k:(i+1)*k])
		}
	}
	return p, nil
}

// newPacked allocates a matrix of n rows like those of the strip m.
func newPacked(m *quant.Matrix, n int) *packed {
	g := m.Groups()
	p := &packed{bits: m.Bits, zero: m.Zero, scales: make([]float32, n*g)}
	p.codes = make([]byte, n*p.stride(m.K))
	switch m.Zero {
	case quant.Integer:
		p.zeros = make([]uint8, n*g)
	case quant.Float:
		p.biases = make([]float32, n*g)
	}
	p.starts = make([]int, g+1)
	if m.GroupOf == nil {
		for i := range p.starts {
			p.starts[i] = min(i*m.Group, m.K)
		}
		return p
	}
	// Columns are kept group by group, in file order inside a group.
	for _, gr := range m.GroupOf {
		p.starts[gr+1]++
	}
	for i := range g {
		p.starts[i+1] += p.starts[i]
	}
	next := append([]int(nil), p.starts...)
	p.order = make([]int32, m.K)
	for col, gr := range m.GroupOf {
		p.order[next[gr]] = int32(col)
		next[gr]++
	}
	return p
}

// cut splits groups into blocks of at most widestBlock columns.
func cut(starts []int) []block {
	var list []block
	for g := range len(starts) - 1 {
		for lo := starts[g]; lo < starts[g+1]; lo += widestBlock {
			list = append(list, block{lo, min(lo+widestBlock, starts[g+1]), g})
		}
	}
	return list
}

// stride returns the bytes of a row of k codes.
func (p *packed) stride(k int) int {
	if p.bits <= 4 {
		return (k + 1) / 2
	}
	return k
}

// setRow stores the codes of a row, which are in file order.
func (p *packed) setRow(n, k int, codes []uint8) {
	row := p.codes[n*p.stride(k) : (n+1)*p.stride(k)]
	for i := range k {
		c := codes[i]
		if p.order != nil {
			c = codes[p.order[i]]
		}
		switch {
		case p.bits > 4:
			row[i] = c
		case i%2 == 0:
			row[i/2] = c
		default:
			row[i/2] |= c << 4
		}
	}
}

// centred writes the codes of row n less 2^(bits-1) to dst.
func (p *packed) centred(dst []int8, n, k int) {
	mid := int8(-128)
	if p.bits < 8 {
		mid = int8(1 << (p.bits - 1))
	}
	row := p.codes[n*p.stride(k) : (n+1)*p.stride(k)]
	if p.bits > 4 {
		for i, c := range row {
			dst[i] = int8(c - uint8(mid))
		}
		return
	}
	for i, c := range row[:k/2] {
		pair := dst[2*i : 2*i+2]
		pair[0], pair[1] = int8(c&15)-mid, int8(c>>4)-mid
	}
	if k%2 == 1 {
		dst[k-1] = int8(row[k/2]&15) - mid
	}
}

// offset returns what group g of row n adds to its centred codes, as a float: 2^(bits-1) − z.
func (p *packed) offset(i int) float32 {
	if p.zero != quant.Integer {
		return 0
	}
	return float32(int(1)<<(p.bits-1) - int(p.zeros[i]))
}

// row writes row n to dst in float32, exactly as a file of its format dequantizes, in the matrix' own column order.
func (m *matrix) row(dst []float32, codes []int8, n int) {
	switch {
	case m.q != nil:
		m.q.row(dst[:m.k], codes[:m.k], n)
	case m.dtype == safetensors.BF16:
		half.DecodeBF16(dst[:m.k], m.raw[2*n*m.k:])
	case m.dtype == safetensors.F16:
		half.DecodeF16(dst[:m.k], m.raw[2*n*m.k:])
	default:
		half.DecodeF32(dst[:m.k], m.raw[4*n*m.k:])
	}
}

func (p *packed) row(dst []float32, codes []int8, n int) {
	p.centred(codes, n, len(dst))
	groups := len(p.starts) - 1
	for g := range groups {
		i := n*groups + g
		s, off := p.scales[i], p.offset(i)
		lo, hi := p.starts[g], p.starts[g+1]
		part, c := dst[lo:hi], codes[lo:hi]
		c = c[:len(part)]
		for j := range part {
			part[j] = s * (float32(c[j]) + off)
		}
		if p.zero == quant.Float {
			b := p.biases[i]
			for j := range part {
				part[j] += b
			}
		}
	}
}

// loadVector reads a one-dimensional tensor as float32.
func loadVector(b *build.Build, t *hf.Tensor) ([]float32, error) {
	x, _ := b.Set.Lookup(t.Source)
	if !x.DType.IsFloat() || x.DType == safetensors.F64 {
		return nil, fmt.Errorf("runtime: %s is %s: vectors are BF16, F16 or F32", t.Name, x.DType)
	}
	v := make([]float32, t.Elements())
	size := x.DType.Bits() / 8
	raw := make([]byte, len(v)*size)
	if err := b.Set.ReadAt(t.Source, raw, t.Offset*int64(size)); err != nil {
		return nil, err
	}
	quant.DecodeFloats(v, raw, x.DType)
	return v, nil
}
