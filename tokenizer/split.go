package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// What becomes of the matches of a Split.
const (
	isolated           = "Isolated"           // parts of their own
	removed            = "Removed"            // left out
	mergedWithPrevious = "MergedWithPrevious" // put to what comes before
	mergedWithNext     = "MergedWithNext"     // put to what comes behind
	contiguous         = "Contiguous"         // neighbouring matches are one part
)

// finder calls found for matches in s from left to right.
type finder func(s string, found func(start, end int)) error

// characters finds single characters.
func characters(is func(rune) bool) finder {
	return func(s string, found func(start, end int)) error {
		for i, r := range s {
			if is(r) {
				found(i, i+utf8.RuneLen(r))
			}
		}
		return nil
	}
}

// span is a stretch of text, a match or what lies between two.
type span struct {
	start, end int
	match      bool
}

// split cuts at the matches of find; invert takes what lies between them for the matches.
func split(find finder, behavior string, invert bool) (pretokenizer, error) {
	var arrange func([]span) []span
	switch behavior {
	case isolated:
		return func(dst []piece, p piece) ([]piece, error) {
			return cut(dst, p, find)
		}, nil
	case removed:
		arrange = unmatched
	case contiguous:
		arrange = joinEqual
	case mergedWithPrevious:
		arrange = joinPrevious
	case mergedWithNext:
		arrange = joinNext
	default:
		return nil, fmt.Errorf("behavior %q is not supported", clip(behavior))
	}
	return func(dst []piece, p piece) ([]piece, error) {
		var spans []span
		done := 0
		err := find(p.text, func(start, end int) {
			if done < start {
				spans = append(spans, span{done, start, invert})
			}
			spans = append(spans, span{start, end, !invert})
			done = end
		})
		if done < len(p.text) {
			spans = append(spans, span{done, len(p.text), invert})
		}
		for _, s := range arrange(spans) {
			dst = appendPart(dst, p, s.start, s.end)
		}
		return dst, err
	}, nil
}

// cut makes every match a part, and everything between two.
func cut(dst []piece, p piece, find finder) ([]piece, error) {
	done := 0
	err := find(p.text, func(start, end int) {
		dst = appendPart(dst, p, done, start)
		dst = appendPart(dst, p, start, end)
		done = end
	})
	return appendPart(dst, p, done, len(p.text)), err
}

func appendPart(dst []piece, p piece, start, end int) []piece {
	if start == end {
		return dst
	}
	return append(dst, piece{p.text[start:end], -1, p.first && start == 0})
}

func unmatched(spans []span) []span {
	kept := spans[:0]
	for _, s := range spans {
		if !s.match {
			kept = append(kept, s)
		}
	}
	return kept
}

func joinEqual(spans []span) []span {
	var joined []span
	previous := false
	for _, s := range spans {
		if n := len(joined); n > 0 && s.match == previous {
			joined[n-1].end = s.end
		} else {
			joined = append(joined, s)
		}
		previous = s.match
	}
	return joined
}

// joinPrevious gives a match to what precedes it, unless that is a match too.
func joinPrevious(spans []span) []span {
	var joined []span
	previous := false
	for _, s := range spans {
		if n := len(joined); n > 0 && s.match && !previous {
			joined[n-1].end = s.end
		} else {
			joined = append(joined, s)
		}
		previous = s.match
	}
	return joined
}

// joinNext gives a match to what follows it, unless that is a match too.
func joinNext(spans []span) []span {
	var joined []span
	for i, s := range spans {
		if n := len(joined); n > 0 && !s.match && spans[i-1].match {
			joined[n-1].end = s.end
		} else {
			joined = append(joined, s)
		}
	}
	return joined
}
