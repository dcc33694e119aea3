package tokenizer

// merger joins the symbols of one word, kept in a linked list, by a heap of the joints that have a rank.
type merger struct {
	symbols []symbol
	heap    []joint
}

type symbol struct {
	id         int32 // -1 for a character that has none
	start, end int32 // in the word, where the ranks are of strings
	prev, next int32
	frozen     bool // never merged
	gone       bool // part of the one before
}

// joint is a possible merge of the symbol at left with its neighbour: the lowest rank first, then the leftmost.
type joint struct {
	merge
	left int32
}

func (a joint) before(b joint) bool {
	return a.rank < b.rank || a.rank == b.rank && a.left < b.left
}

func (m *merger) reset() {
	m.symbols, m.heap = m.symbols[:0], m.heap[:0]
}

func (m *merger) add(s symbol) {
	n := int32(len(m.symbols))
	s.prev, s.next = n-1, n+1
	m.symbols = append(m.symbols, s)
}

// addBytes adds the tokens of the bytes of s, or none if one has no token.
func (m *merger) addBytes(table *[256]int32, s string) bool {
	for i := range len(s) {
		if table[s[i]] < 0 {
			return false
		}
	}
	for i := range len(s) {
		m.add(symbol{id: table[s[i]]})
	}
	return true
}

// merge joins while rank knows a pair.
func (m *merger) merge(rank func(left, right *symbol) (merge, bool)) {
	end := int32(len(m.symbols))
	try := func(left, right int32) {
		if left < 0 || right == end {
			return
		}
		if to, ok := rank(&m.symbols[left], &m.symbols[right]); ok {
			m.push(joint{to, left})
		}
	}
	for i := range end {
		try(i, i+1)
	}
	for len(m.heap) > 0 {
		j := m.pop()
		left := &m.symbols[j.left]
		if left.gone || left.next == end {
			continue
		}
		right := &m.symbols[left.next]
		// The joint may be of symbols that have changed since.
		if now, ok := rank(left, right); !ok || now.id != j.id {
			continue
		}
		left.id, left.end, right.gone = j.id, right.end, true
		left.next = right.next
		if left.next < end {
			m.symbols[left.next].prev = j.left
		}
		try(left.prev, j.left)
		try(j.left, left.next)
	}
}

func (m *merger) push(j joint) {
	m.heap = append(m.heap, j)
	h := m.heap
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(h[up]) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (m *merger) pop() joint {
	h := m.heap
	top := h[0]
	last := len(h) - 1
	h[0] = h[last]
	h = h[:last]
	m.heap = h
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			return top
		}
		if down+1 < last && h[down+1].before(h[down]) {
			down++
		}
		if !h[down].before(h[i]) {
			return top
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
}
