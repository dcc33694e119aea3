package tokenizer

import "slices"

// Around returns the tokens that Encode with special puts before and behind every text.
func (t *Tokenizer) Around() (before, after []int32) {
	for _, tpl := range t.post {
		before = slices.Concat(tpl.before, before)
		after = slices.Concat(after, tpl.after)
	}
	return before, after
}

// Special reports whether an id is a special token: one that stands for no text, such as BOS.
func (t *Tokenizer) Special(id int32) bool {
	return id >= 0 && int(id) < len(t.hidden) && t.hidden[id]
}
