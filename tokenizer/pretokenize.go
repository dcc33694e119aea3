package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pretokenizer appends the parts of a piece to dst, none of them empty.
type pretokenizer func(dst []piece, p piece) ([]piece, error)

// step is a pre-tokenizer in its place. One that is slow runs a regular expression.
type step struct {
	cut  pretokenizer
	slow bool
}

// pretokenizerSpec is a pre-tokenizer as tokenizer.json writes it; every type has its own fields of these.
type pretokenizerSpec struct {
	Type             string            `json:"type"`
	Pretokenizers    []json.RawMessage `json:"pretokenizers"`
	Pattern          patternSpec       `json:"pattern"`
	Behavior         string            `json:"behavior"`
	Invert           bool              `json:"invert"`
	AddPrefixSpace   *bool             `json:"add_prefix_space"`
	UseRegex         *bool             `json:"use_regex"`
	IndividualDigits bool              `json:"individual_digits"`
	metaspaceSpec
}

// newPretokenizers builds the steps of a component, Sequences laid flat. mapBytes says that the last of them is
// ByteLevel, whose alphabet is left to be applied when a word is looked up.
func newPretokenizers(raw json.RawMessage) (steps []step, mapBytes bool, err error) {
	specs, err := flatten(nil, raw, "pre-tokenizer", 0, func(s *pretokenizerSpec) (string, []json.RawMessage) { return s.Type, s.Pretokenizers })
	if err != nil {
		return nil, false, err
	}
	for i, spec := range specs {
		cut, err := newPretokenizer(spec)
		if err != nil {
			return nil, false, fmt.Errorf("pre-tokenizer %q: %w", clip(spec.Type), err)
		}
		steps = append(steps, step{cut, spec.Type == "Split" && spec.Pattern.slow()})
		if spec.Type != "ByteLevel" {
			continue
		}
		if mapBytes = i == len(specs)-1; !mapBytes {
			steps = append(steps, step{cut: func(dst []piece, p piece) ([]piece, error) {
				p.text = spellBytes(p.text)
				return append(dst, p), nil
			}})
		}
	}
	return steps, mapBytes, nil
}

func newPretokenizer(spec pretokenizerSpec) (pretokenizer, error) {
	switch spec.Type {
	case "Split":
		p, err := newPattern(spec.Pattern)
		if err != nil {
			return nil, err
		}
		return split(p.find, spec.Behavior, spec.Invert)
	case "ByteLevel":
		return byteLevel(spec)
	case "Metaspace":
		return metaspace(spec)
	case "Digits":
		if spec.IndividualDigits {
			return split(characters(unicode.IsNumber), isolated, false)
		}
		return split(characters(unicode.IsNumber), contiguous, false)
	case "Whitespace":
		return words, nil
	case "WhitespaceSplit":
		return split(characters(unicode.IsSpace), removed, false)
	case "Punctuation":
		behavior := spec.Behavior
		if behavior == "" {
			behavior = isolated
		}
		return split(characters(isPunctuation), behavior, false)
	}
	return nil, errUnsupported
}

// isPunctuation counts the symbols of ASCII, which Unicode does not.
func isPunctuation(r rune) bool {
	return unicode.IsPunct(r) || r < utf8.RuneSelf && unicode.IsSymbol(r)
}

// words is Whitespace, which keeps \w+ and [^\w\s]+ and removes the rest.
func words(dst []piece, p piece) ([]piece, error) {
	const (
		none = iota
		wordly
		symbol
	)
	start, kind := 0, none
	flush := func(end int) {
		if kind != none {
			dst = append(dst, piece{p.text[start:end], -1, p.first && start == 0})
		}
	}
	for i, r := range p.text {
		k := symbol
		if isWord(r) {
			k = wordly
		} else if unicode.IsSpace(r) {
			k = none
		}
		if k != kind {
			flush(i)
			start, kind = i, k
		}
	}
	flush(len(p.text))
	return dst, nil
}

func byteLevel(spec pretokenizerSpec) (pretokenizer, error) {
	prefix := spec.AddPrefixSpace == nil || *spec.AddPrefixSpace
	cut := func(dst []piece, p piece) ([]piece, error) { return append(dst, p), nil }
	if spec.UseRegex == nil || *spec.UseRegex {
		var err error
		if cut, err = split((&pattern{scan: scanGPT2}).find, isolated, false); err != nil {
			return nil, err
		}
	}
	return func(dst []piece, p piece) ([]piece, error) {
		if prefix && !strings.HasPrefix(p.text, " ") {
			p.text = " " + p.text
		}
		return cut(dst, p)
	}, nil
}

// metaspaceSpec is Metaspace, which is a pre-tokenizer and a decoder. add_prefix_space is its older way to say never.
type metaspaceSpec struct {
	Replacement   string `json:"replacement"`
	PrependScheme string `json:"prepend_scheme"`
	Split         *bool  `json:"split"`
}

// scheme checks the spec and returns when a space is put in front.
func (m metaspaceSpec) scheme(addPrefixSpace *bool) (string, error) {
	if utf8.RuneCountInString(m.Replacement) != 1 {
		return "", fmt.Errorf("replacement %q is not one character", clip(m.Replacement))
	}
	none := addPrefixSpace != nil && !*addPrefixSpace
	scheme := m.PrependScheme
	if scheme == "" {
		scheme = "always"
		if none {
			scheme = "never"
		}
	}
	switch {
	case scheme == "never", (scheme == "always" || scheme == "first") && !none:
		return scheme, nil
	case none:
		return "", fmt.Errorf("add_prefix_space false and prepend_scheme %q", clip(scheme))
	}
	return "", fmt.Errorf("prepend_scheme %q is not supported", clip(scheme))
}

func metaspace(spec pretokenizerSpec) (pretokenizer, error) {
	scheme, err := spec.scheme(spec.AddPrefixSpace)
	if err != nil {
		return nil, err
	}
	mark := spec.Replacement
	cut := func(dst []piece, p piece) ([]piece, error) { return append(dst, p), nil }
	if spec.Split == nil || *spec.Split {
		if cut, err = split((&pattern{fixed: mark}).find, mergedWithNext, false); err != nil {
			return nil, err
		}
	}
	return func(dst []piece, p piece) ([]piece, error) {
		p.text = strings.ReplaceAll(p.text, " ", mark)
		if (scheme == "always" || scheme == "first" && p.first) && !strings.HasPrefix(p.text, mark) {
			p.text = mark + p.text
		}
		return cut(dst, p)
	}, nil
}
