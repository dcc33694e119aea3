// Package quant is the format-neutral middle between solvers and layouts.
//
// A solver turns rows of float32 weights into a [Matrix]; a layout turns a Matrix into the named tensors of a file
// format, and back. Neither knows the other, so every method works with every format that can express its grid.
//
// # The grid
//
// A linear layer computes y[n] = Σ_k W[n,k]·x[k]. W has N rows (out features) and K columns (in features). The columns
// of a row fall into G groups of g weights; a group shares a scale s and, unless the grid is symmetric, a zero point.
// A weight is stored as an unsigned code q of 2 to 8 bits:
//
//	symmetric      W[n,k] = s · (q − 2^(bits−1))
//	integer zero   W[n,k] = s · (q − z)                   z an integer of the same width
//	float zero     W[n,k] = s · (q − 2^(bits−1)) + b      b in weight units
//
// The group of column k is k/g, unless the file was written in activation order and carries a channel-to-group map.
// All arithmetic is float32: one rounded product and, for a float zero, one rounded sum.
package quant

import (
	"errors"
	"fmt"
	"math"

	"nibble/internal/kernel"
)

// Zero is the kind of zero point a grid has.
type Zero uint8

// The kinds of zero point.
const (
	Symmetric Zero = iota // none: code 2^(bits-1) is zero
	Integer               // an integer code
	Float                 // an offset in weight units
)

// String names the kind as messages and reports do.
func (z Zero) String() string {
	switch z {
	case Symmetric:
		return "symmetric"
	case Integer:
		return "integer zero"
	case Float:
		return "float zero"
	}
	return fmt.Sprintf("zero kind %d", uint8(z))
}

// Matrix is a quantized matrix, or a strip of its rows.
type Matrix struct {
	N, K   int
	Bits   int // 2 to 8
	Group  int // weights in a group, 1 to K
	Zero   Zero
	Codes  []uint8   // [N, K]
	Scales []float32 // [N, G]
	Zeros  []uint8   // [N, G], of an integer zero; nil otherwise
	Bias   []float32 // [N, G], the b of a float zero; nil otherwise

	// Blocks is what the format holds of blocks of groups whose scales are chosen together; nil where each stands alone.
	Blocks *Blocks

	// GroupOf maps a column to its group where that is not k/Group (activation order); nil otherwise.
	GroupOf []int32 // [K]

	buffer *Buffer // of Codes; nil for a part
}

// Recycle gives the memory of the codes to the next matrix. Neither m nor a part of it may be used any more. It need not be
// called.
func (m *Matrix) Recycle() {
	if m.buffer != nil {
		m.buffer.Return()
		m.buffer, m.Codes = nil, nil
	}
}

// NewMatrix allocates a matrix of n rows and k columns; its codes are undefined. It panics on a shape or width that cannot be: those come from
// the program, never from a file.
func NewMatrix(n, k, bits, group int, zero Zero) *Matrix {
	if n < 0 || k < 1 || group < 1 || bits < 2 || bits > 8 {
		panic("quant: bad matrix shape")
	}
	m := &Matrix{N: n, K: k, Bits: bits, Group: group, Zero: zero}
	g := m.Groups()
	m.buffer, m.Codes = Borrow(n * k)
	m.Scales = make([]float32, n*g)
	switch zero {
	case Integer:
		m.Zeros = make([]uint8, n*g)
	case Float:
		m.Bias = make([]float32, n*g)
	}
	return m
}

// Part returns rows row0 to row0+n as a matrix that shares their memory.
func (m *Matrix) Part(row0, n int) *Matrix {
	g := m.Groups()
	p := *m
	p.N, p.buffer = n, nil
	p.Codes, p.Scales = m.Codes[row0*m.K:(row0+n)*m.K], m.Scales[row0*g:(row0+n)*g]
	if b := m.Blocks; b != nil {
		part := *b
		size := b.RowBytes(m.K)
		part.Raw = b.Raw[row0*size : (row0+n)*size]
		p.Blocks = &part
	}
	switch m.Zero {
	case Integer:
		p.Zeros = m.Zeros[row0*g : (row0+n)*g]
	case Float:
		p.Bias = m.Bias[row0*g : (row0+n)*g]
	}
	return &p
}

// Groups returns G, the number of groups in a row. The last one may be short.
func (m *Matrix) Groups() int { return (m.K + m.Group - 1) / m.Group }

// Mid returns 2^(bits-1), the code of zero on a symmetric grid.
func (m *Matrix) Mid() int { return 1 << (m.Bits - 1) }

