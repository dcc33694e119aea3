package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites a stretch of text. first says, and the result says again, whether it starts where the text starts:
// a normalizer that removes what comes first ends that, which Metaspace can see.
type normalizer func(text string, first bool) (string, bool, error)

// normalizerSpec is a normalizer as tokenizer.json writes it; every type has its own fields of these.
type normalizerSpec struct {
	Type        string            `json:"type"`
	Normalizers []json.RawMessage `json:"normalizers"`
	Prepend     string            `json:"prepend"`
	Pattern     patternSpec       `json:"pattern"`
	Content     string            `json:"content"`
	StripLeft   *bool             `json:"strip_left"`
	StripRight  *bool             `json:"strip_right"`
	CharsMap    []byte            `json:"precompiled_charsmap"`
}

// newNormalizer builds the normalizer of a component, nil for null.
func newNormalizer(raw json.RawMessage, depth int) (normalizer, error) {
	var spec normalizerSpec
	if absent, err := component(raw, "normalizer", depth, &spec); absent || err != nil {
		return nil, err
	}
	switch spec.Type {
	case "Sequence":
		return sequence(spec.Normalizers, depth)
	case "NFC":
		return always(norm.NFC.String), nil
	case "NFD":
		return always(norm.NFD.String), nil
	case "NFKC":
		return always(norm.NFKC.String), nil
	case "NFKD":
		return always(norm.NFKD.String), nil
	case "Lowercase":
		return always(lowercase), nil
	case "StripAccents":
		return always(stripAccents), nil
	case "Prepend":
		return always(func(s string) string {
			if s == "" {
				return s
			}
			return spec.Prepend + s
		}), nil
	case "Strip":
		return strip(spec.StripLeft == nil || *spec.StripLeft, spec.StripRight == nil || *spec.StripRight), nil
	case "Replace":
		return replace(spec.Pattern, spec.Content)
	case "Precompiled":
		m, err := newCharsMap(spec.CharsMap)
		if err != nil {
			return nil, fmt.Errorf("normalizer Precompiled: %w", err)
		}
		return always(m.graphemes), nil
	}
	return nil, fmt.Errorf("normalizer %q is not supported", clip(spec.Type))
}

// always is a normalizer that neither fails nor moves the start of the text.
func always(f func(string) string) normalizer {
	return func(s string, first bool) (string, bool, error) { return f(s), first, nil }
}

func sequence(specs []json.RawMessage, depth int) (normalizer, error) {
	if len(specs) > maxParts {
		return nil, fmt.Errorf("normalizer: %d in a sequence, over %d", len(specs), maxParts)
	}
	var steps []normalizer
	for _, raw := range specs {
		step, err := newNormalizer(raw, depth+1)
		if err != nil {
			return nil, err
		}
		if step != nil {
			steps = append(steps, step)
		}
	}
	return func(s string, first bool) (string, bool, error) {
		var err error
		for _, step := range steps {
			if s, first, err = step(s, first); err != nil {
				return "", false, err
			}
		}
		return s, first, nil
	}, nil
}

// lowercase maps each character by itself, without regard to its neighbours: Go's mapping, and the one character that
// Unicode lowers to two.
func lowercase(s string) string {
	return strings.ToLower(strings.ReplaceAll(s, "\u0130", "i\u0307"))
}

func stripAccents(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.M, r) {
			return -1
		}
		return r
	}, s)
}

func strip(left, right bool) normalizer {
	return func(s string, first bool) (string, bool, error) {
		if left {
			n := len(s)
			s = strings.TrimLeftFunc(s, unicode.IsSpace)
			first = first && len(s) == n
		}
		if right {
			s = strings.TrimRightFunc(s, unicode.IsSpace)
		}
		return s, first, nil
	}
}

func replace(spec patternSpec, content string) (normalizer, error) {
	p, err := newPattern(spec)
	if err != nil {
		return nil, fmt.Errorf("normalizer Replace: %w", err)
	}
	return func(s string, first bool) (string, bool, error) {
		s, moved, err := p.replace(s, content)
		return s, first && !moved, err
	}, nil
}
