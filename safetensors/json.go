package safetensors

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth limits how deep unknown values may nest, as the JSON parser of the reference does.
const maxDepth = 127

// scanner reads JSON text, which is known to be UTF-8, value by value. Unlike encoding/json it shows its caller every
// key, also one that occurs twice, tells integers from other numbers, rejects lone surrogates, and knows where it is.
// Its errors are complete FormatErrors.
type scanner struct {
	text  []byte
	pos   int
	depth int

	file, tensor string // for errors: the file, the tensor that is being read
	base         int64  // for errors: offset of the text in the file
	kind         Kind   // for errors: what a breach of the grammar is
}

// offset returns the byte of the file that is read next.
func (s *scanner) offset() int64 { return s.base + int64(s.pos) }

func (s *scanner) fail(kind Kind, format string, args ...any) error {
	return &FormatError{s.file, s.tensor, s.offset(), kind, fmt.Sprintf(format, args...)}
}

// unexpected is the error for a next byte that is not what the grammar wants.
func (s *scanner) unexpected(want string) error {
	if s.pos == len(s.text) {
		return s.fail(s.kind, "JSON ends where %s should be", want)
	}
	return s.fail(s.kind, "JSON has %q where %s should be", s.text[s.pos], want)
}

// peek skips white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for ; s.pos < len(s.text); s.pos++ {
		switch c := s.text[s.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// end checks that only white space is left.
func (s *scanner) end() error {
	if s.peek(); s.pos < len(s.text) {
		return s.unexpected("the end")
	}
	return nil
}

// object reads an object and calls member, which reads the value, with each key.
func (s *scanner) object(member func(key []byte) error) error {
	return s.list('{', '}', "an object", func() error {
		s.peek()
		key, err := s.str()
		if err != nil {
			return err
		}
		if s.peek() != ':' {
			return s.unexpected("a colon")
		}
		s.pos++
		return member(key)
	})
}

// array reads an array and calls element to read each value.
func (s *scanner) array(element func() error) error { return s.list('[', ']', "an array", element) }

func (s *scanner) list(opening, closing byte, what string, item func() error) error {
	if s.peek() != opening {
		return s.unexpected(what)
	}
	if s.depth++; s.depth > maxDepth {
		return s.fail(s.kind, "JSON is nested more than %d deep", maxDepth)
	}
	s.pos++
	if s.peek() != closing {
		if err := item(); err != nil {
			return err
		}
		for s.peek() == ',' {
			s.pos++
			if err := item(); err != nil {
				return err
			}
		}
		if s.peek() != closing {
			return s.unexpected("a comma or the end of " + what)
		}
	}
	s.pos++
	s.depth--
	return nil
}

// str reads a string. The result is a part of the text unless the string has escapes.
func (s *scanner) str() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.unexpected("a string")
	}
	s.pos++
	begin := s.pos
	for ; s.pos < len(s.text); s.pos++ {
		switch c := s.text[s.pos]; {
		case c == '"':
			s.pos++
			return s.text[begin : s.pos-1], nil
		case c == '\\':
			return s.escaped(append([]byte(nil), s.text[begin:s.pos]...))
		case c < ' ':
			return nil, s.unexpected("a character of a string")
		}
	}
	return nil, s.unexpected("the end of a string")
}

// escaped reads the rest of a string, from its first backslash, behind what out holds already.
func (s *scanner) escaped(out []byte) ([]byte, error) {
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case c == '"':
			s.pos++
			return out, nil
		case c == '\\':
			r, err := s.escape()
			if err != nil {
				return nil, err
			}
			out = utf8.AppendRune(out, r)
		case c < ' ':
			return nil, s.unexpected("a character of a string")
		default:
			out = append(out, c)
			s.pos++
		}
	}
	return nil, s.unexpected("the end of a string")
}

// escape reads one escape sequence, or two that make a surrogate pair.
func (s *scanner) escape() (rune, error) {
	s.pos++ // the backslash
	if s.pos == len(s.text) {
		return 0, s.unexpected("an escape")
	}
	c := s.text[s.pos]
	s.pos++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		r, err := s.hex4()
		if err != nil || !utf16.IsSurrogate(r) {
			return r, err
		}
		if s.pos+1 < len(s.text) && s.text[s.pos] == '\\' && s.text[s.pos+1] == 'u' {
			s.pos += 2
			low, err := s.hex4()
			if err != nil {
				return 0, err
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				return r, nil
			}
		}
		return 0, s.fail(s.kind, "JSON has a lone surrogate")
	}
	s.pos--
	return 0, s.unexpected("an escape")
}

func (s *scanner) hex4() (rune, error) {
	if len(s.text)-s.pos >= 4 {
		if v, err := strconv.ParseUint(string(s.text[s.pos:s.pos+4]), 16, 16); err == nil {
			s.pos += 4
			return rune(v), nil
		}
	}
	return 0, s.fail(s.kind, "JSON lacks four hexadecimal digits after \\u")
}

// scalar returns the bytes up to the next white space or punctuation: a number or a literal, if it is JSON.
func (s *scanner) scalar() []byte {
	s.peek()
	begin := s.pos
	for ; s.pos < len(s.text); s.pos++ {
		switch s.text[s.pos] {
		case ' ', '\t', '\n', '\r', ',', ':', '[', ']', '{', '}', '"':
			return s.text[begin:s.pos]
		}
	}
	return s.text[begin:]
}

// uint reads an integer of at most 64 bits without sign, fraction and exponent.
func (s *scanner) uint() (uint64, error) {
	word := s.scalar()
	v, err := strconv.ParseUint(string(word), 10, 64)
	if err != nil || len(word) > 1 && word[0] == '0' {
		s.pos -= len(word)
		return 0, s.fail(s.kind, "%.40q is not an integer from 0 to 2^64-1", word)
	}
	return v, nil
}

// skip reads a value of any kind.
func (s *scanner) skip() error {
	switch s.peek() {
	case '{':
		return s.object(func([]byte) error { return s.skip() })
	case '[':
		return s.array(s.skip)
	case '"':
		_, err := s.str()
		return err
	}
	if word := s.scalar(); !json.Valid(word) {
		s.pos -= len(word)
		return s.unexpected("a value")
	}
	return nil
}
