package names

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"
)

// object is a part of a JSON file.
type object map[string]any

// None is what tokenizer.ggml.model says in a file without a tokenizer.
const None = "none"

// aliases are other names that splits have.
var aliases = map[string]string{"llama3": "llama-bpe", "llama-v3": "llama-bpe", "phi-2": "gpt-2"}

// Tokenizers returns tokenizer.json and tokenizer_config.json for the tokenizer in the metadata of a file: the inverse of
// [Tokenizer], for the same kinds. An error says what is missing, or not known; it is fs.ErrNotExist for a file that says it has none.
func Tokenizers(f File) (tokenizer, config []byte, err error) {
	t := &rebuilt{file: f}
	if kind, _ := value[string](t, "ggml.model"); kind == None {
		return nil, nil, fmt.Errorf("gguf: tokenizer: %w", fs.ErrNotExist)
	}
	if tokenizer, err = t.build(); err == nil {
		config, err = t.settings()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("gguf: tokenizer: %w", err)
	}
	return tokenizer, config, nil
}

// rebuilt is a tokenizer on its way back.
type rebuilt struct {
	file  File
	list  []string
	types []int32
}

// value reads a key of the tokenizer.
func value[T any](t *rebuilt, key string) (v T, ok bool) {
	x, _ := t.file.Value("tokenizer." + key)
	v, ok = x.(T)
	return v, ok
}

func (t *rebuilt) build() ([]byte, error) {
	kind, _ := value[string](t, "ggml.model")
	pre, _ := value[string](t, "ggml.pre")
	var ok bool
	if t.list, ok = value[[]string](t, "ggml.tokens"); !ok {
		return nil, fmt.Errorf("tokenizer.ggml.tokens is missing")
	}
	if t.types, ok = value[[]int32](t, "ggml.token_type"); !ok || len(t.types) != len(t.list) {
		return nil, fmt.Errorf("tokenizer.ggml.token_type is missing, or has not the length of the tokens")
	}
	vocab, added, err := t.tokens()
	if err != nil {
		return nil, err
	}
	model := object{"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
		"fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": vocab}
	file := object{"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added, "normalizer": nil,
		"pre_tokenizer": nil, "post_processor": t.frame(pre), "model": model}
	switch kind {
	case "gpt2":
		err = t.words(file, model, pre)
	case "llama":
		err = t.sentencePiece(file, model, vocab)
	default:
		err = fmt.Errorf("tokenizer.ggml.model %.50q is not known: it can be gpt2 or llama", kind)
	}
	if err != nil {
		return nil, err
	}
	return encode(file)
}

// tokens returns the vocabulary and the list of tokens that are found in a text before all others.
func (t *rebuilt) tokens() (vocab map[string]int, added []object, err error) {
	vocab, added = make(map[string]int, len(t.list)), []object{}
	for id, token := range t.list {
		if t.types[id] == tokenUnused && strings.HasPrefix(token, "[PAD") {
			continue
		}
		if !utf8.ValidString(token) {
			return nil, nil, fmt.Errorf("token %d is not UTF-8", id)
		}
		if first, ok := vocab[token]; ok {
			return nil, nil, fmt.Errorf("tokens %d and %d are both %.50q", first, id, token)
		}
		vocab[token] = id
		if kind := t.types[id]; kind == tokenControl || kind == tokenUser || kind == tokenUnknown {
			added = append(added, object{"id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
				"normalized": false, "special": kind != tokenUser})
		}
	}
	return vocab, added, nil
}

// words fills in byte-level BPE.
func (t *rebuilt) words(file, model object, pre string) error {
	joined, ok := value[[]string](t, "ggml.merges")
	if !ok {
		return fmt.Errorf("tokenizer.ggml.merges is missing")
	}
	merges := make([][2]string, len(joined))
	for i, m := range joined {
		a, b, ok := strings.Cut(m, " ")
		if !ok {
			return fmt.Errorf("merge %d, %.50q, is not of two tokens", i, m)
		}
		merges[i] = [2]string{a, b}
	}
	model["merges"] = merges
	if other, ok := aliases[pre]; ok {
		pre = other
	}
	for steps, name := range splits {
		if name != pre {
			continue
		}
		steps, ignore := strings.CutSuffix(steps, " ignore")
		model["ignore_merges"] = ignore
		file["pre_tokenizer"] = preTokenizer(strings.Split(steps, "\n"))
		file["decoder"] = byteLevel(true)
		return nil
	}
	return fmt.Errorf("tokenizer.ggml.pre %.50q is no way to split a text into words that is known here", pre)
}

// byteLevel is the component that writes bytes as characters.
func byteLevel(split bool) object {
	return object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": split}
}

