package npu

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
)

// Promotion gives more bits step by step.
type Promotion struct {
	q       *Quantizer
	model   *Model
	options Options
	costs   []Cost
	weights map[string]*param
	bytes   int64              // of all weights, before
	grown   int64              // what they have more
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
	p.weights, p.bytes = q.matrices(m, o)
	for _, c := range costs {
		p.noise[c.Name] = share(c.SQNR)
		p.sum += p.noise[c.Name]
	}
	return p
}

// share is noise as a share of the signal, and ratio its inverse.
func share(ratio Decibel) float64 { return math.Pow(10, -float64(ratio)/10) }

func ratio(share float64) Decibel { return sqnr(1, share) }

// to gives matrices and caches twice the bits, and again, where that takes most noise off for a byte, until the noise of all tensors,
// each as large as it is alone, is so many dB below the logits, or nothing is left to be raised without more than most bytes more than before
// the promotion. It returns how often it did.
func (p *Promotion) to(target Decibel, most int64) (raised int) {
	for goal := share(target); p.sum > goal; raised++ {
		best, gain := "", 0.0
		for _, c := range p.costs {
			w, bytes := p.weights[c.Name], 1.0
			switch {
			case w != nil && p.q.bits(w) < 16 && p.grown+p.q.growth(w) <= most:
				bytes = float64(p.q.growth(w))
			case w != nil || !p.q.canRaise(p.model, p.options, c.Name):
				continue
			}
			if g := p.noise[c.Name] / bytes; g > gain {
				best, gain = c.Name, g
			}
		}
		if best == "" {
			break
		}
		w, bits := p.weights[best], 8
		if w != nil {
			bits = p.q.bits(w)
		}
		left := math.Ldexp(p.noise[best], -2*bits) // a step is 2^bits times smaller
		if w != nil {
			p.grown += p.q.growth(w)
			p.steps = append(p.steps, step{best, bits, p.q.growth(w), p.noise[best] - left})
			p.q.Raised[best] = 2 * bits
		} else {
			p.q.raiseCache(p.model, best)
		}
		p.sum += left - p.noise[best]
		p.noise[best] = left
	}
	return raised
}

// Goal is what a promotion is for.
type Goal struct {
	SQNR Decibel // of prompts, and of single tokens
	Top1 float64 // share of all tokens whose likeliest successor stays; 0: any
}

// Missed reports whether what was measured is less.
func (g Goal) Missed(e *Evaluation) bool {
	top1, tokens := e.Top1()
	return !(e.Prefill.SQNR >= g.SQNR && e.Decode.SQNR >= g.SQNR) || tokens >= telling && top1 < g.Top1
}

// Alone is the SQNR that stands for all of a goal, in tenths of a dB, by how many tokens changed with the noise that was measured.
func (g Goal) Alone(e *Evaluation) Decibel {
	top1, tokens := e.Top1()
	if g.Top1 == 0 || tokens < telling || top1 >= g.Top1 {
		return g.SQNR
	}
	louder := (1 - g.Top1) / (1 - top1)
	return max(g.SQNR, Decibel(math.Ceil(-200*math.Log10(louder*amplitude(e)))/10))
}

// mostForTop1 is how many more bytes, as a share, weights may have for the sake of [Goal.Top1]. Half as many changed tokens are 6 dB.
const mostForTop1 = 0.5

// telling is from how many tokens on a share of 99 % says something: of 500 tokens 5 ± 2 change then.
const telling = 500

// How many standard errors lie between what is measured and what is relied on: a second one for the share would be another 2 dB.
const (
	certain = 2 // of SQNR
	likely  = 1 // of Top1
)

// frequency is how many tokens change for how much noise: in proportion to its amplitude, which is why all measurements of a promotion say
// something about each, and none is taken for better than it is because few tokens happened to change.
type frequency struct{ changed, noise float64 }

// see adds a measurement.
func (f *frequency) see(e *Evaluation) {
	top1, tokens := e.Top1()
	f.changed += float64((1 - top1) * float64(tokens))
	f.noise += float64(amplitude(e) * float64(tokens))
}

