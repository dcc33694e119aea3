package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// spNormalizer is SentencePiece's normalizer: its character map, spaces as U+2581 with one in front, and of several
// spaces one.
type spNormalizer struct {
	*spModel
	chars      *charsMap // nil for none
	user       *trie     // user-defined pieces, which the map leaves alone
	everywhere bool      // a space in front of every stretch of text, not the first alone
}

func (n *spNormalizer) normalize(s string, first bool) (string, bool, error) {
	if n.removeExtra {
		for s != "" {
			to, length := n.next(s)
			if to != " " {
				break
			}
			s = s[length:]
		}
	}
	if s == "" {
		return "", first, nil
	}
	mark := " "
	if n.escape {
		mark = spaceMark
	}
	var b strings.Builder
	if n.dummyPrefix && (first || n.everywhere) {
		b.WriteString(mark)
	}
	spaced := n.removeExtra
	for s != "" {
		to, length := n.next(s)
		s = s[length:]
		if spaced {
			to = strings.TrimLeft(to, " ")
		}
		if to != "" {
			spaced = n.removeExtra && strings.HasSuffix(to, " ")
			b.WriteString(strings.ReplaceAll(to, " ", mark))
		}
	}
	out := b.String()
	if n.removeExtra {
		for strings.HasSuffix(out, mark) {
			out = strings.TrimSuffix(out, mark)
		}
	}
	return out, first, nil
}

// next returns what the beginning of s becomes, and its length: a user-defined piece, the longest string of the
// character map, or one character.
func (n *spNormalizer) next(s string) (to string, length int) {
	if length, _ := n.user.longest(s); length > 0 {
		return s[:length], length
	}
	if n.chars != nil {
		if length, to := n.chars.longest(s); length > 0 {
			return to, length
		}
	}
	_, length = utf8.DecodeRuneInString(s)
	return s[:length], length
}

// spDecoder undoes the normalizer: marks are spaces, but for the first of a text.
type spDecoder struct {
	*spModel
	unknown string          // the unknown piece
	control map[string]bool // control pieces, shown as they are
	started bool
}

func (d *spDecoder) push(token string, emit emitter) error {
	if d.control[token] {
		return emit(token)
	}
	if _, ok := byteToken(token); ok {
		d.started = true
		return emit(token)
	}
	if token == d.unknown {
		d.started = true
		return emit(d.unkSurface)
	}
	if !d.started && (d.dummyPrefix || d.removeExtra) {
		rest, cut := strings.CutPrefix(token, spaceMark)
		token = rest
		d.started = cut && !d.removeExtra
	}
	d.started = d.started || token != ""
	return emit(strings.ReplaceAll(token, spaceMark, " "))
}

func (*spDecoder) flush(emitter) error { return nil }
