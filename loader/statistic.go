package loader

import (
	"math"

	"nibble/quant"
)

// Some faults show only in the codes. Weights lie about zero, so the mean of a group's codes lies near the code of zero.
// What follows rests on that and keeps a margin, so that neither lopsided nor flat weights are taken for faults.

// codes sums up the groups of a module of 4 bits. Groups whose codes are all equal say nothing and are left out.
type codes struct {
	groups int
	both   int     // groups that use code 0 and code 15
	square float64 // Σ over groups of (mean − 8)²
	noise  float64 // Σ over groups of the variance of that mean, were the codes independent

	inner     int     // groups whose zero point is neither 0 nor 15
	low, high int     // of those, with a zero point below 8, and from there on
	stored    float64 // Σ over inner groups of |mean − Z|
	flipped   float64 // Σ of |mean − Z'|, Z' = Z with the top bit flipped
	fixed     float64 // Σ of |mean − 7.5|
	ones      int     // groups with a zero point of 1
}

// add accounts for the groups of a strip in natural order. Rows of 2^24 columns and more would overflow its sums.
func (c *codes) add(m *quant.Matrix) {
	groups := m.Groups()
	for slot := range m.N * groups {
		row, g := slot/groups, slot%groups
		lo, hi := row*m.K+g*m.Group, row*m.K+min((g+1)*m.Group, m.K)
		var sums uint64 // Σ q, and Σ q² above it
		var seen uint64 // bit q for every code
		for _, q := range m.Codes[lo:hi] {
			sums += uint64(q) | uint64(q)*uint64(q)<<32
			seen |= 1 << (q & 15)
		}
		if m.Zero == quant.Integer && m.Zeros[slot] == 1 {
			c.ones++
		}
		if seen&(seen-1) == 0 {
			continue
		}
		c.groups++
		if seen&1 == 1 && seen>>15 == 1 {
			c.both++
		}
		n := float64(hi - lo)
		mean := float64(uint32(sums)) / n
		c.square += float64((mean - 8) * (mean - 8))
		c.noise += float64((float64(sums>>32)/n - float64(mean*mean)) / n)
		if m.Zero == quant.Integer {
			c.addZero(mean, m.Zeros[slot])
		}
	}
}

func (c *codes) addZero(mean float64, z uint8) {
	if z == 0 || z == 15 {
		return // one-sided weights have these, and a signed 0 or −1 looks the same
	}
	c.inner++
	if z < 8 {
		c.low++
	} else {
		c.high++
	}
	c.stored += math.Abs(mean - float64(z))
	c.flipped += math.Abs(mean - float64(z^8))
	c.fixed += math.Abs(mean - 7.5)
}

// signed reports whether the zero points are signed numbers where unsigned ones belong: as they are they miss the means
// of their groups by most of half the range, on either side, and with the top bit flipped they follow them more closely
// than a constant does. Weights of one sign in some groups and of the other in the rest can do the first, not the second;
// only if all but a few lie three deviations off zero do they do both.
func (c *codes) signed() bool {
	const few = 4
	return c.low >= few && c.high >= few && c.stored-c.flipped > 6*float64(c.inner) && c.flipped < 0.6*c.fixed
}

// asymmetric reports whether the codes are those of an asymmetric grid, of which the zero points are not stored: nearly
// every group uses both ends of the range, as a grid fitted to a group's extremes does, and the means of the groups are
// further from the middle than chance and a symmetric grid, clipped or not, put them.
func (c *codes) asymmetric() bool {
	n := float64(c.groups)
	return c.groups >= 16 && float64(c.both) >= 0.9*n &&
		c.square > 0.75*0.75*n && c.square > 1.7*1.7*c.noise
}
