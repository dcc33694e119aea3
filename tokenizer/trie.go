package tokenizer

// trie is a set of byte strings with an id each. Its edges are one map from node and byte to node; the root is node 0.
type trie struct {
	edges map[uint64]int32
	ids   []int32 // by node, -1 where no string ends
}

func newTrie() *trie {
	return &trie{edges: map[uint64]int32{}, ids: []int32{-1}}
}

// add gives a string an id; a later one replaces it.
func (t *trie) add(s string, id int32) {
	node := int32(0)
	for i := range len(s) {
		edge := uint64(node)<<8 | uint64(s[i])
		next, ok := t.edges[edge]
		if !ok {
			next = int32(len(t.ids))
			t.edges[edge] = next
			t.ids = append(t.ids, -1)
		}
		node = next
	}
	t.ids[node] = id
}

// prefixes calls found for every string of the set that s starts with, shortest first.
func (t *trie) prefixes(s string, found func(length int, id int32)) {
	node := int32(0)
	for i := range len(s) {
		next, ok := t.edges[uint64(node)<<8|uint64(s[i])]
		if !ok {
			return
		}
		if node = next; t.ids[node] >= 0 {
			found(i+1, t.ids[node])
		}
	}
}

// longest returns the longest string of the set that s starts with, or length 0.
func (t *trie) longest(s string) (length int, id int32) {
	t.prefixes(s, func(n int, i int32) { length, id = n, i })
	return length, id
}
