package tokenizer

import (
	"cmp"
	"errors"
	"slices"
	"unicode/utf8"
)

// spBPE is SentencePiece's byte pair encoding. What is merged is strings, not ids: two neighbours become one if both
// together are a piece, those of the highest score first, and a character that is no piece can be a part.
type spBPE struct {
	merges  map[string]merge
	user    *trie // user-defined pieces, which are not merged
	unknown int32
	bytes   *[256]int32 // ids of byte pieces under byte fallback
	seams   *seams
}

func newSPBPE(pieces []spPiece, user *trie, unknown int32, bytes *[256]int32) (*spBPE, error) {
	b := &spBPE{merges: map[string]merge{}, user: user, unknown: unknown, bytes: bytes,
		seams: &seams{tokens: map[string]int32{}}}
	order := make([]int32, 0, len(pieces))
	for i, p := range pieces {
		switch p.kind {
		case pieceNormal, pieceUser:
			order = append(order, int32(i))
		case pieceUnused:
			return nil, errors.New("unused pieces are not supported in bpe")
		}
	}
	slices.SortFunc(order, func(x, y int32) int { return cmp.Compare(pieces[y].score, pieces[x].score) })
	rank := int32(0)
	for i, id := range order {
		if i > 0 && pieces[id].score != pieces[order[i-1]].score {
			rank++
		}
		text := pieces[id].text
		b.merges[text] = merge{rank, id}
		b.seams.tokens[text] = id
		for at := range text {
			if at > 0 {
				b.seams.join(text[:at], text[at:])
			}
		}
	}
	return b, nil
}

// tokenize implements model.
func (b *spBPE) tokenize(dst []int32, w *worker, word string) ([]int32, error) {
	w.bpe.reset()
	for at := 0; at < len(word); {
		n, id := b.user.longest(word[at:])
		frozen := n > 0
		if !frozen {
			_, n = utf8.DecodeRuneInString(word[at:])
			id = -1
			if m, ok := b.merges[word[at:at+n]]; ok {
				id = m.id
			}
		}
		w.bpe.add(symbol{id: id, start: int32(at), end: int32(at + n), frozen: frozen})
		at += n
	}
	w.bpe.merge(func(left, right *symbol) (merge, bool) {
		if left.frozen || right.frozen {
			return merge{}, false
		}
		m, ok := b.merges[word[left.start:right.end]]
		return m, ok
	})
	unknown := false // the last one was
	for i := 0; i < len(w.bpe.symbols); i = int(w.bpe.symbols[i].next) {
		s := &w.bpe.symbols[i]
		switch {
		case s.id >= 0:
			dst = append(dst, s.id)
		case b.bytes != nil:
			for _, c := range []byte(word[s.start:s.end]) {
				dst = append(dst, b.bytes[c])
			}
		case !unknown:
			dst = append(dst, b.unknown)
		}
		unknown = s.id < 0
	}
	return dst, nil
}
