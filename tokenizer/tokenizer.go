package tokenizer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	maxFile = 64 << 20 // bytes of a tokenizer file
	maxID   = 1 << 21  // ids, more than seven times the largest vocabulary in use
)

// Tokenizer maps text to token ids and back. It may be used by several goroutines at once.
type Tokenizer struct {
	ids    map[string]int32 // of the model's tokens
	extra  map[string]int32 // of added tokens that the model does not know
	tokens []string         // by id, empty where the numbering has a gap
	hidden []bool           // by id: skipped by Decode with skipSpecial

	raw         tokenSet // added tokens sought in the text as it came
	normalized  tokenSet // and those sought behind the normalizer
	normalize   normalizer
	pretokenize []step
	mapBytes    bool // words reach the model as bytes, and ByteLevel's alphabet is still to be applied
	model       model
	post        []template
	decoder     []func() decodeStep // make the steps of one decoding

	workers sync.Pool // of *worker
}

// model splits a word into ids, which it appends to dst.
type model interface {
	tokenize(dst []int32, w *worker, word string) ([]int32, error)
}

// piece is a stretch of the text on its way through the stages.
type piece struct {
	text  string
	id    int32 // of the added token, or -1
	first bool  // starts where the text starts
}

// Load reads the tokenizer of a model folder: tokenizer.json, or else tokenizer.model with tokenizer_config.json.
func Load(fsys fs.FS) (*Tokenizer, error) {
	raw, err := readFile(fsys, "tokenizer.json")
	if err == nil {
		return FromJSON(raw)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	raw, err = readFile(fsys, "tokenizer.model")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("tokenizer: neither tokenizer.json nor tokenizer.model; copy those of the original beside the weights: %w", fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	config, err := readFile(fsys, "tokenizer_config.json")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return fromSentencePiece(raw, config)
}

// readFile reads a file of a model folder, up to maxFile bytes.
func readFile(fsys fs.FS, name string) ([]byte, error) {
	size := int64(0)
	if info, err := fs.Stat(fsys, name); err == nil {
		if !info.Mode().IsRegular() { // opening a pipe would wait for its writer
			return nil, fmt.Errorf("tokenizer: %s: not a regular file", name)
		}
		size = min(info.Size(), maxFile)
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	defer f.Close()
	var raw bytes.Buffer
	raw.Grow(int(size) + bytes.MinRead) // with room to see the end
	if _, err := raw.ReadFrom(io.LimitReader(f, maxFile+1)); err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", name, err)
	}
	if raw.Len() > maxFile {
		return nil, fmt.Errorf("tokenizer: %s is over %d MB", name, maxFile>>20)
	}
	return raw.Bytes(), nil
}

// Encode returns the ids of a text. Added tokens in it are recognised in any case; special adds those that the
// post-processor puts around a text, such as BOS.
func (t *Tokenizer) Encode(text string, special bool) ([]int32, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("tokenizer: the text is not UTF-8")
	}
	w := t.worker()
	defer t.workers.Put(w)
	w.begin(len(text))
	ids := make([]int32, 0, len(text)/4+4)
	var err error
	for p := range t.raw.split(text, true) {
		if p.id >= 0 {
			ids = append(ids, p.id)
			continue
		}
		if ids, err = t.encodePlain(ids, w, p); err != nil {
			return nil, err
		}
	}
	if special {
		for _, tpl := range t.post {
			ids = tpl.apply(ids)
		}
	}
	return ids, nil
}

// encodePlain appends the ids of a stretch between added tokens of the raw text.
func (t *Tokenizer) encodePlain(ids []int32, w *worker, p piece) ([]int32, error) {
	if t.normalize != nil {
		err := w.timed(func() (err error) {
			p.text, p.first, err = t.normalize(p.text, p.first)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	w.pieces = w.pieces[:0]
	for q := range t.normalized.split(p.text, p.first) {
		w.pieces = append(w.pieces, q)
	}
	pieces, err := t.cut(w.pieces, w)
	if err != nil {
		return nil, err
	}
	for _, q := range pieces {
		if q.id >= 0 {
			ids = append(ids, q.id)
		} else if ids, err = t.encodeWord(ids, w, q.text); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// cut sends pieces through the pre-tokenizers. They and the result live in the worker's two buffers.
func (t *Tokenizer) cut(pieces []piece, w *worker) ([]piece, error) {
	w.pieces = pieces
	for _, step := range t.pretokenize {
		w.next = w.next[:0]
		for _, p := range w.pieces {
			if p.id >= 0 {
				w.next = append(w.next, p)
				continue
			}
			var err error
			if step.slow {
				err = w.timed(func() (err error) {
					w.next, err = step.cut(w.next, p)
					return err
				})
			} else {
				w.next, err = step.cut(w.next, p)
			}
			if err != nil {
				return nil, err
			}
		}
		w.pieces, w.next = w.next, w.pieces
	}
	return w.pieces, nil
}

// Size is the number of ids: the highest plus one.
func (t *Tokenizer) Size() int { return len(t.tokens) }

// ID returns the id of a token as the vocabulary spells it.
func (t *Tokenizer) ID(token string) (int32, bool) {
	id, ok := t.ids[token]
	if !ok {
		id, ok = t.extra[token]
	}
	return id, ok
}

// Token returns the token of an id as the vocabulary spells it.
func (t *Tokenizer) Token(id int32) (string, bool) {
	if id < 0 || int(id) >= len(t.tokens) {
		return "", false
	}
	s := t.tokens[id]
	if s == "" {
		known, ok := t.ids[""]
		return "", ok && known == id
	}
	return s, true
}

// name enters a token into ids, which is t.ids or t.extra, and into the list by id.
func (t *Tokenizer) name(ids map[string]int32, token string, id int64) error {
	if id < 0 || id >= maxID {
		return fmt.Errorf("id %d of token %q is not in 0..%d", id, clip(token), maxID-1)
	}
	if have, ok := t.ID(token); ok && int64(have) != id {
		return fmt.Errorf("token %q has ids %d and %d", clip(token), have, id)
	}
	for int64(len(t.tokens)) <= id {
		t.tokens = append(t.tokens, "")
		t.hidden = append(t.hidden, false)
	}
	if have, ok := t.Token(int32(id)); ok && have != token {
		return fmt.Errorf("id %d is token %q and token %q", id, clip(have), clip(token))
	}
	token = strings.Clone(token) // what it is a part of may be the file
	ids[token], t.tokens[id] = int32(id), token
	return nil
}

// nameAdded enters an added token: one that the model knows has to have the model's id.
func (t *Tokenizer) nameAdded(token string, id int64) error {
	if have, ok := t.ids[token]; ok && int64(have) == id {
		return nil
	}
	return t.name(t.extra, token, id)
}

// clip keeps what a file says printable in an error.
func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}
