package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// spConfig is what tokenizer_config.json adds to a tokenizer.model.
type spConfig struct {
	Legacy *bool                 `json:"legacy"`
	AddBOS *bool                 `json:"add_bos_token"`
	AddEOS bool                  `json:"add_eos_token"`
	Added  map[string]addedToken `json:"added_tokens_decoder"`
}

// FromSentencePiece reads a tokenizer.model. Its BOS piece, if there is one, is the special token of Encode.
func FromSentencePiece(raw []byte) (*Tokenizer, error) {
	return fromSentencePiece(raw, nil)
}

func fromSentencePiece(raw, rawConfig []byte) (*Tokenizer, error) {
	var config spConfig
	if rawConfig != nil {
		if err := json.Unmarshal(rawConfig, &config); err != nil {
			return nil, fmt.Errorf("tokenizer: tokenizer_config.json: %w", err)
		}
	}
	m, err := parseSentencePiece(raw)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: tokenizer.model: %w", err)
	}
	t, err := m.tokenizer(config)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: tokenizer.model: %w", err)
	}
	return t, nil
}

func (m *spModel) tokenizer(config spConfig) (*Tokenizer, error) {
	switch {
	case m.spaceBehind:
		return nil, errors.New("treat_whitespace_as_suffix is not supported")
	case len(m.denormalizer) > 0:
		return nil, errors.New("a denormalizer is not supported")
	}
	t := &Tokenizer{ids: map[string]int32{}, extra: map[string]int32{}}
	user := newTrie()
	unknown := int32(-1)
	for i, p := range m.pieces {
		if _, ok := t.ids[p.text]; ok {
			return nil, fmt.Errorf("piece %d: %q is there twice", i, clip(p.text))
		}
		if err := t.name(t.ids, p.text, int64(i)); err != nil {
			return nil, err
		}
		switch p.kind {
		case pieceControl:
			t.hidden[i] = true
			t.raw.add(p.text, addedToken{ID: int64(i)})
		case pieceUser:
			user.add(p.text, int32(i))
		case pieceUnknown:
			if unknown >= 0 {
				return nil, errors.New("more than one unknown piece")
			}
			unknown = int32(i)
		}
	}
	if unknown < 0 {
		return nil, errors.New("no unknown piece")
	}
	if err := m.setModel(t, user, unknown); err != nil {
		return nil, err
	}
	everywhere := config.Legacy == nil || *config.Legacy
	normalizer := &spNormalizer{spModel: m, user: user, everywhere: everywhere}
	if len(m.charsMap) > 0 {
		var err error
		if normalizer.chars, err = newCharsMap(m.charsMap); err != nil {
			return nil, err
		}
	}
	t.normalize = normalizer.normalize
	decoder := spDecoder{spModel: m, unknown: m.pieces[unknown].text, control: m.control()}
	t.decoder = []func() decodeStep{
		func() decodeStep { d := decoder; return &d },
		func() decodeStep { return &byteFallback{single: true} },
	}
	return t, m.configure(t, config)
}

// setModel gives t the model for the pieces.
func (m *spModel) setModel(t *Tokenizer, user *trie, unknown int32) error {
	var bytes *[256]int32
	if m.byteFallback {
		bytes = byteTokens(t.ids)
		for b, id := range bytes {
			if id < 0 || m.pieces[id].kind != pieceByte {
				return fmt.Errorf("byte_fallback without a byte piece <0x%02X>", b)
			}
		}
	}
	switch m.kind {
	case modelUnigram:
		t.model = m.unigram(unknown, bytes)
		return nil
	case modelBPE:
		b, err := newSPBPE(m.pieces, user, unknown, bytes)
		if err != nil {
			return err
		}
		t.model, t.pretokenize = b, []step{{cut: b.seams.cut}}
		return nil
	}
	return fmt.Errorf("model type %d is not supported: only unigram (1) and bpe (2) are", m.kind)
}

func (m *spModel) unigram(unknown int32, bytes *[256]int32) *unigram {
	u := &unigram{trie: newTrie(), scores: make([]float64, len(m.pieces)), unknown: unknown, bytes: bytes, single: true}
	lowest := float32(math.MaxFloat32)
	// The highest score is at least the smallest positive number: where SentencePiece's search for it starts.
	highest := math.Float32frombits(1 << 23)
	for _, p := range m.pieces {
		if p.kind == pieceNormal {
			lowest, highest = min(lowest, p.score), max(highest, p.score)
		}
	}
	u.missing = float64(lowest - unknownPenalty)
	for i, p := range m.pieces {
		switch p.kind {
		case pieceNormal:
			u.scores[i] = float64(p.score)
		case pieceUser: // a bonus that makes it win
			u.scores[i] = float64(float32(len(p.text))*highest) - 0.1
		default:
			continue
		}
		u.trie.add(p.text, int32(i))
	}
	return u
}

// control returns the texts of the control pieces.
func (m *spModel) control() map[string]bool {
	set := map[string]bool{}
	for _, p := range m.pieces {
		if p.kind == pieceControl {
			set[p.text] = true
		}
	}
	return set
}

// configure adds the tokens of tokenizer_config.json, and those around a text.
func (m *spModel) configure(t *Tokenizer, config spConfig) error {
	for key, token := range config.Added {
		id, err := strconv.ParseInt(key, 10, 64)
		if err != nil {
			return fmt.Errorf("added_tokens_decoder: %w", err)
		}
		token.ID = id
		if token.Content == "" {
			continue
		}
		if err := t.nameAdded(token.Content, id); err != nil {
			return fmt.Errorf("added_tokens_decoder: %w", err)
		}
		known := id < int64(len(m.pieces))
		t.hidden[id] = token.Special && !(known && m.pieces[id].kind == pieceUnknown)
		t.raw.add(token.Content, token)
	}
	var tpl template
	if id, ok := m.controlID(t.ids, m.bos); ok && (config.AddBOS == nil || *config.AddBOS) {
		tpl.before = []int32{id}
	}
	if id, ok := m.controlID(t.ids, m.eos); ok && config.AddEOS {
		tpl.after = []int32{id}
	}
	t.post = []template{tpl}
	return nil
}

func (m *spModel) controlID(ids map[string]int32, piece string) (int32, bool) {
	id, ok := ids[piece]
	return id, ok && m.pieces[id].kind == pieceControl
}
