package quant

// InMemory returns matrices, their rows one behind the other, as one linear layer. They have the same columns, width, groups
// and kind of zero point.
func InMemory(parts ...*Matrix) Linear {
	l := &inMemory{Matrix: *parts[0]}
	if len(parts) == 1 {
		return l
	}
	l.N, l.Codes, l.Scales, l.Zeros, l.Bias = 0, nil, nil, nil, nil
	for _, m := range parts {
		l.N += m.N
		l.Codes = append(l.Codes, m.Codes...)
		l.Scales = append(l.Scales, m.Scales...)
		l.Zeros = append(l.Zeros, m.Zeros...)
		l.Bias = append(l.Bias, m.Bias...)
	}
	return l
}

// inMemory is a Linear that no file holds.
type inMemory struct{ Matrix }

// Shape returns rows and columns.
func (l *inMemory) Shape() (n, k int) { return l.N, l.K }

// Spec returns width, groups and kind of zero point.
func (l *inMemory) Spec() Spec { return Spec{Bits: l.Bits, Group: l.Group, Zero: l.Zero} }

// Tensors returns none.
func (l *inMemory) Tensors() []string { return nil }

// Rows returns a part of the matrix, which shares its memory.
func (l *inMemory) Rows(row0, rows int) (*Matrix, error) { return l.Part(row0, rows), nil }
