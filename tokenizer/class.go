package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is a set of properties of a character that split patterns ask for.
type class uint8

const (
	letter  class = 1 << iota // \p{L}
	number                    // \p{N}
	space                     // \s
	other                     // [^\s\p{L}\p{N}]
	upper                     // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
	lower                     // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
	newline                   // [\r\n]
	slash                     // /
)

// classAt returns the class and the length of the character at s[at].
func classAt(s string, at int) (class, int) {
	if b := s[at]; b < utf8.RuneSelf {
		return ascii[b], 1
	}
	r, n := utf8.DecodeRuneInString(s[at:])
	if r < 1<<16 {
		return plane()[r], n
	}
	return classOf(r), n
}

var ascii = func() (table [utf8.RuneSelf]class) {
	for r := range table {
		table[r] = classOf(rune(r))
	}
	return table
}()

// plane has the classes of the basic multilingual plane, where looking through Unicode's ranges would be slow.
var plane = sync.OnceValue(func() *[1 << 16]class {
	table := new([1 << 16]class)
	for r := range table {
		table[r] = classOf(rune(r))
	}
	return table
})

func classOf(r rune) class {
	var c class
	switch {
	case unicode.IsLetter(r):
		c = letter
	case unicode.IsNumber(r):
		c = number
	case unicode.IsSpace(r):
		c = space
	default:
		c = other
	}
	if unicode.In(r, unicode.Lu, unicode.Lt, unicode.Lm, unicode.Lo, unicode.M) {
		c |= upper
	}
	if unicode.In(r, unicode.Ll, unicode.Lm, unicode.Lo, unicode.M) {
		c |= lower
	}
	switch r {
	case '\r', '\n':
		c |= newline
	case '/':
		c |= slash
	}
	return c
}
