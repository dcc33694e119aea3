package runtime

import (
	"slices"

	"nibble/internal/kernel"
)

// columns say how the columns of a matrix are divided into blocks for the kernels: runs of at most kernel.WidestBlock, each
// of one group of weights, padded to a multiple of kernel.PanelStep. Matrices of the same division share one.
type columns struct {
	k      int
	groups int // that have columns
	padded int // columns with the padding
	spans  []span
	blocks []kernel.Block // the same for the kernels
}

// span is a block: n columns of a group from the matrix' column lo on, which stand from at on in the padded order.
type span struct{ lo, n, at, group int }

// end is where the padding of a block ends.
func (s span) end() int { return s.at + (s.n+kernel.PanelStep-1)/kernel.PanelStep*kernel.PanelStep }

// newColumns divides k columns of groups that start at starts[i] and end at starts[i+1].
func newColumns(starts []int) *columns {
	c := &columns{k: starts[len(starts)-1]}
	for g := range len(starts) - 1 {
		for lo := starts[g]; lo < starts[g+1]; lo += kernel.WidestBlock {
			n := min(kernel.WidestBlock, starts[g+1]-lo)
			s := span{lo, n, c.padded, g}
			c.spans = append(c.spans, s)
			b := kernel.Block{Steps: int32((s.end() - s.at) / kernel.PanelStep)}
			if lo == starts[g] {
				b.Begins = -1
				c.groups++
			}
			c.blocks = append(c.blocks, b)
			c.padded = s.end()
		}
	}
	return c
}

// uniform returns the starts of groups of the same size.
func uniform(k, group int) []int {
	var starts []int
	for lo := 0; lo < k; lo += group {
		starts = append(starts, lo)
	}
	return append(starts, k)
}

// pad copies a row of k elements to its padded places; what is between them stays.
func pad[T any](c *columns, dst, src []T) {
	for _, s := range c.spans {
		copy(dst[s.at:s.at+s.n], src[s.lo:])
	}
}

// share returns the columns that the model already has and that are the same, or adds them.
func (m *Model) share(c *columns) *columns {
	for _, have := range m.columns {
		if slices.Equal(have.spans, c.spans) && slices.Equal(have.blocks, c.blocks) {
			return have
		}
	}
	m.columns = append(m.columns, c)
	return c
}
