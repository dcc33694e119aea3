package calib

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"nibble/tokenizer"
)

// SelfSource is the Source of sequences that the model writes itself.
const SelfSource = "self"

// The defaults of Settings.
const (
	DefaultSamples = 128
	DefaultLength  = 512
)

// Most of what can be asked for.
const (
	mostSamples = 1 << 20
	mostLength  = 1 << 20
	mostTokens  = 1 << 28
)

// Settings say which sequences to take.
type Settings struct {
	Source  string // SelfSource, a file or a folder
	Field   string // of rows (jsonl, json, parquet); "": see the package comment
	Samples int    // Samples·Length tokens are wanted; 0: DefaultSamples
	Length  int    // most tokens of a sequence; 0: DefaultLength
	Seed    uint64
	Pack    bool // documents one behind the other instead of kept apart
	Chat    bool // write every document with the model's chat template
}

// defaults fills in what is zero.
func (s *Settings) defaults() {
	s.Samples = cmp.Or(s.Samples, DefaultSamples)
	s.Length = cmp.Or(s.Length, DefaultLength)
}

// Check fills in the defaults and refuses values without a meaning.
func (s *Settings) Check() error {
	s.defaults()
	switch {
	case s.Source == "":
		return errors.New("calib: no source of text: want a file, a folder, or self")
	case s.Samples < 1 || s.Samples > mostSamples:
		return fmt.Errorf("calib: %d samples: want 1 to %d", s.Samples, mostSamples)
	case s.Length < 2 || s.Length > mostLength:
		return fmt.Errorf("calib: samples of %d tokens: want 2 to %d", s.Length, mostLength)
	case s.Samples*s.Length > mostTokens:
		return fmt.Errorf("calib: %d samples of %d tokens: want at most %d tokens", s.Samples, s.Length, mostTokens)
	}
	return nil
}

// wanted is the number of tokens to collect.
func (s *Settings) wanted() int { return s.Samples * s.Length }

// least is the number of tokens that a sequence has at least.
func (s *Settings) least() int { return min(max(s.Length/4, 16), s.Length) }

// Language is how a model reads and writes text.
type Language struct {
	Tokenizer *tokenizer.Tokenizer
	Chat      *tokenizer.Chat // nil: no chat template
	Ends      []int32         // tokens that end a text; the first one separates documents
}

var errNoTemplate = errors.New("calib: the model has no chat template; do without it")

// front is what the tokenizer puts in front of every text.
func (l *Language) front() []int32 {
	before, _ := l.Tokenizer.Around()
	return before
}

// today is what chat templates are told, so that sequences do not change from day to day: the date to which Llama's fall back.
var today = time.Date(2024, time.July, 26, 0, 0, 0, 0, time.UTC)

// render writes a conversation with the chat template. Behind a user's message the beginning of an answer follows.
func (l *Language) render(messages []tokenizer.Message) (string, error) {
	chat := *l.Chat
	chat.Date = today
	return chat.Render(messages, messages[len(messages)-1].Role == "user", nil)
}

// ends are the tokens that end a text, those of them that the tokenizer knows.
func (l *Language) ends() (list []int32) {
	for _, id := range l.Ends {
		if _, known := l.Tokenizer.Token(id); known {
			list = append(list, id)
		}
	}
	return list
}

// between is what stands between documents in one sequence: the token that ends a text, then what begins one. Where both
// are the same token, it stands once.
func (l *Language) between() []int32 {
	front, ends := l.front(), l.ends()
	if len(ends) == 0 || slices.Equal(front, ends[:1]) {
		return front
	}
	return append([]int32{ends[0]}, front...)
}
