package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

const (
	maxDepth   = 16  // of components within components
	maxParts   = 256 // components of a stage
	entryBytes = 20  // of JSON that a token of a vocabulary takes, about
)

var errUnsupported = errors.New("not supported")

// FromJSON reads a tokenizer.json. An error names the component that is wrong or not supported.
func FromJSON(raw []byte) (*Tokenizer, error) {
	t, err := fromJSON(raw)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: tokenizer.json: %w", err)
	}
	return t, nil
}

func fromJSON(raw []byte) (*Tokenizer, error) {
	if len(raw) > maxFile {
		return nil, fmt.Errorf("over %d MB", maxFile>>20)
	}
	// The vocabulary and the merges, nearly all of a file, are read by gjson in place: several times as fast. It trusts
	// what it reads, so the file is checked first.
	if !json.Valid(raw) {
		return nil, errors.New("not JSON")
	}
	if !utf8.Valid(raw) {
		return nil, errors.New("not UTF-8")
	}
	root := newObject(gjson.ParseBytes(raw))
	m := newObject(root["model"])
	t := &Tokenizer{ids: make(map[string]int32, len(m["vocab"].Raw)/entryBytes), extra: map[string]int32{}}
	var err error
	switch kind := modelType(m); kind {
	case "BPE":
		t.model, err = newBPE(t, m)
	case "Unigram":
		t.model, err = newUnigram(t, m)
	default:
		return nil, fmt.Errorf("model %q is not supported", clip(kind))
	}
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if t.normalize, err = newNormalizer(root.raw("normalizer"), 0); err != nil {
		return nil, err
	}
	if t.pretokenize, t.mapBytes, err = newPretokenizers(root.raw("pre_tokenizer")); err != nil {
		return nil, err
	}
	if b, ok := t.model.(*bpe); ok && b.seams != nil && !t.mapBytes {
		t.pretokenize = append(t.pretokenize, step{cut: b.seams.cut})
	}
	var added []addedToken
	if list := root.raw("added_tokens"); len(list) > 0 {
		if err := json.Unmarshal(list, &added); err != nil {
			return nil, fmt.Errorf("added_tokens: %w", err)
		}
	}
	for _, token := range added {
		if err := t.add(token); err != nil {
			return nil, fmt.Errorf("added_tokens: %w", err)
		}
	}
	if t.post, err = t.newTemplates(nil, root.raw("post_processor"), 0); err != nil {
		return nil, err
	}
	if t.decoder, err = newDecoder(root.raw("decoder")); err != nil {
		return nil, err
	}
	return t, nil
}

// modelType returns the type of a model; old files leave it to the fields.
func modelType(m object) string {
	switch {
	case m["type"].Exists():
		return m["type"].String()
	case m["merges"].IsArray():
		return "BPE"
	case m["vocab"].IsArray():
		return "Unigram"
	}
	return ""
}

// object is a JSON object, read in one pass over its text.
type object map[string]gjson.Result

func newObject(r gjson.Result) object {
	o := object{}
	if r.IsObject() {
		r.ForEach(func(key, value gjson.Result) bool {
			o[key.String()] = value
			return true
		})
	}
	return o
}

// two returns the elements of a list, if there are two, without a list of its own for them.
func two(list gjson.Result) (parts [2]gjson.Result, ok bool) {
	if !list.IsArray() {
		return parts, false
	}
	n := 0
	list.ForEach(func(_, value gjson.Result) bool {
		if n < len(parts) {
			parts[n] = value
		}
		n++
		return n <= len(parts)
	})
	return parts, n == len(parts)
}

// raw returns the text of a value, empty where there is none.
func (o object) raw(name string) json.RawMessage {
	return json.RawMessage(o[name].Raw)
}

// component reads the spec of a component of some stage. It reports absent for null and for none at all.
func component(raw json.RawMessage, stage string, depth int, spec any) (absent bool, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return true, nil
	}
	if depth > maxDepth {
		return false, fmt.Errorf("%s: more than %d levels", stage, maxDepth)
	}
	if err := json.Unmarshal(raw, spec); err != nil {
		return false, fmt.Errorf("%s: %w", stage, err)
	}
	return false, nil
}

// flatten appends the specs of a component of some stage, Sequences laid flat. parts returns a spec's type and what is in it.
func flatten[S any](specs []S, raw json.RawMessage, stage string, depth int, parts func(*S) (string, []json.RawMessage)) ([]S, error) {
	var spec S
	if absent, err := component(raw, stage, depth, &spec); absent || err != nil {
		return specs, err
	}
	kind, inside := parts(&spec)
	if kind != "Sequence" {
		return append(specs, spec), nil
	}
	var err error
	for _, raw := range inside {
		if specs, err = flatten(specs, raw, stage, depth+1, parts); err != nil {
			return nil, err
		}
	}
	if len(specs) > maxParts {
		return nil, fmt.Errorf("%s: %d in a sequence, over %d", stage, len(specs), maxParts)
	}
	return specs, nil
}

// add makes an added token known: to the vocabulary and to the search for it in texts.
func (t *Tokenizer) add(token addedToken) error {
	if token.Content == "" {
		return nil
	}
	if err := t.nameAdded(token.Content, token.ID); err != nil {
		return err
	}
	t.hidden[token.ID] = token.Special
	if normalized := token.Normalized; normalized == nil && token.Special || normalized != nil && !*normalized {
		t.raw.add(token.Content, token)
		return nil
	}
	spelling := token.Content
	if t.normalize != nil {
		var err error
		if spelling, _, err = t.normalize(spelling, true); err != nil {
			return err
		}
	}
	t.normalized.add(spelling, token)
	return nil
}

// integer reads a number that has to be whole.
func integer(r gjson.Result) (int64, error) {
	if r.Type != gjson.Number {
		return 0, fmt.Errorf("%s is not a number", clip(r.Raw))
	}
	return strconv.ParseInt(r.Raw, 10, 64)
}
