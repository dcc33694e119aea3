package npu

import (
	"cmp"
	"context"
	"maps"
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

// together is how many variants run beside one another.
const together = 12

// Sensitivity quantizes one tensor after the other and returns them, the most expensive first.
func (t *Test) Sensitivity(ctx context.Context, m *Model, o Options, q *Quantizer) ([]Cost, error) {
	g := NewGraph(m, "sensitivity", o, o.Prefill)
	var list []Cost
	known := map[string]bool{}
	for _, v := range g.values {
		name, kind := v.Enc, "activation"
		switch {
		case v.Kind == Weight:
			name, kind = v.Param.Name, "matrix"
		case v.Kind == Constant:
			kind = "constant"
		case v.Class == Cached:
			kind = "cache"
		}
		if name != "" && !known[name] {
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
		case c.Kind == "cache":
			names = append(names, q.raiseCache(m, c.Name)...)
		}
	}
	return names
}

// matrices are those that can have more bits, by name, and all of their bytes.
func (q *Quantizer) matrices(m *Model, o Options) (weights map[string]*Param, all int64) {
	weights = map[string]*Param{}
	for _, v := range NewGraph(m, "promotion", o, 1).values {
		if v.Kind == Weight && !v.Param.Table {
			weights[v.Param.Name] = v.Param
			all += v.Param.Bytes(q.bits(v.Param))
		}
	}
	return weights, all
}

// growth is how many bytes twice the bits of a matrix take.
func (q *Quantizer) growth(p *Param) int64 { return p.Bytes(2*q.bits(p)) - p.Bytes(q.bits(p)) }

// Promotion gives more bits step by step.
type Promotion struct {
	q       *Quantizer
	model   *Model
	options Options
	costs   []Cost
	weights map[string]*Param
	noise   map[string]float64 // of a tensor alone, as a share of the logits' energy, with the bits that it has now
	sum     float64
	steps   []step // the matrices that were raised
}

// step is twice the bits for a matrix.
type step struct {
	name  string
	bits  int     // before
	bytes int64   // more than before
	noise float64 // less than before, alone
}

// NewPromotion begins with what every tensor costs.
func (q *Quantizer) NewPromotion(m *Model, o Options, costs []Cost) *Promotion {
	p := &Promotion{q: q, model: m, options: o, costs: costs, noise: map[string]float64{}}
	p.weights, _ = q.matrices(m, o)
	for _, c := range costs {
		p.noise[c.Name] = share(c.SQNR)
		p.sum += p.noise[c.Name]
	}
	return p
}

// share is noise as a share of the signal.
func share(ratio Decibel) float64 { return math.Pow(10, -float64(ratio)/10) }

// To gives matrices and caches twice the bits, and again, where that takes most noise off for a byte, until the noise of all tensors,
// each as large as it is alone, is so many dB below the logits, or nothing is left to be raised, which it reports.
func (p *Promotion) To(target Decibel) (more bool) {
	for most := share(target); p.sum > most; {
		best, gain := "", 0.0
		for _, c := range p.costs {
			w, bytes := p.weights[c.Name], 1.0
			switch {
			case w != nil && p.q.bits(w) < 16:
				bytes = float64(p.q.growth(w))
			case c.Kind != "cache" || p.q.raised(p.model, c.Name):
				continue
			}
			if g := p.noise[c.Name] / bytes; g > gain {
				best, gain = c.Name, g
			}
		}
		if best == "" {
			return false
		}
		w, bits := p.weights[best], 8
		if w != nil {
			bits = p.q.bits(w)
		}
		left := math.Ldexp(p.noise[best], -2*bits) // a step is 2^bits times smaller
		if w != nil {
			p.steps = append(p.steps, step{best, bits, p.q.growth(w), p.noise[best] - left})
			p.q.Raised[best] = 2 * bits
		} else {
			p.q.raiseCache(p.model, best)
		}
		p.sum += left - p.noise[best]
		p.noise[best] = left
	}
	return true
}

// certain is how many standard errors lie between what is measured and what is relied on.
const certain = 2

// Reach gives bits as To does until a test measures the target, for prompts and for single tokens, and so much more that another text
// of so many sequences has it, too; then it takes bits back where they are not needed, the largest matrices first. It returns all
// that was raised.
func (p *Promotion) Reach(ctx context.Context, t *Test, target Decibel, sequences int) ([]string, error) {
	wider := Decibel(certain * math.Sqrt(1+float64(len(t.Sequences))/float64(sequences)))
	// spare is how many dB there are more than is wanted, and the noise that may be added.
	spare := func() (dB Decibel, noise float64, err error) {
		e, err := t.Evaluate(ctx, p.model, p.options, p.q)
		if err != nil {
			return 0, 0, err
		}
		dB, noise = math.MaxFloat64, math.MaxFloat64
		for _, f := range []Fidelity{e.Prefill, e.Decode} {
			most := target + Decibel(wider*f.Error)
			dB, noise = min(dB, f.SQNR-most), min(noise, share(most)-share(f.SQNR))
		}
		return dB, noise, nil
	}
	left := 0.0 // the noise that may be added
	for want, more := target, true; more; {
		more = p.To(want)
		dB, noise, err := spare()
		if err != nil {
			return nil, err
		}
		if left = noise; !(dB < 0) {
			break
		}
		want -= min(dB, -leastStep)
	}
	slices.SortStableFunc(p.steps, func(a, b step) int { return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.noise, b.noise)) })
	for _, s := range p.steps {
		if s.noise > notQuite*left || p.q.Raised[s.name] != 2*s.bits {
			continue
		}
		p.q.Raised[s.name] = s.bits
		dB, noise, err := spare()
		switch {
		case err != nil:
			return nil, err
		case dB < 0:
			p.q.Raised[s.name] = 2 * s.bits
		default:
			left = noise
		}
	}
	maps.DeleteFunc(p.q.Raised, func(name string, bits int) bool {
		w := p.weights[name]
		return w != nil && bits <= p.q.unraised(w)
	})
	return slices.Sorted(maps.Keys(p.q.Raised)), nil
}

// What tensors cost alone does not quite add up: as many dB are asked for at least when some are missing, and as many times the noise
// that may be added is tried.
const (
	leastStep = 0.05
	notQuite  = 2
)

// raised reports whether a cache has 16 bits.
func (q *Quantizer) raised(m *Model, name string) bool {
	for i := range m.layers {
		if name == cacheEnc(i, "key") || name == cacheEnc(i, "value") {
			return q.kv(i).Bits() == 16
		}
	}
	return true
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
