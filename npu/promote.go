package npu

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// Cost is what quantizing one tensor, and nothing else, does to the logits.
type Cost struct {
	Name  string  `json:"name"` // of an encoding, or of a matrix
	Kind  string  `json:"kind"` // activation, constant, cache, matrix
	SQNR  Decibel `json:"logits_sqnr_db"`
	Share float64 `json:"share"` // of the noise of all together
}

// MatrixKind is the Kind of matrices.
const MatrixKind = "matrix"

// together is how many variants run beside one another.
const together = 12

// Sensitivity quantizes one tensor after the other, of these kinds or, without any, of all, and returns them, the most expensive first.
func (t *Test) Sensitivity(ctx context.Context, m *Model, o Options, q *Quantizer, kinds ...string) ([]Cost, error) {
	g := newGraph(m, "sensitivity", o, o.Prefill)
	var list []Cost
	known := map[string]bool{}
	for _, v := range g.values {
		name, kind := v.Enc, "activation"
		switch {
		case v.Kind == weight:
			name, kind = v.Param.Name, MatrixKind
		case v.Kind == constant:
			kind = "constant"
		case v.Class == cached:
			kind = "cache"
		}
		if name != "" && !known[name] && (kinds == nil || slices.Contains(kinds, kind)) {
			known[name] = true
			list = append(list, Cost{Name: name, Kind: kind})
		}
	}
	var sum, none float64 // none: noise that is there with nothing on a grid, that of the epsilon which the file has not
	noises := make([]float64, len(list))
	for at := 0; at < len(list); at += together {
		part := list[at:min(at+together, len(list))]
		x := &tester{Test: t, q: q}
		for _, c := range part {
			x.others = append(x.others, &Quantizer{Scheme: q.Scheme, Encodings: q.Encodings, Hidden: q.Hidden, rounded: q.rounded,
				only: func(name string) bool { return name == c.Name }})
		}
		if at == 0 {
			x.others = append(x.others, &Quantizer{Scheme: q.Scheme, Encodings: q.Encodings, Hidden: q.Hidden, only: func(string) bool { return false }})
		}
		lanes, err := x.lanes(m)
		if err != nil {
			return nil, err
		}
		meters, err := x.run(ctx, g, lanes)
		if err != nil {
			return nil, err
		}
		if at == 0 {
			none = meters[1+len(part)].noise
		}
		for i := range part {
			meter := meters[1+i]
			noises[at+i] = max(meter.noise-none, 0)
			part[i].SQNR = sqnr(meter.signal, noises[at+i])
			sum += noises[at+i]
		}
	}
	for i := range list {
		list[i].Share = noises[i] / max(sum, math.SmallestNonzeroFloat64)
	}
	slices.SortStableFunc(list, func(a, b Cost) int { return cmp.Compare(b.Share, a.Share) })
	return list, nil
}

// What promotion spends: tensors that have leastShare of the noise at least, for mostGrowth of the weights' bytes at most.
const (
	leastShare = 0.03
	mostGrowth = 0.10
)

// Promote gives the most expensive matrices and caches twice the bits, as long as the weights grow little, and returns their
// names. Activations stay: both sides of an operation have one type.
func (q *Quantizer) Promote(m *Model, o Options, costs []Cost) []string {
	weights, all := q.matrices(m, o)
	left := int64(float64(all) * mostGrowth)
	var names []string
	for _, c := range costs {
		if c.Share < leastShare {
			break
		}
		switch p := weights[c.Name]; {
		case p != nil && q.bits(p) < 16:
			if grows := q.growth(p); grows <= left {
				left -= grows
				q.Raised[c.Name] = 2 * q.bits(p)
				names = append(names, c.Name)
			}
		case q.canRaise(m, o, c.Name):
			names = append(names, q.raiseCache(m, c.Name)...)
		}
	}
	return names
}

// matrices are those that can have more bits, by name, and all of their bytes.
func (q *Quantizer) matrices(m *Model, o Options) (weights map[string]*param, all int64) {
	weights = map[string]*param{}
	for _, v := range newGraph(m, "promotion", o, 1).values {
		if v.Kind == weight && !v.Param.Table {
			weights[v.Param.Name] = v.Param
			all += v.Param.bytes(q.bits(v.Param))
		}
	}
	return weights, all
}

// WeightBytes is the size of all matrices, which a decoding step reads.
func (q *Quantizer) WeightBytes(m *Model, o Options) int64 {
	_, all := q.matrices(m, o)
	return all
}

// growth is how many bytes twice the bits of a matrix take.
func (q *Quantizer) growth(p *param) int64 { return p.bytes(2*q.bits(p)) - p.bytes(q.bits(p)) }

// canRaise reports whether a cache has 8 bits and may have 16, which a host that slides all caches alike does not take.
func (q *Quantizer) canRaise(m *Model, o Options, name string) bool {
	for i := range m.layers {
		if name == cacheEnc(i, "key") || name == cacheEnc(i, "value") {
			return !o.Whole && q.kv(i).Bits() == 8
		}
	}
	return false
}

// raiseCache keeps both keys and values of a layer in 16 bits, and returns the names of what was raised for that.
func (q *Quantizer) raiseCache(m *Model, name string) (names []string) {
	for i := range m.layers {
		if q.kv(i).Bits() == 16 || name != cacheEnc(i, "key") && name != cacheEnc(i, "value") {
			continue
		}
		q.Raised[cacheName(i)] = 16
		names = append(names, cacheName(i))
		for _, what := range []string{"key", "value"} {
			_, hi := q.Encodings[cacheEnc(i, what)].Range()
			q.Encodings[cacheEnc(i, what)] = Symmetric(Int16, float64(hi))
		}
	}
	return names
}

// Worst returns the tensor of which most is clipped.
func (e *Evaluation) Worst() Tensor {
	return slices.MaxFunc(e.Tensors, func(a, b Tensor) int { return cmp.Compare(a.Clipped, b.Clipped) })
}

// Weakest returns the layer behind which the residual stream has the lowest ratio.
func (e *Evaluation) Weakest() Loss {
	return slices.MinFunc(e.Layers, func(a, b Loss) int { return cmp.Compare(a.SQNR, b.SQNR) })
}
