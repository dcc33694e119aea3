package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// bpe is byte pair encoding by ranked merges.
type bpe struct {
	ids    map[string]int32
	merges map[pair]merge

	unknown      int32  // id of unk_token, or -1
	lost         string // unk_token if it is not in the vocabulary, which is an error once it is needed
	fuseUnknown  bool
	bytes        *[256]int32 // ids of <0xNN> under byte_fallback, -1 where there is none
	ignoreMerges bool
	seams        *seams // or nil: a word has to stay whole
	prefix       string // continuing_subword_prefix, on all characters of a word but the first
	suffix       string // end_of_word_suffix, on the last
}

type pair struct{ left, right int32 }

// merge is what a pair becomes, and its place among the merges.
type merge struct{ rank, id int32 }

// newBPE reads the model of a tokenizer.json into t and returns it.
func newBPE(t *Tokenizer, m object) (model, error) {
	if d := m["dropout"]; d.Type != gjson.Null && d.Float() != 0 {
		return nil, fmt.Errorf("dropout %s is not supported", clip(d.Raw))
	}
	var err error
	vocab := m["vocab"]
	if !vocab.IsObject() {
		return nil, errors.New("no vocab")
	}
	vocab.ForEach(func(token, id gjson.Result) bool {
		var n int64
		if n, err = integer(id); err == nil {
			err = t.name(t.ids, token.String(), n)
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	b := &bpe{
		ids:          t.ids,
		unknown:      -1,
		fuseUnknown:  m["fuse_unk"].Bool(),
		ignoreMerges: m["ignore_merges"].Bool(),
		prefix:       strings.Clone(m["continuing_subword_prefix"].String()),
		suffix:       strings.Clone(m["end_of_word_suffix"].String()),
	}
	if u := m["unk_token"]; u.Type != gjson.Null {
		if id, ok := t.ids[u.String()]; ok {
			b.unknown = id
		} else {
			b.lost = strings.Clone(u.String())
		}
	}
	if m["byte_fallback"].Bool() {
		b.bytes = byteTokens(t.ids)
	}
	if b.prefix == "" && b.suffix == "" && !b.ignoreMerges {
		b.seams = &seams{tokens: t.ids}
	}
	return b, b.readMerges(m["merges"], t.tokens)
}

// byteTokens returns the ids of the tokens <0x00> to <0xFF>.
func byteTokens(ids map[string]int32) *[256]int32 {
	var table [256]int32
	for b := range table {
		id, ok := ids[fmt.Sprintf("<0x%02X>", b)]
		if !ok {
			id = -1
		}
		table[b] = id
	}
	return &table
}

// readMerges reads a list of pairs, "a b" or ["a","b"], by falling rank. tokens is the vocabulary by id.
func (b *bpe) readMerges(list gjson.Result, tokens []string) error {
	if !list.IsArray() {
		return errors.New("no merges")
	}
	b.merges = make(map[pair]merge, 2*len(b.ids))
	rank := int32(0)
	joined := int32(0)
	var err error
	list.ForEach(func(_, entry gjson.Result) bool {
		left, right, ok := strings.Cut(entry.String(), " ")
		if entry.IsArray() {
			var parts [2]gjson.Result
			if parts, ok = two(entry); ok {
				left, right = parts[0].String(), parts[1].String()
			}
		} else {
			ok = ok && !strings.Contains(right, " ")
		}
		if !ok {
			err = fmt.Errorf("merge %d: %s is not a pair", rank, clip(entry.Raw))
			return false
		}
		l, okL := b.ids[left]
		r, okR := b.ids[right]
		right = b.within(right)
		// As a rule, what a pair makes is the token that the one before made, or the next.
		okJ := false
		for try := joined; try < min(joined+2, int32(len(tokens))) && !okJ; try++ {
			rest, ok := strings.CutPrefix(tokens[try], left)
			if okJ = ok && rest == right; okJ {
				joined = try
			}
		}
		if !okJ {
			joined, okJ = b.ids[left+right]
		}
		if !okL || !okR || !okJ {
			err = fmt.Errorf("merge %d: %q and %q, or what they make, are not in the vocabulary", rank, clip(left), clip(right))
			return false
		}
		b.merges[pair{l, r}] = merge{rank, joined}
		if b.seams != nil {
			b.seams.join(left, right)
		}
		rank++
		return true
	})
	return err
}

// within returns what a token adds to one in front of it. As in Hugging Face, what it starts with is not compared with the
// prefix.
func (b *bpe) within(token string) string {
	return token[min(len(b.prefix), len(token)):]
}

// tokenize implements model.
func (b *bpe) tokenize(dst []int32, w *worker, word string) ([]int32, error) {
	if b.ignoreMerges {
		if id, ok := b.ids[word]; ok {
			return append(dst, id), nil
		}
	}
	w.bpe.reset()
	unknown := false // an unknown character waits to be added
	for i, r := range word {
		n := utf8.RuneLen(r)
		spelled := word[i : i+n]
		if i > 0 && b.prefix != "" {
			spelled = b.prefix + spelled
		}
		if i+n == len(word) && b.suffix != "" {
			spelled += b.suffix
		}
		if id, ok := b.ids[spelled]; ok {
			if unknown {
				w.bpe.add(symbol{id: b.unknown})
				unknown = false
			}
			w.bpe.add(symbol{id: id})
			continue
		}
		if b.bytes != nil && w.bpe.addBytes(b.bytes, spelled) {
			continue
		}
		if b.lost != "" {
			return nil, fmt.Errorf("tokenizer: bpe: unk_token %q, needed for %q, is not in the vocabulary", clip(b.lost), spelled)
		}
		if b.unknown < 0 {
			continue
		}
		if unknown && !b.fuseUnknown {
			w.bpe.add(symbol{id: b.unknown})
		}
		unknown = true
	}
	if unknown {
		w.bpe.add(symbol{id: b.unknown})
	}
	w.bpe.merge(func(left, right *symbol) (merge, bool) {
		m, ok := b.merges[pair{left.id, right.id}]
		return m, ok
	})
	for i := 0; i < len(w.bpe.symbols); i = int(w.bpe.symbols[i].next) {
		dst = append(dst, w.bpe.symbols[i].id)
	}
	return dst, nil
}
