package tokenizer

import (
	"fmt"
	"strings"
)

// Stream decodes token by token. It never cuts a character: bytes of one wait for the rest.
//
// All texts of a stream together are what Decode returns, except that of a run of byte tokens with an invalid byte in it
// the characters before are kept, where Decode, as Hugging Face, writes U+FFFD for all of the run.
type Stream struct {
	tokenizer   *Tokenizer
	skipSpecial bool
	steps       []decodeStep
}

// Stream starts an incremental decoding; skipSpecial leaves special tokens out.
func (t *Tokenizer) Stream(skipSpecial bool) *Stream {
	return &Stream{t, skipSpecial, t.newSteps()}
}

// Next returns the text that is certain with one more token, often none.
func (s *Stream) Next(id int32) (string, error) {
	token, ok := s.tokenizer.Token(id)
	if !ok {
		return "", fmt.Errorf("tokenizer: no token has id %d", id)
	}
	if s.skipSpecial && s.tokenizer.hidden[id] {
		return "", nil
	}
	var b strings.Builder
	err := push(s.steps, token, &b)
	return b.String(), err
}

// Flush returns what is left at the end and makes the stream ready for another text.
func (s *Stream) Flush() (string, error) {
	var b strings.Builder
	err := flush(s.steps, &b)
	s.steps = s.tokenizer.newSteps()
	return b.String(), err
}

// Decode returns the text of ids; skipSpecial leaves special tokens out.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) (string, error) {
	s := t.Stream(skipSpecial)
	for _, step := range s.steps {
		if f, ok := step.(*byteFallback); ok {
			f.patient = true
		}
	}
	var b strings.Builder
	for _, id := range ids {
		text, err := s.Next(id)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	text, err := s.Flush()
	b.WriteString(text)
	return b.String(), err
}

func (t *Tokenizer) newSteps() []decodeStep {
	steps := make([]decodeStep, len(t.decoder))
	for i, maker := range t.decoder {
		steps[i] = maker()
	}
	return steps
}

// push sends a token through the steps.
func push(steps []decodeStep, token string, out *strings.Builder) error {
	if len(steps) == 0 {
		out.WriteString(token)
		return nil
	}
	return steps[0].push(token, func(s string) error { return push(steps[1:], s, out) })
}

// flush ends the steps one after the other: what one still hands on goes through those behind it.
func flush(steps []decodeStep, out *strings.Builder) error {
	for i, step := range steps {
		if err := step.flush(func(s string) error { return push(steps[i+1:], s, out) }); err != nil {
			return err
		}
	}
	return nil
}
