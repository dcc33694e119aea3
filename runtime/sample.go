package runtime

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Sampling says how the next token is chosen. The zero value takes the likeliest.
//
// The steps are those of transformers, in its order: the repetition penalty divides positive logits of earlier tokens and
// multiplies negative ones; logits are divided by the temperature; the TopK likeliest stay; of these the fewest whose
// probabilities add up to TopP; of these all with at least MinP times the probability of the likeliest. The token is
// drawn from what is left. Of equal logits the lower id comes first.
type Sampling struct {
	Temperature float64 // 0: the likeliest token
	TopK        int     // 0: no limit
	TopP        float64 // 0 or 1: no limit
	MinP        float64 // 0: no limit
	Repetition  float64 // 0 or 1: no penalty
	Seed        uint64
}

// Check refuses values without a meaning.
func (s *Sampling) Check() error {
	switch {
	case !(s.Temperature >= 0) || math.IsInf(s.Temperature, 0):
		return fmt.Errorf("runtime: a temperature of %g: want 0 or more", s.Temperature)
	case s.TopK < 0:
		return fmt.Errorf("runtime: top-k %d: want 0 (all) or more", s.TopK)
	case !(s.TopP >= 0 && s.TopP <= 1):
		return fmt.Errorf("runtime: top-p %g: want 0 to 1", s.TopP)
	case !(s.MinP >= 0 && s.MinP <= 1):
		return fmt.Errorf("runtime: min-p %g: want 0 to 1", s.MinP)
	case !(s.Repetition >= 0) || math.IsInf(s.Repetition, 0):
		return fmt.Errorf("runtime: a repetition penalty of %g: want 1 (none) or more", s.Repetition)
	}
	return nil
}

// Sampler chooses tokens. The same seed and logits give the same tokens.
type Sampler struct {
	Sampling
	random *rand.Rand
	logits []float32 // penalised
	seen   []bool
	left   []candidate
}

type candidate struct {
	id int32
	p  float64 // up to a factor
}

// NewSampler starts a sequence of choices. The settings must have passed Check.
func NewSampler(s Sampling) *Sampler {
	return &Sampler{Sampling: s, random: rand.New(rand.NewPCG(s.Seed, 0))}
}

// Next chooses the token that follows history.
func (s *Sampler) Next(logits []float32, history []int32) int32 {
	if s.Repetition != 0 && s.Repetition != 1 {
		logits = s.penalise(logits, history)
	}
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	if s.Temperature == 0 {
		return int32(best)
	}
	s.weigh(logits, float64(logits[best]))
	s.cut()
	return s.draw()
}

// penalise returns the logits with those of history made less likely.
func (s *Sampler) penalise(logits []float32, history []int32) []float32 {
	s.logits = append(s.logits[:0], logits...)
	if len(s.seen) < len(logits) {
		s.seen = make([]bool, len(logits))
	}
	for _, id := range history {
		if s.seen[id] {
			continue
		}
		s.seen[id] = true
		if v := float64(s.logits[id]); v > 0 {
			s.logits[id] = float32(v / s.Repetition)
		} else {
			s.logits[id] = float32(v * s.Repetition)
		}
	}
	for _, id := range history {
		s.seen[id] = false
	}
	return s.logits
}

// weigh lists all tokens with exp((logit − most) / temperature).
func (s *Sampler) weigh(logits []float32, most float64) {
	s.left = s.left[:0]
	for i, v := range logits {
		if p := math.Exp((float64(v) - most) / s.Temperature); p > 0 {
			s.left = append(s.left, candidate{int32(i), p})
		}
	}
}

// cut applies the limits.
func (s *Sampler) cut() {
	nucleus := s.TopP > 0 && s.TopP < 1
	if s.TopK > 0 && s.TopK < len(s.left) || nucleus {
		slices.SortFunc(s.left, func(a, b candidate) int { return cmp.Or(cmp.Compare(b.p, a.p), cmp.Compare(a.id, b.id)) })
	}
	if s.TopK > 0 {
		s.left = s.left[:min(s.TopK, len(s.left))]
	}
	if nucleus {
		need := s.TopP * s.total()
		var sum float64
		for i := range s.left {
			if sum += s.left[i].p; sum >= need {
				s.left = s.left[:i+1]
				break
			}
		}
	}
	if s.MinP > 0 { // the likeliest token has p = 1
		s.left = slices.DeleteFunc(s.left, func(c candidate) bool { return c.p < s.MinP })
	}
}

func (s *Sampler) total() float64 {
	var sum float64
	for i := range s.left {
		sum += s.left[i].p
	}
	return sum
}

// draw takes a token by its share of the total.
func (s *Sampler) draw() int32 {
	at := s.random.Float64() * s.total()
	for i := range s.left {
		if at -= s.left[i].p; at < 0 {
			return s.left[i].id
		}
	}
	return s.left[len(s.left)-1].id // rounding
}
