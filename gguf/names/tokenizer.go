package names

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"nibble/gguf"
)

// The types of tokens.
const (
	tokenNormal  int32 = 1
	tokenUnknown int32 = 2
	tokenControl int32 = 3 // part of no text
	tokenUser    int32 = 4 // found in a text before all others
	tokenUnused  int32 = 5 // fills a gap
	tokenByte    int32 = 6 // <0x00> to <0xFF>
)

// Steps of pre-tokenizers, as pieces writes them.
const (
	wordsGPT2   = `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	wordsLlama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	wordsQwen2  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	wordsSpark  = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+"
	digits      = `\p{N}`
)

// splits are the pre-tokenizers that llama.cpp knows by name, each a list of expressions that are applied in turn.
var splits = map[string]string{
	wordsGPT2:                 "gpt-2",
	digits + "\n" + wordsGPT2: "smollm",
	wordsLlama3:               "dbrx",
	wordsLlama3 + " ignore":   "llama-bpe", // whole words are looked up before merges are applied
	wordsQwen2:                "qwen2",
	`\p{N}{1,3}` + "\n[一-龥぀-ゟ゠-ヿ]+\n" + wordsSpark + "\n" + digits: "spark2_5",
}

// Tokenizer returns the entries for a tokenizer: raw is tokenizer.json, config is tokenizer_config.json or nil, template
// the chat template or "", and vocab the number of rows of the embedding, up to which unused tokens fill the list.
//
// It knows byte-level BPE, with the splits into words that llama.cpp has a name for, and BPE in the manner of
// SentencePiece, with fallback to bytes.
func Tokenizer(raw, config []byte, template string, vocab int) ([]gguf.Entry, error) {
	if !json.Valid(raw) || len(config) > 0 && !json.Valid(config) {
		return nil, errors.New("gguf: tokenizer: not JSON")
	}
	t := &tokens{file: gjson.ParseBytes(raw), config: gjson.ParseBytes(config)}
	if err := t.build(vocab); err != nil {
		return nil, fmt.Errorf("gguf: tokenizer: %w", err)
	}
	if template != "" {
		t.add("tokenizer.chat_template", template)
	}
	return t.entries, nil
}

// tokens builds the entries.
type tokens struct {
	file, config gjson.Result
	list         []string
	types        []int32
	ids          map[string]int
	entries      []gguf.Entry
}

func (t *tokens) add(key string, value any) {
	t.entries = append(t.entries, gguf.Entry{Key: key, Value: value})
}

func (t *tokens) build(vocab int) error {
	model := t.file.Get("model")
	if kind := model.Get("type").String(); kind != "BPE" {
		return fmt.Errorf("model of type %q, and only BPE is converted", kind)
	}
	pieces := model.Get("byte_fallback").Bool()
	if err := t.readTokens(vocab, pieces); err != nil {
		return err
	}
	merges, err := t.merges(model.Get("merges"))
	if err != nil {
		return err
	}
	if pieces {
		t.add("tokenizer.ggml.model", "llama")
		t.add("tokenizer.ggml.pre", "default")
	} else {
		pre, err := t.split(model.Get("ignore_merges").Bool())
		if err != nil {
			return err
		}
		t.add("tokenizer.ggml.model", "gpt2")
		t.add("tokenizer.ggml.pre", pre)
	}
	t.add("tokenizer.ggml.tokens", t.list)
	t.add("tokenizer.ggml.token_type", t.types)
	if pieces {
		t.add("tokenizer.ggml.scores", t.scores(merges))
		t.add("tokenizer.ggml.add_space_prefix", t.spacePrefix())
	} else {
		joined := make([]string, len(merges))
		for i, m := range merges {
			joined[i] = m[0] + " " + m[1]
		}
		t.add("tokenizer.ggml.merges", joined)
	}
	return t.special()
}

// readTokens fills the list of tokens and their types. A later token with an id that is taken is an error.
func (t *tokens) readTokens(vocab int, pieces bool) (err error) {
	t.list, t.types, t.ids = make([]string, vocab), make([]int32, vocab), map[string]int{}
	put := func(id gjson.Result, token string, kind int32) {
		i := int(id.Int())
		switch {
		case err != nil:
		case id.Type != gjson.Number || i < 0 || i >= vocab:
			err = fmt.Errorf("token %.50q has id %.20s, and the embedding %d rows", token, id.Raw, vocab)
		case t.types[i] != 0 && t.list[i] != token:
			err = fmt.Errorf("tokens %.50q and %.50q have both id %d", t.list[i], token, i)
		default:
			t.list[i], t.types[i], t.ids[token] = token, kind, i
		}
	}
	unknown := t.file.Get("model.unk_token").String()
	t.file.Get("model.vocab").ForEach(func(token, id gjson.Result) bool {
		kind := tokenNormal
		switch s := token.String(); {
		case pieces && s == unknown:
			kind = tokenUnknown
		case pieces && len(s) == 6 && strings.HasPrefix(s, "<0x") && s[5] == '>':
			kind = tokenByte
		}
		put(id, token.String(), kind)
		return err == nil
	})
	t.file.Get("added_tokens").ForEach(func(_, a gjson.Result) bool {
		kind, token := tokenUser, a.Get("content").String()
		switch {
		case pieces && token == unknown:
			kind = tokenUnknown
		case a.Get("special").Bool():
			kind = tokenControl
		}
		put(a.Get("id"), token, kind)
		return err == nil
	})
	for i := range t.list {
		if t.types[i] == 0 {
			t.list[i], t.types[i] = fmt.Sprintf("[PAD%d]", i), tokenUnused
		}
	}
	return err
}

// merges returns the pairs of tokens in the order of their rank; they are written as pairs or as one text.
func (t *tokens) merges(list gjson.Result) (merges [][2]string, err error) {
	list.ForEach(func(_, m gjson.Result) bool {
		pair := strings.Split(m.String(), " ")
		if m.IsArray() {
			pair = nil
			for _, s := range m.Array() {
				pair = append(pair, s.String())
			}
		}
		if len(pair) != 2 || strings.Contains(pair[0]+pair[1], " ") {
			err = fmt.Errorf("merge %d, %.50q, is not of two tokens without spaces", len(merges), m.Raw)
			return false
		}
		merges = append(merges, [2]string(pair))
		return true
	})
	return merges, err
}

// scores returns what orders the merges of a llama tokenizer: a token made by an earlier merge has a greater score.
func (t *tokens) scores(merges [][2]string) []float32 {
	scores := make([]float32, len(t.list))
	for rank := len(merges) - 1; rank >= 0; rank-- {
		if id, ok := t.ids[merges[rank][0]+merges[rank][1]]; ok {
			scores[id] = -float32(rank + 1)
		}
	}
	return scores
}

// split returns llama.cpp's name for the splits into words.
func (t *tokens) split(ignoreMerges bool) (string, error) {
	var steps []string
	list := []gjson.Result{t.file.Get("pre_tokenizer")}
	if list[0].Get("type").String() == "Sequence" {
		list = list[0].Get("pretokenizers").Array()
	}
	for _, s := range list {
		switch kind := s.Get("type").String(); {
		case kind == "Digits" && s.Get("individual_digits").Bool():
			steps = append(steps, digits)
		case kind == "Split" && s.Get("pattern.Regex").Exists() && !s.Get("invert").Bool():
			steps = append(steps, s.Get("pattern.Regex").String())
		case kind == "ByteLevel" && s.Get("use_regex").Bool():
			steps = append(steps, wordsGPT2)
		case kind == "ByteLevel":
		default:
			return "", fmt.Errorf("a pre-tokenizer of type %q has no name in llama.cpp", kind)
		}
	}
	key := strings.Join(steps, "\n")
	if name, ok := splits[key+" ignore"]; ok && ignoreMerges {
		return name, nil
	}
	if name, ok := splits[key]; ok && !ignoreMerges {
		return name, nil
	}
	return "", fmt.Errorf("the splits %.200q (whole words first: %v) have no name in llama.cpp that is known here", steps, ignoreMerges)
}

// spacePrefix reports whether a text gets a space in front.
func (t *tokens) spacePrefix() bool {
	prepends := false
	for _, at := range []string{"normalizer", "pre_tokenizer"} {
		list := append(t.file.Get(at+".normalizers").Array(), t.file.Get(at+".pretokenizers").Array()...)
		for _, s := range append(list, t.file.Get(at)) {
			scheme := s.Get("prepend_scheme").String()
			prepends = prepends || s.Get("type").String() == "Prepend" ||
				s.Get("type").String() == "Metaspace" && scheme != "never" && (scheme != "" || s.Get("add_prefix_space").Bool())
		}
	}
	return prepends
}

// special adds the tokens that begin and end a text, and whether they do by themselves.
func (t *tokens) special() error {
	first, last := t.frame()
	for _, s := range []struct{ key, name, token string }{
		{"bos", "bos_token", first}, {"eos", "eos_token", last}, {"unknown", "unk_token", ""}, {"padding", "pad_token", ""},
	} {
		token := s.token
		if c := t.config.Get(s.name); token == "" && c.IsObject() {
			token = c.Get("content").String()
		} else if token == "" && c.Type == gjson.String {
			token = c.String()
		}
		if token == "" {
			continue
		}
		id, ok := t.ids[token]
		if !ok {
			return fmt.Errorf("%s %.50q is no token", s.name, token)
		}
		t.add("tokenizer.ggml."+s.key+"_token_id", uint32(id))
	}
	t.add("tokenizer.ggml.add_bos_token", first != "")
	t.add("tokenizer.ggml.add_eos_token", last != "")
	return nil
}

// frame returns the special tokens that the template for one text puts before and behind it, "" for none.
func (t *tokens) frame() (first, last string) {
	post := t.file.Get("post_processor")
	for _, p := range append(post.Get("processors").Array(), post) {
		if p.Get("type").String() != "TemplateProcessing" {
			continue
		}
		text := false
		for _, x := range p.Get("single").Array() {
			switch id := x.Get("SpecialToken.id").String(); {
			case id == "":
				text = true
			case text:
				last = id
			default:
				first = id
			}
		}
	}
	return first, last
}
