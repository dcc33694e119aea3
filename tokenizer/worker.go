package tokenizer

import (
	"errors"
	"strings"
	"time"
)

const (
	cachedWords = 1 << 16 // words a cache holds before it starts afresh
	cachedBytes = 64      // longest word worth keeping
)

// worker is what one Encode needs for itself: buffers, and the ids of the words met so far.
type worker struct {
	pieces, next []piece
	words        map[string][]int32
	bpe          merger
	paths        []path        // of unigram, to each place in the word
	route        []int         // of unigram, the ends of the tokens from the last to the first
	patience     time.Duration // what is left of the time for regular expressions in this text
}

func (t *Tokenizer) worker() *worker {
	if w, ok := t.workers.Get().(*worker); ok {
		return w
	}
	return &worker{words: map[string][]int32{}}
}

// begin gives the regular expressions time for a text of so many bytes.
func (w *worker) begin(bytes int) { w.patience = findTimeout + time.Duration(bytes)*slowness }

// timed does what may run a regular expression. It returns an error if they took too long, all stretches of the text together.
func (w *worker) timed(work func() error) error {
	start := time.Now()
	if err := work(); err != nil {
		return err
	}
	if w.patience -= time.Since(start); w.patience < 0 {
		return errors.New("tokenizer: its regular expressions take too long for this text")
	}
	return nil
}

// encodeWord appends the ids of a word, from the cache if it is there.
func (t *Tokenizer) encodeWord(ids []int32, w *worker, word string) ([]int32, error) {
	if cached, ok := w.words[word]; ok {
		return append(ids, cached...), nil
	}
	spelled := word
	if t.mapBytes {
		spelled = spellBytes(word)
	}
	start := len(ids)
	ids, err := t.model.tokenize(ids, w, spelled)
	if err != nil {
		return nil, err
	}
	if len(word) <= cachedBytes {
		if len(w.words) == cachedWords {
			clear(w.words)
		}
		// The copy of the key keeps the text from staying in memory.
		w.words[strings.Clone(word)] = append([]int32(nil), ids[start:]...)
	}
	return ids, nil
}