// amplitude is that of the noise, as a share of the logits', of all tokens.
func amplitude(e *Evaluation) float64 {
	_, tokens := e.Top1()
	sum := float64(float64(e.Prefill.Tokens)*math.Sqrt(share(e.Prefill.SQNR))) + float64(float64(e.Decode.Tokens)*math.Sqrt(share(e.Decode.SQNR)))
	return sum / float64(max(tokens, 1))
}

// spare is how many dB there are more than a goal wants, on this text and on another of so many sequences, and the noise that may be added.
func (g Goal) spare(e *Evaluation, f *frequency, here, there int) (dB Decibel, noise float64) {
	wider := math.Sqrt(1 + float64(here)/float64(there))
	dB, noise = math.MaxFloat64, math.MaxFloat64
	for _, x := range []Fidelity{e.Prefill, e.Decode} {
		most := g.SQNR + Decibel(float64(certain*wider*float64(x.Error)))
		dB, noise = min(dB, x.SQNR-most), min(noise, share(most)-share(x.SQNR))
	}
	_, tokens := e.Top1()
	if g.Top1 == 0 || tokens < telling || tokens*there < telling*here || f.changed == 0 {
		return dB, noise
	}
	changed := min(f.changed/f.noise*amplitude(e), 1)
	changed += float64(likely * wider * math.Sqrt(float64(changed*(1-changed))/float64(tokens)))
	louder := (1 - g.Top1) / changed
	return min(dB, Decibel(20*math.Log10(louder))), min(noise, share(e.Prefill.SQNR)*(float64(louder*louder)-1))
}

// Reach gives bits as to does until a test measures the goal, and so much more that another text of so many sequences has it, too; then it
// takes bits back where they are not needed, the largest matrices first. A share of tokens that half as many bytes more do not reach gets none. It
// returns all that was raised, and whether the SQNR was reached.
func (p *Promotion) Reach(ctx context.Context, t *Test, goal Goal, sequences int) (names []string, reached bool, err error) {
	var seen frequency
	measure := func() (e *Evaluation, err error) {
		if e, err = t.Evaluate(ctx, p.model, p.options, p.q); err == nil {
			seen.see(e)
		}
		return e, err
	}
	p.to(goal.SQNR, math.MaxInt64)
	e, err := measure()
	if err != nil {
		return nil, false, err
	}
	// climb goes on until nothing is missing, or nothing may be raised any more.
	climb := func(g Goal, most int64) (there bool, err error) {
		for {
			dB, _ := g.spare(e, &seen, len(t.Sequences), sequences)
			if dB >= 0 {
				return true, nil
			}
			if p.to(ratio(p.sum)-min(dB, -leastStep), most) == 0 {
				return false, nil
			}
			if e, err = measure(); err != nil {
				return false, err
			}
		}
	}
	if reached, err = climb(Goal{SQNR: goal.SQNR}, math.MaxInt64); err != nil {
		return nil, false, err
	}
	raised, grids, steps, before := maps.Clone(p.q.Raised), maps.Clone(p.q.Encodings), len(p.steps), e
	switch there, err := climb(goal, int64(mostForTop1*float64(p.bytes))); {
	case err != nil:
		return nil, false, err
	case !there:
		p.q.Raised, p.q.Encodings, p.steps, e = raised, grids, p.steps[:steps], before
		goal.Top1 = 0
	}
	_, left := goal.spare(e, &seen, len(t.Sequences), sequences) // the noise that may be added
	slices.SortStableFunc(p.steps, func(a, b step) int { return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.noise, b.noise)) })
	for _, s := range p.steps {
		if s.noise > notQuite*left || p.q.Raised[s.name] != 2*s.bits {
			continue
		}
		p.q.Raised[s.name] = s.bits
		if e, err = measure(); err != nil {
			return nil, false, err
		}
		if dB, noise := goal.spare(e, &seen, len(t.Sequences), sequences); dB < 0 {
			p.q.Raised[s.name] = 2 * s.bits
		} else {
			left = noise
		}
	}
	maps.DeleteFunc(p.q.Raised, func(name string, bits int) bool {
		w := p.weights[name]
		return w != nil && bits <= p.q.unraised(w)
	})
	return slices.Sorted(maps.Keys(p.q.Raised)), reached, nil
}

// What tensors cost alone does not quite add up: as many dB are asked for at least when some are missing, and as many times the noise
// that may be added is tried.
const (
	leastStep = 0.05
	notQuite  = 2
)