// preTokenizer is the components for the expressions of a split.
func preTokenizer(steps []string) object {
	list := []object{}
	last := false
	for _, s := range steps {
		switch last = s == wordsGPT2; {
		case s == digits:
			list = append(list, object{"type": "Digits", "individual_digits": true})
		case !last:
			list = append(list, object{"type": "Split", "pattern": object{"Regex": s}, "behavior": "Isolated", "invert": false})
		}
	}
	return object{"type": "Sequence", "pretokenizers": append(list, byteLevel(last))}
}

// sentencePiece fills in BPE over characters with fallback to bytes. A merge is any way to put a token together from two;
// the better score of the whole goes first, as in SentencePiece.
func (t *rebuilt) sentencePiece(file, model object, vocab map[string]int) error {
	scores, ok := value[[]float32](t, "ggml.scores")
	if !ok || len(scores) != len(t.list) {
		return fmt.Errorf("tokenizer.ggml.scores is missing, or has not the length of the tokens")
	}
	type merge struct {
		pair [2]string
		id   int
	}
	var merges []merge
	const longest = 256 // bytes of a token that is taken apart
	for id, token := range t.list {
		if t.types[id] != tokenNormal || len(token) > longest {
			continue
		}
		for at := range token {
			left, right := token[:at], token[at:]
			_, ok := vocab[left]
			if _, ok2 := vocab[right]; ok && ok2 {
				merges = append(merges, merge{[2]string{left, right}, id})
			}
		}
	}
	slices.SortStableFunc(merges, func(a, b merge) int { return cmp.Compare(scores[b.id], scores[a.id]) })
	pairs := make([][2]string, len(merges))
	for i, m := range merges {
		pairs[i] = m.pair
	}
	if id := slices.Index(t.types, tokenUnknown); id >= 0 {
		model["unk_token"] = t.list[id]
	}
	model["byte_fallback"], model["fuse_unk"], model["merges"] = true, true, pairs
	space := object{"type": "Replace", "pattern": object{"String": " "}, "content": "▁"}
	normal := []object{space}
	decoders := []object{{"type": "Replace", "pattern": object{"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}}
	if prefix, ok := value[bool](t, "ggml.add_space_prefix"); prefix || !ok {
		normal = []object{{"type": "Prepend", "prepend": "▁"}, space}
		decoders = append(decoders, object{"type": "Strip", "content": " ", "start": 1, "stop": 0})
	}
	file["normalizer"] = object{"type": "Sequence", "normalizers": normal}
	file["decoder"] = object{"type": "Sequence", "decoders": decoders}
	return nil
}

// special returns the id and the text of a special token.
func (t *rebuilt) special(name string) (id int, token string, ok bool) {
	x, ok := value[uint32](t, "ggml."+name+"_token_id")
	if !ok || int64(x) >= int64(len(t.list)) {
		return 0, "", false
	}
	return int(x), t.list[x], true
}

// frame is the component that puts tokens before and behind a text.
func (t *rebuilt) frame(pre string) any {
	first, said := value[bool](t, "ggml.add_bos_token")
	kind, _ := value[string](t, "ggml.model")
	if !said {
		first = kind == "llama" || aliases[pre] == "llama-bpe" || pre == "llama-bpe"
	}
	last, _ := value[bool](t, "ggml.add_eos_token")
	text := func(id string, kind int) object { return object{"Sequence": object{"id": id, "type_id": kind}} }
	single, pair, used := []object{}, []object{}, object{}
	add := func(name string, kind int, wanted bool, list ...*[]object) {
		id, token, ok := t.special(name)
		if !wanted || !ok {
			return
		}
		used[token] = object{"id": token, "ids": []int{id}, "tokens": []string{token}}
		for _, l := range list {
			*l = append(*l, object{"SpecialToken": object{"id": token, "type_id": kind}})
		}
	}
	add("bos", 0, first, &single, &pair)
	single, pair = append(single, text("A", 0)), append(pair, text("A", 0))
	add("eos", 0, last, &single, &pair)
	add("bos", 1, first, &pair)
	pair = append(pair, text("B", 1))
	add("eos", 1, last, &pair)
	if len(used) == 0 {
		return nil
	}
	return object{"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": used}
}

// settings is tokenizer_config.json.
func (t *rebuilt) settings() ([]byte, error) {
	c := object{"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false}
	for key, name := range map[string]string{"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"} {
		if _, token, ok := t.special(name); ok {
			c[key] = token
		}
	}
	if template, ok := value[string](t, "chat_template"); ok {
		c["chat_template"] = template
	}
	return encode(c)
}

// encode writes JSON as other programs do, with the characters of tokens as they are.
func encode(o object) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(o)
	return b.Bytes(), err
}
