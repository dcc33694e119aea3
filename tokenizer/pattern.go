package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

const (
	maxReplaced  = 256 << 20             // bytes of a text after replacements
	maxPattern   = 16 << 10              // bytes of a regular expression
	matchTimeout = 2 * time.Second       // for one match
	findTimeout  = 10 * time.Second      // for all matches in a stretch of text
	slowness     = 10 * time.Microsecond // for a byte of a text of many stretches, on top of that
)

// patternSpec is how tokenizer.json writes what to look for.
type patternSpec struct {
	String *string
	Regex  *string
}

// slow reports whether a regular expression is looked for.
func (s patternSpec) slow() bool { return s.Regex != nil && scanners[*s.Regex] == nil }

// pattern finds stretches of text: by a hand-written scanner, a fixed string or a regular expression.
type pattern struct {
	scan  scanner
	fixed string
	re    *regexp2.Regexp
}

func newPattern(spec patternSpec) (*pattern, error) {
	switch {
	case spec.String != nil && spec.Regex == nil:
		return &pattern{fixed: *spec.String}, nil
	case spec.Regex != nil && spec.String == nil:
		if scan, ok := scanners[*spec.Regex]; ok {
			return &pattern{scan: scan}, nil
		}
		re, err := compile(*spec.Regex)
		return &pattern{re: re}, err
	}
	return nil, errors.New("a pattern is one of String and Regex")
}

func compile(expr string) (*regexp2.Regexp, error) {
	translated, err := translate(expr)
	if err != nil {
		return nil, fmt.Errorf("regular expression %q: %w", clip(expr), err)
	}
	re, err := regexp2.Compile(translated, regexp2.Multiline)
	if err != nil {
		return nil, fmt.Errorf("regular expression %q: %w", clip(expr), err)
	}
	re.MatchTimeout = matchTimeout
	return re, nil
}

// find calls found for each match from left to right. As in Oniguruma, no empty match follows a match directly.
func (p *pattern) find(s string, found func(start, end int)) error {
	switch {
	case p.scan != nil:
		for at := 0; at < len(s); {
			end := p.scan(s, at)
			found(at, end)
			at = end
		}
		return nil
	case p.re == nil:
		for at := 0; p.fixed != ""; {
			i := strings.Index(s[at:], p.fixed)
			if i < 0 {
				break
			}
			found(at+i, at+i+len(p.fixed))
			at += i + len(p.fixed)
		}
		return nil
	}
	return p.findRegexp(s, found)
}

func (p *pattern) findRegexp(s string, found func(start, end int)) error {
	runes := []rune(s)
	at, offset := 0, 0 // the same place, in runes and in bytes
	advance := func(to int) int {
		for ; at < to; at++ {
			offset += utf8.RuneLen(runes[at])
		}
		return offset
	}
	last := -1
	deadline := time.Now().Add(findTimeout)
	late := false
	err := p.re.FindRunesMatches(runes, 0, func(m regexp2.MatchView) bool {
		index, length, _ := m.GroupRange(0)
		if length == 0 && index == last {
			return true
		}
		start := advance(index)
		last = index + length
		found(start, advance(last))
		late = time.Now().After(deadline)
		return !late
	})
	if err == nil && late {
		err = fmt.Errorf("no end after %v", findTimeout)
	}
	if err != nil {
		return fmt.Errorf("tokenizer: regular expression %q: %w", clip(p.re.String()), err)
	}
	return nil
}

// replace puts content in the place of every match. moved says that what the text began with is gone.
func (p *pattern) replace(s, content string) (out string, moved bool, err error) {
	var b strings.Builder
	done := 0
	long := false
	err = p.find(s, func(start, end int) {
		if long = b.Len() > maxReplaced; long {
			return
		}
		moved = moved || start == 0 && end > 0 && content == ""
		b.WriteString(s[done:start])
		b.WriteString(content)
		done = end
	})
	if long {
		return "", false, fmt.Errorf("tokenizer: replacements make more than %d MB", maxReplaced>>20)
	}
	b.WriteString(s[done:])
	return b.String(), moved, err
}

// What \w is to Oniguruma inside a character class: alphabetic characters, marks, decimal digits and connectors. By
// itself it is the numbers of Latin-1 too.
const (
	word = `\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}` + "\u24b6-\u24e9" +
		"\U0001f130-\U0001f149\U0001f150-\U0001f169\U0001f170-\U0001f189"
	loneWord = word + "\u00b2\u00b3\u00b9\u00bc-\u00be"
)

// translate rewrites a regular expression of Oniguruma, in which tokenizer.json writes them, for regexp2, and refuses
// what the two understand differently.
func translate(expr string) (string, error) {
	if len(expr) > maxPattern {
		return "", fmt.Errorf("over %d bytes", maxPattern)
	}
	var b strings.Builder
	class := false
	for i := 0; i < len(expr); i++ {
		rest := expr[i:]
		switch c := expr[i]; {
		case c == '\\' && len(rest) > 1:
			i++
			switch e := expr[i]; {
			case e == 'w' && class:
				b.WriteString(word)
			case e == 'w':
				b.WriteString("[" + loneWord + "]")
			case e == 'W' && !class:
				b.WriteString("[^" + loneWord + "]")
			case strings.IndexByte("WhHRXKyYNOgG", e) >= 0, !class && (e == 'b' || e == 'B'), strings.HasPrefix(rest, `\x{`):
				return "", fmt.Errorf(`\%c is not supported here`, e)
			case (e == 'p' || e == 'P') && strings.HasPrefix(rest[2:], "{") && strings.Contains(rest, "}"):
				end := strings.Index(rest, "}")
				b.WriteString(rest[:end+1])
				i += end - 1
			default:
				b.WriteString(rest[:2])
			}
			continue
		case class && (c == '[' || strings.HasPrefix(rest, "&&")):
			return "", errors.New("sets within character classes are not supported")
		case class && c == ']':
			class = false
		case !class && c == '[':
			class = true
			// A bracket in the first place stands for itself.
			open := len("[")
			open += len(rest[open:]) - len(strings.TrimPrefix(rest[open:], "^"))
			open += len(rest[open:]) - len(strings.TrimPrefix(rest[open:], "]"))
			b.WriteString(rest[:open])
			i += open - 1
			continue
		case !class && (strings.HasPrefix(rest, "{,") || strings.HasPrefix(rest, "}+")):
			return "", errors.New("the quantifiers {,n} and {n}+ are not supported")
		case !class && strings.HasPrefix(rest, "(?") && !plainGroup(rest):
			return "", fmt.Errorf("group %q is not supported", clip(rest))
		}
		b.WriteByte(expr[i])
	}
	return b.String(), nil
}

// plainGroup reports whether a group is of a kind that means the same everywhere.
func plainGroup(s string) bool {
	for _, kind := range []string{"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?i)", "(?-i:", "(?-i)", "(?#"} {
		if strings.HasPrefix(s, kind) {
			return true
		}
	}
	return false
}
