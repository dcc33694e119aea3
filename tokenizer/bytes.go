package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// byteAlphabet is the character that stands for each byte, and byteOf the way back, -1 for other characters.
var byteAlphabet, byteOf = func() (to [256]rune, from [324]int16) {
	for r := range from {
		from[r] = -1
	}
	odd := rune(256)
	for b := range to {
		switch {
		case '!' <= b && b <= '~', 0xa1 <= b && b <= 0xac, 0xae <= b:
			to[b] = rune(b)
		default:
			to[b] = odd
			odd++
		}
		from[to[b]] = int16(b)
	}
	return to, from
}()

// spellBytes writes a text in the alphabet of bytes.
func spellBytes(s string) string {
	var b strings.Builder
	b.Grow(2 * len(s))
	for i := range len(s) {
		b.WriteRune(byteAlphabet[s[i]])
	}
	return b.String()
}

// appendBytes appends the bytes that a token of the alphabet stands for. One with any other character is kept as it is.
func appendBytes(dst []byte, token string) []byte {
	start := len(dst)
	for _, r := range token {
		if int(r) >= len(byteOf) || byteOf[r] < 0 {
			return append(dst[:start], token...)
		}
		dst = append(dst, byte(byteOf[r]))
	}
	return dst
}

// appendLossy appends raw as UTF-8, each longest beginning of a character that does not go on as U+FFFD.
func appendLossy(dst, raw []byte) []byte {
	for len(raw) > 0 {
		r, n := utf8.DecodeRune(raw)
		if r == utf8.RuneError && n == 1 {
			n = beginning(raw)
		}
		dst = utf8.AppendRune(dst, r)
		raw = raw[n:]
	}
	return dst
}

// beginning returns the length of the longest beginning of a character at the start of raw, at least 1.
func beginning(raw []byte) int {
	for n := min(3, len(raw)); n > 1; n-- {
		if !utf8.FullRune(raw[:n]) {
			return n
		}
	}
	return 1
}

// unfinished returns how many bytes at the end of raw may become a character when more come.
func unfinished(raw []byte) int {
	for n := min(3, len(raw)); n > 0; n-- {
		if tail := raw[len(raw)-n:]; utf8.RuneStart(tail[0]) && !utf8.FullRune(tail) {
			return n
		}
	}
	return 0
}
