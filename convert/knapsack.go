package convert

import (
	"cmp"
	"slices"

	"nibble/gguf/names"
)

// unit is matrices that are decided together.
type unit struct {
	items   []*Item       // matrices that some spec fits; their specs are of no use
	tensor  *names.Tensor // of a GGUF file, in their place
	options []option      // from the smallest to the largest, each costing less than the one before
	chosen  int
}

// option is one way to store a unit.
type option struct {
	choice int // number of a spec or a type, or float
	bytes  int64
	cost   float64
}

// float is the choice that leaves matrices as they are.
const float = -1

// now is the option that is chosen.
func (u *unit) now() option { return u.options[u.chosen] }

// arrange sorts options by size and drops those that cost no less than a smaller one.
func arrange(options []option) []option {
	slices.SortStableFunc(options, func(a, b option) int { return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.cost, b.cost)) })
	kept := options[:0]
	for _, o := range options {
		if len(kept) == 0 || o.cost < kept[len(kept)-1].cost {
			kept = append(kept, o)
		}
	}
	return kept
}

// chosenBytes is what all units take.
func chosenBytes(units []unit) (n int64) {
	for i := range units {
		n += units[i].now().bytes
	}
	return n
}

// fill chooses the largest options.
func fill(units []unit) {
	for i := range units {
		units[i].chosen = len(units[i].options) - 1
	}
}

// smallest chooses the smallest options.
func smallest(units []unit) {
	for i := range units {
		units[i].chosen = 0
	}
}

// frontier is the most choices of some units that are kept while others are added.
const frontier = 1 << 12

// choose gives every unit the option with which all together cost least and take at most room bytes, or its smallest if they take more: a knapsack of which one thing of
// every kind is taken. Unit by unit there is a list of choices of the units so far of which none is both smaller and
// cheaper than another; at the end the cheapest that fits is taken (Nemhauser and Ullmann, 1969). That is exact while lists are
// shorter than the frontier. Longer ones are thinned: of choices whose sizes are within a small share of the room the cheapest stays.
func choose(units []unit, room int64) {
	type point struct {
		bytes        int64
		cost         float64
		before, with int // the choice of the units before, and this unit's option
	}
	smallest(units)
	rest := chosenBytes(units) // what the units that are not added yet take at least
	if rest > room {
		return
	}
	width := max((room-rest)/frontier, 1)
	lists := make([][]point, len(units)+1)
	lists[0] = []point{{}}
	for i := range units {
		rest -= units[i].options[0].bytes
		var all []point
		for before, x := range lists[i] {
			for with, o := range units[i].options {
				if p := (point{x.bytes + o.bytes, x.cost + o.cost, before, with}); p.bytes+rest <= room {
					all = append(all, p)
				}
			}
		}
		slices.SortStableFunc(all, func(a, b point) int { return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.cost, b.cost)) })
		kept, thin := all[:0], len(all) > frontier
		for _, p := range all {
			n := len(kept)
			switch {
			case n > 0 && p.cost >= kept[n-1].cost:
			case n > 1 && thin && p.bytes/width == kept[n-1].bytes/width:
				kept[n-1] = p
			default:
				kept = append(kept, p)
			}
		}
		lists[i+1] = slices.Clone(kept)
	}
	at := len(lists[len(units)]) - 1
	for i := len(units) - 1; i >= 0; i-- {
		p := lists[i+1][at]
		units[i].chosen, at = p.with, p.before
	}
}
