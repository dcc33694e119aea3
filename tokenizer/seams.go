package tokenizer

import (
	"unicode/utf8"
)

// seams knows the places in a text that no merge can bridge: between two characters that never meet in a token. A
// tokenizer without a pre-tokenizer takes the whole text for one word; cut at its seams it has the same tokens, and most
// of its parts are known from before. A hash stands for each pair that does meet, so some seams go unseen.
type seams struct {
	tokens map[string]int32 // characters outside of them may be joined by being unknown
	meets  [seamHashes]bool
}

const seamHashes = 1 << 16

func seamHash(left, right rune) uint32 {
	return (uint32(left)*0x9e3779b1 ^ uint32(right)*0x85ebca6b) >> 16 % seamHashes
}

// join notes that two strings may become one.
func (s *seams) join(left, right string) {
	l, _ := utf8.DecodeLastRuneInString(left)
	r, _ := utf8.DecodeRuneInString(right)
	s.meets[seamHash(l, r)] = true
}

// cut is a pre-tokenizer.
func (s *seams) cut(dst []piece, p piece) ([]piece, error) {
	start := 0
	left, leftKnown := rune(0), false
	for i, r := range p.text {
		_, known := s.tokens[p.text[i:i+utf8.RuneLen(r)]]
		if i > 0 && known && leftKnown && !s.meets[seamHash(left, r)] {
			dst = appendPart(dst, p, start, i)
			start = i
		}
		left, leftKnown = r, known
	}
	return appendPart(dst, p, start, len(p.text)), nil
}
