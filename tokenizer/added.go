package tokenizer

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is an entry of added_tokens: text that is always one token.
type addedToken struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized *bool  `json:"normalized"` // by default the opposite of Special
	Special    bool   `json:"special"`
}

// tokenSet finds added tokens in a text.
type tokenSet struct {
	trie   *trie // nil: no tokens
	starts [256]bool
	tokens map[int32]addedToken
}

// add makes the set find a token under the given spelling.
func (s *tokenSet) add(spelling string, token addedToken) {
	if spelling == "" {
		return
	}
	if s.trie == nil {
		s.trie, s.tokens = newTrie(), map[int32]addedToken{}
	}
	s.trie.add(spelling, int32(token.ID))
	s.starts[spelling[0]] = true
	s.tokens[int32(token.ID)] = token
}

// split cuts a text at the tokens of the set: the leftmost first, of those the longest. Empty stretches are left out.
func (s *tokenSet) split(text string, first bool) iter.Seq[piece] {
	return func(yield func(piece) bool) {
		done := 0 // all before is yielded
		for at := 0; at < len(text); {
			if s.trie == nil {
				break
			}
			if !s.starts[text[at]] {
				at++
				continue
			}
			length, id := s.trie.longest(text[at:])
			if length == 0 {
				at++
				continue
			}
			start, stop := at, at+length
			at = stop
			token := s.tokens[id]
			if token.SingleWord && (endsInWord(text[:start]) || startsWithWord(text[stop:])) {
				continue
			}
			if token.LStrip {
				start = max(done, len(strings.TrimRightFunc(text[:start], unicode.IsSpace)))
			}
			if token.RStrip {
				stop = len(text) - len(strings.TrimLeftFunc(text[stop:], unicode.IsSpace))
			}
			if done < start && !yield(piece{text[done:start], -1, first && done == 0}) {
				return
			}
			if !yield(piece{text[start:stop], id, false}) {
				return
			}
			done = stop
		}
		if done < len(text) {
			yield(piece{text[done:], -1, first && done == 0})
		}
	}
}

func startsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}

func endsInWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

// isWord is \w of Unicode's regular expressions (UTS 18): alphabetic, marks, decimal digits, connectors, joiners.
func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return r == '_' || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z'
	}
	return unicode.IsOneOf(wordTables, r)
}

var wordTables = []*unicode.RangeTable{unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc,
	unicode.Other_Alphabetic, unicode.Join_Control}
