package convert

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"nibble/build"
	"nibble/quant"
	"nibble/safetensors"
)

// allotter looks for the best plan inside a budget.
type allotter struct {
	src   *build.Build
	set   Settings
	costs *Sensitivity
	specs []quant.Spec // that options stand for, by their number
	units []unit       // with all options that fit
}

// NewPlanWithin returns the plan that costs least by the analysis among those inside a budget. It takes from the settings
// everything but bits and groups. There is one choice for every matrix, and one for matrices that servers fuse: a candidate of the
// analysis that the target can hold, or float. Where a format has one setting for all its matrices, or the target reads no other,
// the plan has one. A matrix that the analysis does not have gets the largest that fits.
//
// Costs of matrices are added up, as if their errors did not meet. Sizes are those of plans: exact to the byte.
func NewPlanWithin(src *build.Build, s Settings, costs *Sensitivity, b Budget) (*Plan, error) {
	digest, err := costs.digest()
	if err != nil {
		return nil, err
	}
	s.Allotment = &Allotment{Budget: b, Sensitivity: digest, Measured: costs.Measured != nil}
	if src.Arch.Tied && s.Head == Default && !s.Format.RowsSplit() {
		s.Head = Keep // a tied head is a tensor of its own once it is quantized: more bytes for more loss
	}
	a := &allotter{src: src, set: s, costs: costs}
	if err := a.offer(); err != nil {
		return nil, err
	}
	var best, least, most *Plan
	for _, units := range a.menus() {
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
	case least == nil:
		return nil, fmt.Errorf("convert: %s for %s: no candidate of the analysis fits every matrix that has to be quantized", s.Format.Name(), s.Target)
	case b.Limit(least) < b.Taken(least):
		return nil, b.outOfRange(least, false)
	case b.Limit(most) > b.Taken(most):
		return nil, b.outOfRange(most, true)
	}
	return best, nil
}

// offer lists the units and their options. Which specs the target can hold of which matrix the plans of whole builds say.
func (a *allotter) offer() error {
	var held []map[string]*Item // by spec and module
	index := map[string]int{}
	var refusal error
	for _, bits := range candidateBits {
		for _, group := range candidateGroups {
			s := a.set
			s.Spec.Bits, s.Spec.Group, s.KeepUnfit, s.Allotment = bits, group, true, nil
			p := &Plan{Settings: s, Source: a.src}
			if err := cmp.Or(p.decide(), p.fit()); err != nil {
				var unfit *Unfit
				if !errors.As(err, &unfit) {
					return err
				}
				refusal = err
				continue
			}
			items := map[string]*Item{}
			for i := range p.Items {
				it := &p.Items[i]
				if it.Spec == nil {
					continue
				}
				if !slices.ContainsFunc(held, func(m map[string]*Item) bool { return m[it.Name] != nil }) {
					a.add(it, index)
				}
				items[it.Name] = it
			}
			held, a.specs = append(held, items), append(a.specs, s.Spec)
		}
	}
	if len(a.units) == 0 {
		return refusal
	}
	costs := map[string]*LinearCost{}
	for i := range a.costs.Linears {
		l := &a.costs.Linears[i]
		costs[l.Name] = l
		for _, part := range l.Parts {
			costs[part] = l
		}
	}
	for i := range a.units {
		a.units[i].options = a.options(&a.units[i], held, costs)
	}
	return nil
}

// add adds a matrix to its unit: what it is fused into, or stored as.
func (a *allotter) add(it *Item, index map[string]int) {
	name := cmp.Or(it.Fused, it.Tensor.PartOf, it.Name)
	at, known := index[name]
	if !known {
		at = len(a.units)
		index[name], a.units = at, append(a.units, unit{})
	}
	a.units[at].items = append(a.units[at].items, it)
}

