package names

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nibble/gguf"
)

const (
	bytesTokenizer = `{"added_tokens": [{"id": 4, "content": "<|end|>", "special": true}, {"id": 5, "content": "<x>", "special": false}],
		"normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "use_regex": true},
		"post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "<|end|>"}}]},
		"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3}, "merges": [["a", "b"]]}}`
	piecesTokenizer = `{"added_tokens": [{"id": 0, "content": "<unk>", "special": true}, {"id": 1, "content": "<s>", "special": true}],
		"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}]}, "pre_tokenizer": null,
		"post_processor": {"type": "Sequence", "processors": [{"type": "TemplateProcessing",
			"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]}]},
		"model": {"type": "BPE", "byte_fallback": true, "unk_token": "<unk>", "merges": ["a b", "ab a", "a ba", "b a"],
			"vocab": {"<unk>": 0, "<s>": 1, "<0x0A>": 2, "a": 3, "b": 4, "ab": 5, "aba": 6, "ba": 7}}}`
)

func TestByteTokenizer(t *testing.T) {
	got, err := Tokenizer([]byte(bytesTokenizer), []byte(`{"bos_token": {"content": "<|end|>"}, "eos_token": "a", "pad_token": null}`), "{{x}}", 8)
	want := []gguf.Entry{
		{Key: "tokenizer.ggml.model", Value: "gpt2"}, {Key: "tokenizer.ggml.pre", Value: "gpt-2"},
		{Key: "tokenizer.ggml.tokens", Value: []string{"a", "b", "ab", "Ġ", "<|end|>", "<x>", "[PAD6]", "[PAD7]"}},
		{Key: "tokenizer.ggml.token_type", Value: []int32{1, 1, 1, 1, 3, 4, 5, 5}},
		{Key: "tokenizer.ggml.merges", Value: []string{"a b"}},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(4)}, {Key: "tokenizer.ggml.eos_token_id", Value: uint32(4)},
		{Key: "tokenizer.ggml.add_bos_token", Value: false}, {Key: "tokenizer.ggml.add_eos_token", Value: true},
		{Key: "tokenizer.chat_template", Value: "{{x}}"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestPieceTokenizer(t *testing.T) {
	got, err := Tokenizer([]byte(piecesTokenizer), nil, "", 8)
	want := []gguf.Entry{
		{Key: "tokenizer.ggml.model", Value: "llama"}, {Key: "tokenizer.ggml.pre", Value: "default"},
		{Key: "tokenizer.ggml.tokens", Value: []string{"<unk>", "<s>", "<0x0A>", "a", "b", "ab", "aba", "ba"}},
		{Key: "tokenizer.ggml.token_type", Value: []int32{2, 3, 6, 1, 1, 1, 1, 1}},
		{Key: "tokenizer.ggml.scores", Value: []float32{0, 0, 0, 0, 0, -1, -2, -4}}, // aba by its first merge
		{Key: "tokenizer.ggml.add_space_prefix", Value: true},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(1)},
		{Key: "tokenizer.ggml.add_bos_token", Value: true}, {Key: "tokenizer.ggml.add_eos_token", Value: false},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestSplits checks the names of splits that other models' tokenizers have.
func TestSplits(t *testing.T) {
	regex := func(s string) string {
		s = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s)
		return `{"type": "Split", "pattern": {"Regex": "` + s + `"}, "behavior": "Isolated", "invert": false}`
	}
	const end = `{"type": "ByteLevel", "use_regex": false}`
	for _, test := range []struct {
		steps  []string
		ignore string
		want   string
	}{
		{[]string{`{"type": "Digits", "individual_digits": true}`, `{"type": "ByteLevel", "use_regex": true}`}, "false", "smollm"},
		{[]string{regex(wordsLlama3), end}, "true", "llama-bpe"},
		{[]string{regex(wordsLlama3), end}, "false", "dbrx"},
		{[]string{regex(wordsQwen2), end}, "false", "qwen2"},
		{[]string{regex(`\p{N}{1,3}`), regex("[一-龥぀-ゟ゠-ヿ]+"), regex(wordsSpark), `{"type": "Digits", "individual_digits": true}`, end},
			"false", "spark2_5"},
		{[]string{regex(wordsQwen2), end}, "true", ""},
		{[]string{regex("x"), end}, "false", ""},
		{[]string{`{"type": "Whitespace"}`}, "false", ""},
	} {
		raw := strings.Replace(bytesTokenizer, `{"type": "ByteLevel", "use_regex": true}`,
			`{"type": "Sequence", "pretokenizers": [`+strings.Join(test.steps, ",")+`]}`, 1)
		raw = strings.Replace(raw, `"type": "BPE"`, `"type": "BPE", "ignore_merges": `+test.ignore, 1)
		got, err := Tokenizer([]byte(raw), nil, "", 6)
		switch {
		case test.want == "" && (err == nil || !strings.Contains(err.Error(), "in llama.cpp")):
			t.Errorf("%s: error %v", test.steps, err)
		case test.want != "" && (err != nil || got[1].Value != test.want):
			t.Errorf("%s: %v, %v, want %s", test.steps, got, err, test.want)
		}
	}
}

func TestTokenizerRefusals(t *testing.T) {
	for _, test := range []struct{ old, new, config, want string }{
		{"{", "[", "", "not JSON"},
		{`"a": 0`, `"a": 0`, "{", "not JSON"},
		{`"BPE"`, `"Unigram"`, "", `model of type "Unigram"`},
		{`"a": 0`, `"a": 6`, "", `token "a" has id 6, and the embedding 6 rows`},
		{`"a": 0`, `"a": -1`, "", `token "a" has id -1`},
		{`"a": 0`, `"a": "0"`, "", `token "a" has id "0"`},
		{`"a": 0`, `"a": 1`, "", `tokens "a" and "b" have both id 1`},
		{`["a", "b"]`, `["a"]`, "", "merge 0"},
		{`["a", "b"]`, `"a  b"`, "", "merge 0"},
		{`["a", "b"]`, `["a ", "b"]`, "", "merge 0"},
		{`"SpecialToken": {"id": "<|end|>"}`, `"SpecialToken": {"id": "<y>"}`, "", `eos_token "<y>" is no token`},
		{`"a": 0`, `"a": 0`, `{"pad_token": "<y>"}`, `pad_token "<y>" is no token`},
	} {
		raw := strings.Replace(bytesTokenizer, test.old, test.new, 1)
		if _, err := Tokenizer([]byte(raw), []byte(test.config), "", 6); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.new, err, test.want)
		}
	}
}

// FuzzTokenizer converts arbitrary files: there is a type for every token, and a file can hold what comes out.
func FuzzTokenizer(f *testing.F) {
	f.Add([]byte(bytesTokenizer), []byte(`{"eos_token": "a"}`))
	f.Add([]byte(piecesTokenizer), []byte{})
	f.Fuzz(func(t *testing.T, raw, config []byte) {
		entries, err := Tokenizer(raw, config, "", 9)
		if err != nil {
			return
		}
		if _, err := gguf.NewPlan("m", entries, nil, 0); err != nil {
			t.Fatal(err)
		}
		if list, types := entries[2].Value.([]string), entries[3].Value.([]int32); len(list) != 9 || len(types) != 9 {
			t.Fatalf("%d tokens, %d types", len(list), len(types))
		}
	})
}
