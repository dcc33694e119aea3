package convert

import (
	"errors"
	"slices"
)

// allotter looks for the best plan inside a budget.
type allotter struct {
	Allotment // what all plans share
	costs     *Sensitivity
	units     []unit                            // with all options that fit
	plan      func(units []unit) (*Plan, error) // the plan of what is chosen
}

// init sets what all plans share.
func (a *allotter) init(costs *Sensitivity, b Budget) error {
	digest, err := costs.digest()
	a.costs, a.Allotment = costs, Allotment{Budget: b, Sensitivity: digest, Measured: costs.Measured != nil}
	return err
}

// best returns the best plan of all menus. The error is an OutOfRange if the budget is less than the least plan takes or more than
// the largest.
func (a *allotter) best(menus [][]unit) (best *Plan, err error) {
	b := a.Budget
	var least, most *Plan
	for _, units := range menus {
		low, high, p, err := a.within(units)
		if err != nil {
			return nil, err
		}
		if least == nil || b.Taken(low) < b.Taken(least) {
			least = low
		}
		if most == nil || b.Taken(high) > b.Taken(most) {
			most = high
		}
		if p != nil && (best == nil || p.Allotment.Cost < best.Allotment.Cost) {
			best = p
		}
	}
	switch {
	case b.Limit(least) < b.Taken(least):
		return nil, b.outOfRange(least, false)
	case b.Limit(most) > b.Taken(most):
		return nil, b.outOfRange(most, true)
	}
	return best, nil
}

// byModule returns the costs of matrices by module, those of a matrix that becomes several by each of them.
func (s *Sensitivity) byModule() map[string]*LinearCost {
	costs := map[string]*LinearCost{}
	for i := range s.Linears {
		l := &s.Linears[i]
		costs[l.Name] = l
		for _, part := range l.Parts {
			costs[part] = l
		}
	}
	return costs
}

// price is what a candidate costs: its KL divergence or, without measuring, its loss. A matrix whose inputs are all zero costs nothing.
func (s *Sensitivity) price(c *CandidateCost) float64 {
	switch {
	case s.Measured != nil && c.KL != nil:
		return float64(*c.KL)
	case s.Measured == nil && c.Loss != nil:
		return float64(*c.Loss)
	}
	return 0
}

// menu leaves some options; nil if a unit then has none, or nothing can be quantized.
func (a *allotter) menu(keep func(choice int) bool) []unit {
	units, quantized := slices.Clone(a.units), false
	for i := range units {
		u := &units[i]
		u.options = arrange(slices.DeleteFunc(slices.Clone(u.options), func(o option) bool { return !keep(o.choice) }))
		if len(u.options) == 0 {
			return nil
		}
		quantized = quantized || u.options[0].choice != float
	}
	if !quantized {
		return nil
	}
	return units
}

// within returns the smallest and the largest plan of a menu, and the best inside the budget: nil if there is none.
func (a *allotter) within(units []unit) (least, most, best *Plan, err error) {
	smallest(units)
	if least, err = a.plan(units); err != nil {
		return nil, nil, nil, err
	}
	fill(units)
	spare := -1 // with all in float nothing would be a build: what is largest with codes has them
	for i := range units {
		u := &units[i]
		if u.now().choice != float {
			spare = -1
			break
		}
		if lost := u.gap(); len(u.options) > 1 && (spare < 0 || lost < units[spare].gap()) {
			spare = i
		}
	}
	if spare >= 0 {
		units[spare].chosen--
	}
	if most, err = a.plan(units); err != nil {
		return nil, nil, nil, err
	}
	b := a.Budget
	limit := b.Limit(least)
	if limit < b.Taken(least) {
		return least, most, nil, nil
	}
	// Headers, configs and the report take more or less with the choices: what they take with one is kept free for the next, but for
	// a part that gets smaller, so that a choice with which they take less is seen.
	best = least
	smallest(units)
	room, risk := limit-(b.Taken(least)-chosenBytes(units)), limit>>10
	const rounds = 8
	for range rounds {
		choose(units, room)
		taken := chosenBytes(units)
		p, err := a.plan(units)
		var unfit *Unfit
		if errors.As(err, &unfit) { // everything came out in float
			room = taken - 1
			continue
		}
		if err != nil {
			return nil, nil, nil, err
		}
		left := limit - b.Taken(p)
		if left >= 0 && p.Allotment.Cost <= best.Allotment.Cost {
			best = p
		}
		next := taken + left + risk
		if left >= 0 && (left < limit/1000 || next <= room) {
			break
		}
		if left < 0 {
			next = min(next, taken-1)
		}
		room, risk = next, risk>>3
	}
	return least, most, best, nil
}

// gap is how many bytes less than the largest option the one before it takes.
func (u *unit) gap() int64 {
	n := len(u.options)
	if n < 2 {
		return 0
	}
	return u.options[n-1].bytes - u.options[n-2].bytes
}
