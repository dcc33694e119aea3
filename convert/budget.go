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

// folderAllotter chooses bits and groups of the matrices of a folder.
type folderAllotter struct {
	allotter
	src   *build.Build
	set   Settings
	specs []quant.Spec // that options stand for, by their number
}

// NewPlanWithin returns the plan that costs least by the analysis among those inside a budget. It takes from the settings
// everything but bits and groups. There is one choice for every matrix, and one for matrices that servers fuse: a candidate of the
// analysis that the target can hold, or float. Where a format has one setting for all its matrices, or the target reads no other,
// the plan has one. A matrix that the analysis does not have gets the largest that fits.
//
// Costs of matrices are added up, as if their errors did not meet. Sizes are those of plans: exact to the byte.
func NewPlanWithin(src *build.Build, s Settings, costs *Sensitivity, b Budget) (*Plan, error) {
	if src.Arch.Tied && s.Head == Default && !s.Format.RowsSplit() {
		s.Head = Keep // a tied head is a tensor of its own once it is quantized: more bytes for more loss
	}
	a := &folderAllotter{src: src, set: s}
	a.plan = a.make
	if err := a.init(costs, b); err != nil {
		return nil, err
	}
	if err := a.offer(); err != nil {
		return nil, err
	}
	menus := a.menus()
	if len(menus) == 0 {
		return nil, fmt.Errorf("convert: %s for %s: no candidate of the analysis fits every matrix that has to be quantized", s.Format.Name(), s.Target)
	}
	return a.best(menus)
}

// offer lists the units and their options. Which specs the target can hold of which matrix the plans of whole builds say.
func (a *folderAllotter) offer() error {
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
	costs := a.costs.byModule()
	for i := range a.units {
		a.units[i].options = a.options(&a.units[i], held, costs)
	}
	return nil
}

// add adds a matrix to its unit: what it is fused into, or stored as.
func (a *folderAllotter) add(it *Item, index map[string]int) {
	name := cmp.Or(it.Fused, it.Tensor.PartOf, it.Name)
	at, known := index[name]
	if !known {
		at = len(a.units)
		index[name], a.units = at, append(a.units, unit{})
	}
	a.units[at].items = append(a.units[at].items, it)
}

// options lists what the target can hold of all matrices of a unit, and float unless the settings ask for codes.
func (a *folderAllotter) options(u *unit, held []map[string]*Item, costs map[string]*LinearCost) (list []option) {
	whole := option{choice: float}
	keeps, judged := true, true
	for _, it := range u.items {
		stored, _ := a.src.Set.Lookup(it.Tensor.Source)
		whole.bytes += bytesOf(safetensors.Spec{DType: stored.DType, Shape: []int{it.N, it.K}})
		keeps = keeps && !(it.Head && a.set.Head == Quantize) && !(it.Embed && a.set.Embedding == Quantize)
		judged = judged && costs[it.Name] != nil
	}
specs:
	for i, items := range held {
		o := option{choice: i}
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

// menus returns the units with options that go together: all options, or else those of one spec and float, or of one spec.
func (a *folderAllotter) menus() (list [][]unit) {
	all := a.menu(func(int) bool { return true })
	if i := slices.IndexFunc(all, func(u unit) bool { return len(u.options) > 1 && u.options[1].choice != float }); i >= 0 {
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

// holds reports whether the target takes what is chosen as it is. Where settings keep in float what does not fit, a plan of something
// else would come out.
func (a *folderAllotter) holds(units []unit) bool {
	strict := *a
	strict.set.KeepUnfit = false
	_, err := strict.make(units)
	return err == nil
}

// make makes the plan of what is chosen.
func (a *folderAllotter) make(units []unit) (*Plan, error) {
	s, x := a.set, a.Allotment
	x.specs = map[string]*quant.Spec{}
	for i := range units {
		o := units[i].now()
		x.Cost += o.cost
		for _, it := range units[i].items {
			if o.choice != float {
				x.specs[it.Name] = &a.specs[o.choice]
			}
		}
	}
	s.Allotment = &x
	return NewPlan(a.src, s)
}