// options lists what the target can hold of all matrices of a unit, and float unless the settings ask for codes.
func (a *allotter) options(u *unit, held []map[string]*Item, costs map[string]*LinearCost) (list []option) {
	whole := option{spec: float}
	keeps, judged := true, true
	for _, it := range u.items {
		stored, _ := a.src.Set.Lookup(it.Tensor.Source)
		whole.bytes += bytesOf(safetensors.Spec{DType: stored.DType, Shape: []int{it.N, it.K}})
		keeps = keeps && !(it.Head && a.set.Head == Quantize) && !(it.Embed && a.set.Embedding == Quantize)
		judged = judged && costs[it.Name] != nil
	}
specs:
	for i, items := range held {
		o := option{spec: i}
		counted := map[*LinearCost]bool{} // what the source has as one has its cost once
		for _, it := range u.items {
			x := items[it.Name]
			if x == nil {
				continue specs
			}
			for _, t := range a.set.Format.Tensors(*x.Spec, x.N, x.K) {
				o.bytes += bytesOf(safetensors.Spec{DType: t.DType, Shape: t.Shape})
			}
			if l := costs[it.Name]; l != nil && !counted[l] {
				c := l.candidate(x.Spec)
				if c == nil {
					continue specs
				}
				counted[l] = true
				o.cost += a.costs.price(c)
			}
		}
		list = append(list, o)
	}
	switch {
	case judged && keeps:
		list = append(list, whole)
	case !judged && len(list) > 0:
		list = []option{slices.MaxFunc(list, func(x, y option) int { return cmp.Compare(x.bytes, y.bytes) })}
	case !judged:
		list = []option{whole}
	}
	return list
}

// candidate finds a spec among the candidates. A row that is one group may stand there as a whole row.
func (l *LinearCost) candidate(s *quant.Spec) *CandidateCost {
	for i := range l.Candidates {
		if c := &l.Candidates[i]; c.Bits == s.Bits && (c.Group == s.Group || c.Group < 0 && s.Group == l.Shape[1]) {
			return c
		}
	}
	return nil
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

// menus returns the units with options that go together: all options, or else those of one spec and float, or of one spec.
func (a *allotter) menus() (list [][]unit) {
	all := a.menu(func(int) bool { return true })
	if i := slices.IndexFunc(all, func(u unit) bool { return len(u.options) > 1 && u.options[1].spec != float }); i >= 0 {
		all[i].chosen = 1
		if a.holds(all) {
			return [][]unit{all}
		}
	}
	for spec := range a.specs {
		units := a.menu(func(x int) bool { return x == spec || x == float })
		if i := slices.IndexFunc(units, func(u unit) bool { return len(u.options) > 1 }); i >= 0 {
			units[i].chosen = 1
			if a.holds(units) {
				list = append(list, units)
				continue
			}
		}
		if units = a.menu(func(x int) bool { return x == spec }); units != nil {
			list = append(list, units)
		}
	}
	return list
}

// menu leaves some options; nil if a unit then has none, or nothing can be quantized.
func (a *allotter) menu(keep func(spec int) bool) []unit {
	units, quantized := slices.Clone(a.units), false
	for i := range units {
		u := &units[i]
		u.options = arrange(slices.DeleteFunc(slices.Clone(u.options), func(o option) bool { return !keep(o.spec) }))
		if len(u.options) == 0 {
			return nil
		}
		quantized = quantized || u.options[0].spec != float
	}
	if !quantized {
		return nil
	}
	return units
}

// holds reports whether the target takes what is chosen as it is. Where settings keep in float what does not fit, a plan of something
// else would come out.
func (a *allotter) holds(units []unit) bool {
	strict := *a
	strict.set.KeepUnfit = false
	_, err := strict.plan(units)
	return err == nil
}

// plan makes the plan of what is chosen.
func (a *allotter) plan(units []unit) (*Plan, error) {
	s, x := a.set, *a.set.Allotment
	x.specs = map[string]*quant.Spec{}
	for i := range units {
		o := units[i].now()
		x.Cost += o.cost
		for _, it := range units[i].items {
			if o.spec != float {
				x.specs[it.Name] = &a.specs[o.spec]
			}
		}
	}
	s.Allotment = &x
	return NewPlan(a.src, s)
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
		if u.now().spec != float {
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
	b := a.set.Allotment.Budget
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
