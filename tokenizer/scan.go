package tokenizer

import "unicode/utf8"

// scanner returns where the match ends that starts at s[at]. The patterns below match at every place, so that their
// matches tile the text.
type scanner func(s string, at int) int

// The split patterns that most models use, with a hand-written scanner each, some twenty times as fast as a regular
// expression. A pattern that differs in one character is another pattern.
const (
	gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

	cl100kPattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}` +
		`| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

	qwen2Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` +
		`| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

	o200kPattern = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

var scanners = map[string]scanner{
	gpt2Pattern:   scanGPT2,
	cl100kPattern: func(s string, at int) int { return scanCL100K(s, at, 3) },
	qwen2Pattern:  func(s string, at int) int { return scanCL100K(s, at, 1) },
	o200kPattern:  scanO200K,
}

// run returns where the run of characters in any of the classes ends that starts at s[at], after at most limit of them.
func run(s string, at int, classes class, limit int) int {
	for ; at < len(s) && limit > 0; limit-- {
		c, n := classAt(s, at)
		if c&classes == 0 {
			break
		}
		at += n
	}
	return at
}

const unlimited = int(^uint(0) >> 1)

func scanGPT2(s string, at int) int {
	if n := contraction(s[at:], false); n > 0 {
		return at + n
	}
	start := at
	if s[at] == ' ' {
		start++
	}
	if start < len(s) {
		// other is a class of its own here, so a run is of the class that its first character has.
		if c, _ := classAt(s, start); c&space == 0 {
			return run(s, start, c&(letter|number|other), unlimited)
		}
	}
	return blanks(s, at)
}

func scanCL100K(s string, at, digits int) int {
	if n := contraction(s[at:], true); n > 0 {
		return at + n
	}
	c, n := classAt(s, at)
	if c&letter != 0 {
		return run(s, at+n, letter, unlimited)
	}
	if c&number != 0 {
		return run(s, at, number, digits)
	}
	if c&newline == 0 {
		if end := run(s, at+n, letter, unlimited); end > at+n {
			return end
		}
	}
	return symbols(s, at, newline)
}

func scanO200K(s string, at int) int {
	c, n := classAt(s, at)
	if c&number != 0 {
		return run(s, at, number, 3)
	}
	prefix := c&(letter|newline) == 0
	for _, camel := range []func(string, int) int{lowerWord, upperWord} {
		end := at
		if prefix {
			end = camel(s, at+n)
		}
		if end <= at+n || !prefix {
			end = camel(s, at)
		}
		if end > at {
			return end + contraction(s[end:], true)
		}
	}
	return symbols(s, at, newline|slash)
}

// lowerWord matches [upper]*[lower]+, or returns at. Some letters are in both classes: those at the end of the first run
// are given back to the second.
func lowerWord(s string, at int) int {
	both := at
	end := at
	for end < len(s) {
		c, n := classAt(s, end)
		if c&upper == 0 {
			break
		}
		end += n
		if c&lower != 0 {
			both = end
		}
	}
	if stop := run(s, end, lower, unlimited); stop > end {
		return stop
	}
	return both
}

// upperWord matches [upper]+[lower]*, or returns at.
func upperWord(s string, at int) int {
	end := run(s, at, upper, unlimited)
	if end == at {
		return at
	}
	return run(s, end, lower, unlimited)
}

// symbols matches ` ?[^\s\p{L}\p{N}]+` and characters of the classes in tail behind it, or else white space.
func symbols(s string, at int, tail class) int {
	start := at
	if s[at] == ' ' {
		start++
	}
	if end := run(s, start, other, unlimited); end > start {
		return run(s, end, tail, unlimited)
	}
	end := run(s, at, space, unlimited)
	for i := end; i > at; i-- {
		if s[i-1] == '\n' || s[i-1] == '\r' {
			return i
		}
	}
	return blanks(s, at)
}

// blanks matches `\s+(?!\S)|\s+`: a run of white space, but for its last character if more than white space follows.
func blanks(s string, at int) int {
	end := run(s, at, space, unlimited)
	if end == len(s) {
		return end
	}
	_, n := utf8.DecodeLastRuneInString(s[at:end])
	if end-n > at {
		return end - n
	}
	return end
}

// contraction returns the length of 's 't 're 've 'm 'll 'd at the start of s. Under fold, capitals count too, and the
// long s, which is an s to Unicode.
func contraction(s string, fold bool) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	var bit byte // what to fold capitals by
	if fold {
		bit = 0x20
		if len(s) > 2 && s[1:3] == "\u017f" {
			return 3
		}
	}
	switch s[1] | bit {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(s) < 3 {
		return 0
	}
	switch [2]byte{s[1] | bit, s[2] | bit} {
	case [2]byte{'r', 'e'}, [2]byte{'v', 'e'}, [2]byte{'l', 'l'}:
		return 3
	}
	return 0
}
