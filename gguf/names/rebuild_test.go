package names

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nibble/gguf"
)

// metadata is a file that has nothing but entries.
type metadata []gguf.Entry

func (m metadata) Value(key string) (any, bool) {
	for _, e := range m {
		if e.Key == key {
			return e.Value, true
		}
	}
	return nil, false
}

func (m metadata) Lookup(string) (gguf.Tensor, bool)  { return gguf.Tensor{}, false }
func (m metadata) ReadAt(string, []byte, int64) error { return nil }

// BigEndian is of no matter to values.
func (m metadata) BigEndian() bool { return false }

// A tokenizer that goes into a file and comes back gives the same entries again.
func TestTokenizersInverse(t *testing.T) {
	config := []byte(`{"bos_token": "<|end|>", "eos_token": "a", "pad_token": "ab"}`)
	for _, test := range []struct {
		raw    string
		config []byte
		size   int
	}{{bytesTokenizer, config, 9}, {piecesTokenizer, nil, 8}, {strings.Replace(piecesTokenizer, `"Prepend"`, `"NFC"`, 1), nil, 8}} {
		want, err := Tokenizer([]byte(test.raw), test.config, "{{x}}", test.size)
		if err != nil {
			t.Fatal(err)
		}
		raw, back, err := Tokenizers(metadata(want))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Tokenizer(raw, back, "{{x}}", test.size)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v\n%s\n%s", err, raw, diff)
		}
		if !strings.Contains(string(back), `"chat_template":"{{x}}"`) {
			t.Errorf("no template in %s", back)
		}
	}
}

// TestTokenizersRefusals checks what is said of tokenizers that do not come back.
func TestTokenizersRefusals(t *testing.T) {
	good, err := Tokenizer([]byte(bytesTokenizer), nil, "", 8)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		key   string
		value any
		want  string
	}{
		{"tokenizer.ggml.model", "bert", `tokenizer.ggml.model "bert" is not known`},
		{"tokenizer.ggml.model", "llama", "tokenizer.ggml.scores is missing"},
		{"tokenizer.ggml.pre", "falcon", `tokenizer.ggml.pre "falcon" is no way`},
		{"tokenizer.ggml.tokens", 7, "tokenizer.ggml.tokens is missing"},
		{"tokenizer.ggml.tokens", []string{"a"}, "tokenizer.ggml.token_type is missing, or has not the length"},
		{"tokenizer.ggml.tokens", []string{"a", "b", "a", "c", "d", "e", "f", "g"}, "tokens 0 and 2 are both"},
		{"tokenizer.ggml.merges", nil, "tokenizer.ggml.merges is missing"},
		{"tokenizer.ggml.merges", []string{"ab"}, "merge 0"},
	} {
		entries := append(metadata{{Key: test.key, Value: test.value}}, good...)
		if _, _, err := Tokenizers(entries); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %v: error %v, want %q", test.key, test.value, err, test.want)
		}
	}
}

// FuzzTokenizers takes a few entries apart that a file may hold.
func FuzzTokenizers(f *testing.F) {
	f.Add("gpt2", "smollm", "a\nb\nab", "a b", uint32(1))
	f.Add("llama", "default", "<unk>\n<s>\na\nb\nab", "", uint32(0))
	f.Fuzz(func(t *testing.T, model, pre, tokens, merges string, bos uint32) {
		list := strings.Split(tokens, "\n")
		types, scores := make([]int32, len(list)), make([]float32, len(list))
		for i, s := range list {
			types[i], scores[i] = int32(len(s)%7), -float32(i)
		}
		entries := metadata{{Key: "tokenizer.ggml.model", Value: model}, {Key: "tokenizer.ggml.pre", Value: pre},
			{Key: "tokenizer.ggml.tokens", Value: list}, {Key: "tokenizer.ggml.token_type", Value: types},
			{Key: "tokenizer.ggml.scores", Value: scores}, {Key: "tokenizer.ggml.merges", Value: strings.Split(merges, "\n")},
			{Key: "tokenizer.ggml.bos_token_id", Value: bos}}
		raw, _, err := Tokenizers(entries)
		if err == nil && len(raw) == 0 {
			t.Fatal("neither a tokenizer nor an error")
		}
	})
}
