package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// decoderSpec is a decoder as tokenizer.json writes it; every type has its own fields of these.
type decoderSpec struct {
	Type           string            `json:"type"`
	Decoders       []json.RawMessage `json:"decoders"`
	Pattern        patternSpec       `json:"pattern"`
	Content        string            `json:"content"`
	Start          int               `json:"start"`
	Stop           int               `json:"stop"`
	AddPrefixSpace *bool             `json:"add_prefix_space"`
	metaspaceSpec
}

// decodeStep is one step from tokens to text. Steps work on a stream, so that decoding at once and token by token is the
// same: push takes a token and hands on what later ones cannot change, flush the rest.
type decodeStep interface {
	push(token string, emit emitter) error
	flush(emit emitter) error
}

type emitter func(token string) error

// newDecoder returns what makes the steps of a decoder; each decoding needs steps of its own.
func newDecoder(raw json.RawMessage) ([]func() decodeStep, error) {
	specs, err := flatten(nil, raw, "decoder", 0, func(s *decoderSpec) (string, []json.RawMessage) { return s.Type, s.Decoders })
	if err != nil {
		return nil, err
	}
	if len(specs) == 0 {
		return []func() decodeStep{func() decodeStep { return &joinSpaces{} }}, nil
	}
	var makers []func() decodeStep
	fused := false // what arrives are parts of one token
	for _, spec := range specs {
		maker, err := newDecodeStep(spec, fused)
		if err != nil {
			return nil, fmt.Errorf("decoder %q: %w", clip(spec.Type), err)
		}
		makers = append(makers, maker)
		fused = fused || spec.Type == "Fuse" || spec.Type == "ByteLevel"
	}
	return makers, nil
}

func newDecodeStep(spec decoderSpec, fused bool) (func() decodeStep, error) {
	hold := func(maker func() decodeStep) func() decodeStep {
		if fused {
			return func() decodeStep { return &whole{step: maker()} }
		}
		return maker
	}
	switch spec.Type {
	case "ByteLevel":
		return hold(func() decodeStep { return &byteLevelDecoder{} }), nil
	case "ByteFallback":
		return hold(func() decodeStep { return &byteFallback{} }), nil
	case "Fuse":
		return func() decodeStep { return fuse{} }, nil
	case "Replace":
		p, err := newPattern(spec.Pattern)
		if err != nil {
			return nil, err
		}
		return hold(func() decodeStep { return replacer{p, spec.Content} }), nil
	case "Strip":
		if utf8.RuneCountInString(spec.Content) != 1 || spec.Start < 0 || spec.Stop < 0 {
			return nil, fmt.Errorf("content %q, start %d, stop %d", clip(spec.Content), spec.Start, spec.Stop)
		}
		return func() decodeStep {
			return &stripper{content: spec.Content, start: spec.Start, stop: spec.Stop, fused: fused, left: spec.Start}
		}, nil
	case "Metaspace":
		scheme, err := spec.scheme(spec.AddPrefixSpace)
		if err != nil {
			return nil, err
		}
		return func() decodeStep {
			return &metaspaceDecoder{mark: spec.Replacement, drop: scheme != "never", fused: fused}
		}, nil
	}
	return nil, errUnsupported
}

// joinSpaces is what happens without a decoder: tokens with a space between two.
type joinSpaces struct{ started bool }

func (j *joinSpaces) push(token string, emit emitter) error {
	if j.started {
		token = " " + token
	}
	j.started = true
	return emit(token)
}

func (*joinSpaces) flush(emitter) error { return nil }

// fuse makes one token of all; here they stay parts of it.
type fuse struct{}

func (fuse) push(token string, emit emitter) error { return emit(token) }
func (fuse) flush(emitter) error                   { return nil }

// whole collects the parts of a fused token for a step that has to see all of it.
type whole struct {
	step  decodeStep
	parts strings.Builder
}

func (w *whole) push(token string, _ emitter) error {
	w.parts.WriteString(token)
	return nil
}

func (w *whole) flush(emit emitter) error {
	if err := w.step.push(w.parts.String(), emit); err != nil {
		return err
	}
	return w.step.flush(emit)
}

// replacer is Replace.
type replacer struct {
	pattern *pattern
	content string
}

func (r replacer) push(token string, emit emitter) error {
	s, _, err := r.pattern.replace(token, r.content)
	if err != nil {
		return err
	}
	return emit(s)
}

func (replacer) flush(emitter) error { return nil }

// metaspaceDecoder writes spaces for marks, but nothing for those of the first token if encoding put one there.
type metaspaceDecoder struct {
	mark    string
	drop    bool
	fused   bool
	started bool
}

func (m *metaspaceDecoder) push(token string, emit emitter) error {
	to := " "
	if m.drop && !m.started {
		to = ""
	}
	m.started = !m.fused
	return emit(strings.ReplaceAll(token, m.mark, to))
}

func (*metaspaceDecoder) flush(emitter) error { return nil }

// stripper is Strip: up to start characters content are cut from the front of a token, up to stop from its end.
type stripper struct {
	content     string
	start, stop int
	fused       bool
	left        int    // that may still go from the front
	held        string // from the end, which may be the token's
}

func (s *stripper) push(token string, emit emitter) error {
	if !s.fused {
		s.left, s.held = s.start, ""
	}
	for s.left > 0 && token != "" {
		rest, ok := strings.CutPrefix(token, s.content)
		if !ok {
			s.left = 0
			break
		}
		token = rest
		s.left--
	}
	token = s.held + token
	end := len(token)
	for range s.stop {
		if !strings.HasSuffix(token[:end], s.content) {
			break
		}
		end -= len(s.content)
	}
	s.held = token[end:]
	return emit(token[:end])
}

func (*stripper) flush(emitter) error { return nil }