// Check verifies that the slices have the lengths that the shape demands and that no code or group is out of range.
func (m *Matrix) Check() error {
	if m.N < 0 || m.K < 1 || m.Group < 1 || m.Bits < 2 || m.Bits > 8 {
		return fmt.Errorf("quant: matrix [%d,%d] of %d bits in groups of %d", m.N, m.K, m.Bits, m.Group)
	}
	g := m.Groups()
	switch {
	case len(m.Codes) != m.N*m.K:
		return fmt.Errorf("quant: %d codes for a matrix [%d,%d]", len(m.Codes), m.N, m.K)
	case len(m.Scales) != m.N*g:
		return fmt.Errorf("quant: %d scales for %d rows of %d groups", len(m.Scales), m.N, g)
	case m.Zero == Integer && len(m.Zeros) != m.N*g:
		return fmt.Errorf("quant: %d zero points for %d rows of %d groups", len(m.Zeros), m.N, g)
	case m.Zero == Float && len(m.Bias) != m.N*g:
		return fmt.Errorf("quant: %d float zeros for %d rows of %d groups", len(m.Bias), m.N, g)
	case m.GroupOf != nil && len(m.GroupOf) != m.K:
		return fmt.Errorf("quant: a group map of %d entries for %d columns", len(m.GroupOf), m.K)
	}
	for k, gr := range m.GroupOf {
		if gr < 0 || int(gr) >= g {
			return fmt.Errorf("quant: column %d is mapped to group %d of %d", k, gr, g)
		}
	}
	limit := uint8(1<<m.Bits - 1)
	for i, q := range m.Codes {
		if q > limit {
			return fmt.Errorf("quant: code %d at row %d, column %d exceeds %d bits", q, i/m.K, i%m.K, m.Bits)
		}
	}
	return nil
}

// DequantizeRow writes the K weights of row n to dst, exactly as the formulas of the package comment say.
func (m *Matrix) DequantizeRow(dst []float32, n int) {
	g := m.Groups()
	codes := m.Codes[n*m.K : (n+1)*m.K]
	scales := m.Scales[n*g : (n+1)*g]
	dst = dst[:m.K]
	if m.GroupOf != nil {
		for k, q := range codes {
			dst[k] = m.weight(q, n*g+int(m.GroupOf[k]))
		}
		return
	}
	zero, bias := float32(m.Mid()), float32(math.Copysign(0, -1)) // −0 is no bias
	for gr, s := range scales {
		switch m.Zero {
		case Integer:
			zero = float32(m.Zeros[n*g+gr])
		case Float:
			bias = m.Bias[n*g+gr]
		}
		lo, hi := gr*m.Group, min((gr+1)*m.Group, m.K)
		kernel.Expand(dst[lo:hi], codes[lo:hi], s, zero, bias)
	}
}

// weight returns the value of code q in group slot i of Scales.
func (m *Matrix) weight(q uint8, i int) float32 {
	switch m.Zero {
	case Integer:
		return m.Scales[i] * float32(int(q)-int(m.Zeros[i]))
	case Float:
		return float32(m.Scales[i]*float32(int(q)-m.Mid())) + m.Bias[i]
	default:
		return m.Scales[i] * float32(int(q)-m.Mid())
	}
}

// Dequantize returns all weights, [N, K].
func (m *Matrix) Dequantize() []float32 {
	w := make([]float32, m.N*m.K)
	for n := range m.N {
		m.DequantizeRow(w[n*m.K:(n+1)*m.K], n)
	}
	return w
}

// ErrNonFinite marks weights that no grid can hold.
var ErrNonFinite = errors.New("quant: weight is not finite")

// NonFinite returns the index of the first NaN or infinity in w, or -1.
func NonFinite(w []float32) int {
	if kernel.Finite(w) {
		return -1
	}
	for i, f := range w {
		if math.Float32bits(f)&0x7f800000 == 0x7f800000 {
			return i
		}
	}
	return -1
}

// Noise accumulates what quantization cost a tensor. Sums are float64 in row order, so strips added in order give the
// same figure however many threads solved them.
type Noise struct {
	Signal float64 // Σ w²
	Error  float64 // Σ (ŵ − w)²
	Max    float64 // max |ŵ − w|
	Count  int64   // weights
}

// Add accounts for one row: the weights w and what the file makes of them. A row's sums are those of kernel.Noise.
func (e *Noise) Add(w, deq []float32) {
	signal, errors, most := kernel.Noise(w, deq)
	e.Signal += signal
	e.Error += errors
	e.Max = max(e.Max, most)
	e.Count += int64(len(w))
}

// Merge adds the figures of a later strip.
func (e *Noise) Merge(o Noise) {
	e.Signal += o.Signal
	e.Error += o.Error
	e.Max = max(e.Max, o.Max)
	e.Count += o.Count
}

// SQNR returns the signal to quantization noise ratio, 10·log10(Σw² / Σ(ŵ−w)²), in dB. It is +Inf without noise.
func (e *Noise) SQNR() float64 {
	if e.Error == 0 {
		return math.Inf(1)
	}
	return 10 * math.Log10(e.Signal/e.Error)
}
