package npu

import "sync"

// Quantizer is a scheme with the grids of all activations: what the files of an export say.
type Quantizer struct {
	Scheme
	Encodings map[string]Encoding
	Hidden    float32 // what the mask has for keys that are not seen

	rounded   map[rounding]*rounded  // matrices that were rounded with error feedback
	only      func(name string) bool // what is quantized; nil: everything
	mu        sync.Mutex
	constants map[*param][]float32
}

// encoding returns the grid of a value.
func (q *Quantizer) encoding(v *value) Encoding {
	switch {
	case v.Class == unitGrid || v.Class == shareGrid || v.Class == signedGrid:
		return fixed(v.Class, q.act())
	case v.Kind == constant && v.Enc == v.Name:
		lo, hi := extremes(v.Param.Values)
		return Asymmetric(q.act(), lo, hi)
	}
	return q.Encodings[v.Enc]
}

// round puts values on the grid of a tensor.
func (q *Quantizer) round(v *value, x []float32) {
	if q.only == nil || q.only(v.Enc) {
		q.encoding(v).Round(x)
	}
}

// weight returns the bits of a matrix, 0 where it stays in float.
func (q *Quantizer) weight(v *value) int {
	if q.only != nil && !q.only(v.Param.Name) {
		return 0
	}
	return q.bits(v.Param)
}

// constant returns a vector on its grid.
func (q *Quantizer) constant(v *value) []float32 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if x := q.constants[v.Param]; x != nil {
		return x
	}
	if q.constants == nil {
		q.constants = map[*param][]float32{}
	}
	x := append([]float32(nil), v.Param.Values...)
	q.round(v, x)
	q.constants[v.Param] = x
	return x
}

// extremes are the smallest and the largest value.
func extremes(x []float32) (lo, hi float64) {
	for _, v := range x {
		lo, hi = min(lo, float64(v)), max(hi, float64(v))
	}
	return lo, hi
}
