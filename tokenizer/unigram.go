package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// unknownPenalty is how much less than the lowest score of the vocabulary a character costs that no token covers.
const unknownPenalty = 10

// unigram takes the segmentation with the highest sum of scores, found from left to right (Viterbi).
type unigram struct {
	trie    *trie
	scores  []float64   // by id
	unknown int32       // or -1
	missing float64     // score of a character without a token
	bytes   *[256]int32 // ids of <0xNN> under byte fallback
	single  bool        // sums are kept in single precision, as SentencePiece does
}

// path is the best segmentation that ends at a place in the word.
type path struct {
	score float64
	from  int   // where its last token starts, -1 for no path yet
	id    int32 // of that token
}

// newUnigram reads the model of a tokenizer.json into t and returns it.
func newUnigram(t *Tokenizer, m object) (model, error) {
	u := &unigram{trie: newTrie(), unknown: -1}
	lowest := math.Inf(1)
	var err error
	m["vocab"].ForEach(func(_, entry gjson.Result) bool {
		parts, pair := two(entry)
		id := len(u.scores)
		if !pair || parts[0].Type != gjson.String || parts[1].Type != gjson.Number {
			err = fmt.Errorf("vocab entry %d: %s is not a piece and a score", id, clip(entry.Raw))
			return false
		}
		piece, score := parts[0].String(), parts[1].Float()
		if err = t.name(t.ids, piece, int64(id)); err != nil {
			return false
		}
		u.scores = append(u.scores, score)
		lowest = min(lowest, score)
		if piece != "" {
			u.trie.add(piece, int32(id))
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	if len(u.scores) == 0 {
		return nil, errors.New("no vocab")
	}
	u.missing = lowest - unknownPenalty
	if k := m["unk_id"]; k.Type != gjson.Null {
		id, err := integer(k)
		if err != nil || id < 0 || id >= int64(len(u.scores)) {
			return nil, fmt.Errorf("unk_id %s is not in the vocabulary", clip(k.Raw))
		}
		u.unknown = int32(id)
	}
	if m["byte_fallback"].Bool() {
		u.bytes = byteTokens(t.ids)
	}
	return u, nil
}

// tokenize implements model.
func (u *unigram) tokenize(dst []int32, w *worker, word string) ([]int32, error) {
	if err := u.search(w, word); err != nil {
		return nil, err
	}
	w.route = w.route[:0]
	for end := len(word); end > 0; end = w.paths[end].from {
		w.route = append(w.route, end)
	}
	unknown := 0 // where a run of unknown characters starts
	for i := len(w.route) - 1; i >= 0; i-- {
		end := w.route[i]
		p := w.paths[end]
		if p.id != u.unknown {
			dst = append(dst, p.id)
			unknown = end
		} else if i == 0 || w.paths[w.route[i-1]].id != u.unknown {
			dst = u.appendUnknown(dst, word[unknown:end])
			unknown = end
		}
	}
	return dst, nil
}

// search fills w.paths with the best path to each place in the word.
func (u *unigram) search(w *worker, word string) error {
	w.paths = append(w.paths[:0], path{})
	for range len(word) {
		w.paths = append(w.paths, path{from: -1})
	}
	paths := w.paths
	for at := 0; at < len(word); {
		_, size := utf8.DecodeRuneInString(word[at:])
		covered := false
		here := paths[at].score
		try := func(length int, id int32, score float64) {
			if p := &paths[at+length]; p.from < 0 || here+score > p.score {
				*p = path{u.round(here + score), at, id}
			}
		}
		u.trie.prefixes(word[at:], func(length int, id int32) {
			try(length, id, u.scores[id])
			covered = covered || length == size
		})
		if !covered {
			if u.unknown < 0 {
				return fmt.Errorf("tokenizer: unigram: %q has no token and there is no unk_id", word[at:at+size])
			}
			try(size, u.unknown, u.missing)
		}
		at += size
	}
	return nil
}

func (u *unigram) round(score float64) float64 {
	if u.single {
		return float64(float32(score))
	}
	return score
}

// appendUnknown appends the ids of a run of unknown characters: their bytes or once the unknown token.
func (u *unigram) appendUnknown(dst []int32, run string) []int32 {
	if u.bytes == nil {
		return append(dst, u.unknown)
	}
	if n, id := u.trie.longest(run); n == len(run) {
		return append(dst, id) // the spelling of the unknown token itself
	}
	start := len(dst)
	for i := range len(run) {
		id := u.bytes[run[i]]
		if id < 0 {
			return append(dst[:start], u.unknown)
		}
		dst = append(dst, id)
	}
	return dst
}
