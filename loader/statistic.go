package loader

import (
	"math"

	"nibble/quant"
)

// Some faults show only in the codes. Weights lie about zero, so the mean of a group's codes lies near the code of zero.
// What follows rests on that and keeps a margin, so that neither lopsided nor flat weights are taken for faults.

// codes sums up the groups of a module. Groups whose codes are all equal say nothing and are left out.
type codes struct {
	bits   int
	groups int
	both   int     // groups that use the first code and the last
	square float64 // Σ over groups of (mean − middle)²
	noise  float64 // Σ over groups of the variance of that mean, were the codes independent

	inner     int     // groups whose zero point is neither 0 nor the last code
	low, high int     // of those, with a zero point below the middle, and from there on
	stored    float64 // Σ over inner groups of |mean − Z|
	flipped   float64 // Σ of |mean − Z'|, Z' = Z with the top bit flipped
	fixed     float64 // Σ of |mean − (2^bits − 1)/2|, the middle of all codes
	ones      int     // groups with a zero point of 1
}

// add accounts for the groups of a strip in natural order.
func (c *codes) add(m *quant.Matrix) {
	c.bits = m.Bits
	top := uint8(1<<m.Bits - 1)
	groups := m.Groups()
	for slot := range m.N * groups {
		row, g := slot/groups, slot%groups
		lo, hi := row*m.K+g*m.Group, row*m.K+min((g+1)*m.Group, m.K)
		var sum, squares int
		first, last := top, uint8(0)
		for _, q := range m.Codes[lo:hi] {
			sum += int(q)
			squares += int(q) * int(q)
			first, last = min(first, q), max(last, q)
		}
		if m.Zero == quant.Integer && m.Zeros[slot] == 1 {
			c.ones++
		}
		if first == last {
			continue
		}
		c.groups++
		if first == 0 && last == top {
			c.both++
		}
		n := float64(hi - lo)
		mean := float64(sum) / n
		d := mean - float64(m.Mid())
		c.square += d * d
		c.noise += (float64(squares)/n - mean*mean) / n
		if m.Zero == quant.Integer {
			c.addZero(mean, m.Zeros[slot], top)
		}
	}
}

func (c *codes) addZero(mean float64, z, top uint8) {
	if z == 0 || z == top {
		return // one-sided weights have these, and a signed 0 or −1 looks the same
	}
	mid := top/2 + 1
	c.inner++
	if z < mid {
		c.low++
	} else {
		c.high++
	}
	c.stored += math.Abs(mean - float64(z))
	c.flipped += math.Abs(mean - float64(z^mid))
	c.fixed += math.Abs(mean - float64(top)/2)
}

// signed reports whether the zero points are signed numbers where unsigned ones belong: as they are they miss the means
// of their groups by most of half the range, on either side, and with the top bit flipped they follow them more closely
// than a constant does. Weights of one sign in some groups and of the other in the rest can do the first, not the second;
// only if all but a few lie three deviations off zero do they do both.
func (c *codes) signed() bool {
	const few = 4
	half := float64(int(1) << (c.bits - 1))
	return c.low >= few && c.high >= few &&
		c.stored-c.flipped > 0.75*half*float64(c.inner) && c.flipped < 0.6*c.fixed
}

// asymmetric reports whether the codes are those of an asymmetric grid, of which the zero points are not stored: nearly
// every group uses both ends of the range, as a grid fitted to a group's extremes does, and the means of the groups are
// further from the middle than chance and a symmetric grid, clipped or not, put them.
func (c *codes) asymmetric() bool {
	n := float64(c.groups)
	return c.groups >= 16 && float64(c.both) >= 0.9*n &&
		c.square > 0.75*0.75*n && c.square > 1.7*1.7*c.noise
}
