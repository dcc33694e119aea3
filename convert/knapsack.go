package convert

import (
	"cmp"
	"slices"
)

// unit is matrices that are decided together.
type unit struct {
	items   []*Item  // matrices that some spec fits; their specs are of no use
	options []option // from the smallest to the largest, each costing less than the one before
	chosen  int
}

// option is one way to store a unit.
type option struct {
	spec  int // number of a spec, or float
	bytes int64
	cost  float64
}

// float is what an option has for a spec that leaves matrices as they are.
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

// choose gives every unit the option with which all together cost least and take at most room bytes, nearly: a knapsack of
// which one thing of every kind is taken. From the smallest options on, steps along the lower convex hull of every unit are taken by
// falling saving for a byte, which is the optimum of the Lagrangian up to the first step that does not fit. Units that do not
// fit any more stay where they are, and others go on. What room is left is then filled by single changes and by exchanges
// of two units, as long as they save something. Equal savings go to the unit that comes first.
func choose(units []unit, room int64) {
	smallest(units)
	type step struct {
		unit, to int
		bytes    int64
		rate     float64 // saved for a byte
	}
	var steps []step
	for i := range units {
		o := units[i].options
		for at := 0; at < len(o)-1; {
			best := step{unit: i, rate: -1}
			for to := at + 1; to < len(o); to++ {
				if rate := (o[at].cost - o[to].cost) / float64(o[to].bytes-o[at].bytes); rate >= best.rate {
					best = step{i, to, o[to].bytes - o[at].bytes, rate}
				}
			}
			steps = append(steps, best)
			at = best.to
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(b.rate, a.rate) })
	room -= chosenBytes(units)
	full := make([]bool, len(units))
	for _, s := range steps {
		if full[s.unit] = full[s.unit] || s.bytes > room; !full[s.unit] {
			units[s.unit].chosen = s.to
			room -= s.bytes
		}
	}
	const rounds = 256
	for range rounds {
		left, saved := exchange(units, room)
		if !saved {
			return
		}
		room = left
	}
}

// exchange makes the change of one unit, or of two, that saves most without taking more than room bytes. It returns what room
// is left, and whether it made one.
func exchange(units []unit, room int64) (left int64, saved bool) {
	type move struct {
		unit, to int
		bytes    int64
		saving   float64
	}
	var moves []move
	for i := range units {
		u, is := &units[i], units[i].now()
		for to, o := range u.options {
			if to != u.chosen {
				moves = append(moves, move{i, to, o.bytes - is.bytes, is.cost - o.cost})
			}
		}
	}
	// Shrinking moves by the bytes that they free, each with the cheapest of those that free as many or more: the partner of a move that
	// needs so many is found by a search. Moves of the same unit do not go together; the runner-up of another unit does for those.
	shrink := slices.DeleteFunc(slices.Clone(moves), func(m move) bool { return m.bytes >= 0 })
	slices.SortStableFunc(shrink, func(a, b move) int { return cmp.Compare(a.bytes, b.bytes) })
	type pair struct{ first, second int } // the best so far, and the best of another unit; -1: none
	best := make([]pair, len(shrink))
	now := pair{-1, -1}
	for i, m := range shrink {
		switch {
		case now.first < 0 || m.saving > shrink[now.first].saving:
			if now.first >= 0 && shrink[now.first].unit != m.unit {
				now.second = now.first
			}
			now.first = i
		case m.unit != shrink[now.first].unit && (now.second < 0 || m.saving > shrink[now.second].saving):
			now.second = i
		}
		best[i] = now
	}
	gain, one, two := 0.0, -1, -1
	for i, m := range moves {
		if m.saving <= 0 {
			continue
		}
		if m.bytes <= room {
			if m.saving > gain {
				gain, one, two = m.saving, i, -1
			}
			continue
		}
		at, _ := slices.BinarySearchFunc(shrink, room-m.bytes+1, func(s move, free int64) int { return cmp.Compare(s.bytes, free) })
		if at == 0 {
			continue
		}
		partner := best[at-1].first
		if shrink[partner].unit == m.unit {
			if partner = best[at-1].second; partner < 0 {
				continue
			}
		}
		if s := m.saving + shrink[partner].saving; s > gain {
			gain, one, two = s, i, partner
		}
	}
	if one < 0 {
		return room, false
	}
	units[moves[one].unit].chosen = moves[one].to
	room -= moves[one].bytes
	if two >= 0 {
		units[shrink[two].unit].chosen = shrink[two].to
		room -= shrink[two].bytes
	}
	return room, true
}
