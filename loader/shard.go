package loader

import (
	"fmt"
	"slices"

	"nibble/hf"
)

// Tensor parallelism: vLLM cuts projections into the heads and the MLP by rows (column-parallel: its ranks hold columns
// of the transposed matrix), projections out of them by columns (row-parallel), and the head by rows.

// rowParallel reports whether ranks hold columns of a module's matrix.
func rowParallel(r hf.Role) bool { return r == hf.O || r == hf.Down }

// mlp reports whether a side of the module is the width of a dense MLP, which --pad-mlp can enlarge.
func mlp(m *Module) bool {
	return m.Expert < 0 && (m.Role == hf.Gate || m.Role == hf.Up || m.Role == hf.GateUp || m.Role == hf.Down)
}

// share returns the rows and columns of a module that one rank holds. ok is false if they cannot be cut evenly.
func (c *check) share(m *Module) (n, k int, ok bool) {
	r := c.ranks
	switch {
	case r == 1, m.Embed:
		return m.N, m.K, true
	case rowParallel(m.Role):
		return m.N, m.K / r, m.K%r == 0
	case m.Role == hf.QKV && c.headsKnown():
		q := c.Arch.Heads * c.Arch.HeadDim
		kv, even := c.kvShare((m.N - q) / 2)
		return q/r + 2*kv, m.K, q%r == 0 && even
	case (m.Role == hf.K || m.Role == hf.V) && c.headsKnown():
		n, even := c.kvShare(m.N)
		return n, m.K, even
	}
	return m.N / r, m.K, m.N%r == 0
}

func (c *check) headsKnown() bool { return c.Arch != nil && c.Arch.KVHeads > 0 && c.Arch.HeadDim > 0 }

// kvShare returns one rank's rows of a key or value projection of n rows: whole heads, of which several ranks hold the
// same if there are fewer heads than ranks.
func (c *check) kvShare(n int) (int, bool) {
	heads := c.Arch.KVHeads
	if heads < c.ranks {
		return n / heads, c.ranks%heads == 0
	}
	return n / c.ranks, heads%c.ranks == 0
}

// cuts reports what cannot be spread over the ranks evenly: vLLM asserts that heads and MLP width divide, in float too,
// so that leaving those modules in float cures nothing. It pads a float vocabulary.
func (c *check) cuts() {
	if c.ranks == 1 {
		return
	}
	if c.headsKnown() && c.Arch.Heads%c.ranks != 0 {
		c.hard("", fmt.Sprintf("%d attention heads cannot be spread over %d ranks", c.Arch.Heads, c.ranks), "fewer ranks")
	}
	c.quantized(func(m *Module) {
		if _, _, ok := c.share(m); ok {
			return
		}
		side, size := "rows", m.N
		if rowParallel(m.Role) {
			side, size = "columns", m.K
		}
		rule := fmt.Sprintf("%d %s cannot be spread over %d ranks", size, side, c.ranks)
		switch {
		case m.Head:
			c.shape(m, rule, "fewer ranks")
		case mlp(m):
			c.hard(m.Name, rule, "--pad-mlp auto, or fewer ranks")
		case c.headsKnown() && (m.Role == hf.K || m.Role == hf.V || m.Role == hf.QKV):
			c.hard(m.Name, fmt.Sprintf("%d key/value heads cannot be spread over %d ranks", c.Arch.KVHeads, c.ranks), "fewer ranks")
		default:
			c.hard(m.Name, rule, "fewer ranks")
		}
	})
}

// rows returns the sum of the rows of a matrix that one rank holds; ok is false if a part cannot be cut.
func (c *check) rows(m matrix) (sum int, ok bool) {
	for _, p := range m.parts {
		n, _, even := c.share(p)
		if !even {
			return 0, false
		}
		sum += n
	}
	return sum, true
}

// perRank ends a message about what one of several ranks holds.
func (c *check) perRank() string {
	if c.ranks == 1 {
		return ""
	}
	return fmt.Sprintf(" on each of %d ranks", c.ranks)
}

// proposals lists the group sizes that a fix may name.
func proposals(t Target, format string) []int {
	switch {
	case t == None, t == VLLMCPU && (format == awq || format == compressed):
		return []int{128, 64, 32, 16, 8}
	case t == Transformers:
		return []int{128, 64, 32, 16}
	}
	return []int{128, 64, 32}
}

// regroup returns the fix for a group size: the largest one that fits all quantized modules, if any does.
func (c *check) regroup() []string {
	for _, g := range c.groups {
		fits := !slices.ContainsFunc(c.Modules, func(m Module) bool {
			_, k, ok := c.share(&m)
			return m.Spec != nil && ok && k%g != 0
		})
		if fits {
			return []string{fmt.Sprintf("--group %d", g)}
		}
	}
	return nil
}
