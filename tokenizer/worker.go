package tokenizer

import (
	"fmt"
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
	paths        []path // of unigram, to each place in the word
	route        []int  // of unigram, the ends of the tokens from the last to the first
	started      time.Time
	patience     time.Duration
}

func (t *Tokenizer) worker() *worker {
	if w, ok := t.workers.Get().(*worker); ok {
		return w
	}
	return &worker{words: map[string][]int32{}}
}

// begin starts the clock for a text of so many bytes.
func (w *worker) begin(bytes int) {
	w.started, w.patience = time.Now(), findTimeout+time.Duration(bytes)*slowness
}

// late returns an error if regular expressions took too long, all stretches of the text together.
func (w *worker) late() error {
	if time.Since(w.started) > w.patience {
		return fmt.Errorf("tokenizer: no end after %v: its regular expressions take too long for this text", w.patience)
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
