package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The demo's reference is of the tokenizers library, through transformers.
func TestDemo(t *testing.T) {
	raw, err := os.ReadFile("../demo/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var ref struct {
		Prompt  string
		IDs     []int32 `json:"prompt_ids"`
		First   []int32 `json:"first_64_ids"`
		Count   int     `json:"tokens_evaluation"`
		Greedy  []int32 `json:"greedy_ids"`
		Written string  `json:"greedy_text"`
	}
	if err := json.Unmarshal(raw, &ref); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../demo/evaluation.txt")
	if err != nil {
		t.Fatal(err)
	}
	tok := demoTokenizer(t)
	ids, err := tok.Encode(ref.Prompt, true)
	if diff := cmp.Diff(ref.IDs, ids); diff != "" || err != nil {
		t.Errorf("prompt: %v (-want +got)\n%s", err, diff)
	}
	ids, err = tok.Encode(string(text), true)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ref.First, ids[:len(ref.First)]); diff != "" || len(ids) != ref.Count {
		t.Errorf("evaluation.txt: %d ids, want %d (-want +got)\n%s", len(ids), ref.Count, diff)
	}
	if got, err := tok.Decode(ref.Greedy, true); err != nil || got != ref.Written {
		t.Errorf("greedy text %q, want %q (%v)", got, ref.Written, err)
	}
	if tok.Size() != 1024 {
		t.Errorf("size %d", tok.Size())
	}
	if id, ok := tok.ID("<|end|>"); id != 0 || !ok {
		t.Errorf("<|end|> is %d, %v", id, ok)
	}
	if !tok.Special(0) || tok.Special(1) || tok.Special(-1) || tok.Special(1024) {
		t.Error("special is 0 alone")
	}
	if s, ok := tok.Token(0); s != "<|end|>" || !ok {
		t.Errorf("0 is %q, %v", s, ok)
	}
}

func TestRoundTrip(t *testing.T) {
	tok := demoTokenizer(t)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		ids, err := tok.Encode(text, true)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tok.Decode(ids, false); err != nil || got != text {
			t.Fatalf("%q became %q (%v)", text, got, err)
		}
	})
}

// Any ids at all: a stream ends up with what Decode says, and every text on the way is whole.
func TestStream(t *testing.T) {
	tok := demoTokenizer(t)
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(rapid.Int32Range(0, int32(tok.Size()-1))).Draw(t, "ids")
		want, err := tok.Decode(ids, true)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := streamed(tok, ids); err != nil || got != want {
			t.Fatalf("stream %q, want %q (%v)", got, want, err)
		}
	})
}

func TestStreamHoldsBack(t *testing.T) {
	bytes := func(text string) (ids []int32) { // in the demo, the bytes of its alphabet are the ids 1 to 256
		tok := demoTokenizer(t)
		for i := range len(text) {
			id, ok := tok.ID(spellBytes(text[i : i+1]))
			if !ok {
				t.Fatalf("no token for byte %#x", text[i])
			}
			ids = append(ids, id)
		}
		return ids
	}
	for _, c := range []struct {
		name string
		ids  []int32
		want []string // of each id, then of Flush
	}{
		{"emoji", bytes("🦙!"), []string{"", "", "", "🦙", "!", ""}},
		{"cjk", bytes("漢字"), []string{"", "", "漢", "", "", "字", ""}},
		{"cut short", bytes("a\xe6\xbc"), []string{"a", "", "", "\ufffd"}},
		{"broken off", bytes("\xf0\x9fx"), []string{"", "", "\ufffdx", ""}},
		{"no start", bytes("\xa6x"), []string{"\ufffd", "x", ""}},
		{"special", []int32{0, bytes("x")[0]}, []string{"", "x", ""}},
	} {
		s := demoTokenizer(t).Stream(true)
		for i, id := range c.ids {
			if got, err := s.Next(id); err != nil || got != c.want[i] {
				t.Errorf("%s: id %d: %q, want %q (%v)", c.name, i, got, c.want[i], err)
			}
		}
		if got, err := s.Flush(); err != nil || got != c.want[len(c.ids)] {
			t.Errorf("%s: flush: %q, want %q (%v)", c.name, got, c.want[len(c.ids)], err)
		}
	}
}

// Characters of byte tokens are shown when they are complete, not at the end of the run.
func TestStreamByteFallback(t *testing.T) {
	vocab := []string{"<0xE6>", "<0xBC>", "<0xA2>", "<0xFF>", "x"}
	makers, err := newDecoder(json.RawMessage(`{"type":"ByteFallback"}`))
	if err != nil {
		t.Fatal(err)
	}
	tok := Tokenizer{decoder: makers, tokens: vocab, hidden: make([]bool, len(vocab))}
	s := tok.Stream(false)
	for i, c := range []struct {
		id   int32
		want string
	}{{0, ""}, {1, ""}, {2, "漢"}, {3, ""}, {0, ""}, {4, "\ufffd\ufffdx"}} {
		if got, err := s.Next(c.id); err != nil || got != c.want {
			t.Errorf("step %d: %q, want %q (%v)", i, got, c.want, err)
		}
	}
}

func TestWrongIDs(t *testing.T) {
	tok := demoTokenizer(t)
	for _, id := range []int32{-1, 1024, 1 << 30} {
		if _, err := tok.Decode([]int32{5, id}, false); err == nil {
			t.Errorf("id %d was decoded", id)
		}
		if _, ok := tok.Token(id); ok {
			t.Errorf("id %d is a token", id)
		}
	}
	if _, err := tok.Encode("a\xff", false); err == nil {
		t.Error("broken UTF-8 was encoded")
	}
}

func TestLoad(t *testing.T) {
	var g struct {
		Models []struct {
			Name  string
			Model []byte
		}
	}
	readGolden(t, "sentencepiece.json", &g)
	model := g.Models[2].Model // pieces 0 to 2 are <unk> <s> </s>
	tok, err := Load(fstest.MapFS{
		"tokenizer.model": {Data: model},
		"tokenizer_config.json": {Data: []byte(`{"add_eos_token":true,"legacy":false,
			"added_tokens_decoder":{"1":{"content":"<s>","special":true},"900":{"content":"<|go|>","special":true}}}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := tok.Encode("<|go|>the", true)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, id := range ids {
		s, _ := tok.Token(id)
		got = append(got, s)
	}
	// With legacy: false, text behind a special token gets no space in front.
	if diff := cmp.Diff([]string{"<s>", "<|go|>", "t", "he", "</s>"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if tok.Size() != 901 {
		t.Errorf("size %d, want 901", tok.Size())
	}
	if text, err := tok.Decode(ids, true); err != nil || text != "the" {
		t.Errorf("decoded %q (%v)", text, err)
	}
	if _, err := tok.Decode([]int32{800}, true); err == nil {
		t.Error("an id in the gap was decoded")
	}
	if _, err := Load(fstest.MapFS{}); err == nil {
		t.Error("an empty folder was loaded")
	}
}

// tiny is a tokenizer.json with some parts replaced.
func tiny(parts string) []byte {
	if !strings.Contains(parts, `"model"`) {
		parts += `,"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}`
	}
	return []byte("{" + strings.TrimPrefix(parts, ",") + "}")
}

func TestRefusals(t *testing.T) {
	bpe := func(fields string) string { return `"model":{"type":"BPE",` + fields + `}` }
	deep := strings.Repeat(`{"type":"Sequence","normalizers":[`, 100) + strings.Repeat("]}", 100)
	for _, c := range []struct{ parts, want string }{
		{`"model":{"type":"WordPiece","vocab":{}}`, `"WordPiece"`},
		{`"model":{"type":"WordLevel","vocab":{}}`, `"WordLevel"`},
		{`"normalizer":{"type":"Nmt"}`, `"Nmt"`},
		{`"normalizer":{"type":"BertNormalizer"}`, `"BertNormalizer"`},
		{`"pre_tokenizer":{"type":"BertPreTokenizer"}`, "BertPreTokenizer"},
		{`"pre_tokenizer":{"type":"UnicodeScripts"}`, "UnicodeScripts"},
		{`"decoder":{"type":"WordPiece"}`, "WordPiece"},
		{`"decoder":{"type":"CTC"}`, "CTC"},
		{`"post_processor":{"type":"Other"}`, `"Other"`},
		{`"normalizer":` + deep, "levels"},
		{bpe(`"dropout":0.1,"vocab":{},"merges":[]`), "dropout"},
		{bpe(`"vocab":{"a":-1},"merges":[]`), "id -1"},
		{bpe(`"vocab":{"a":4000000000},"merges":[]`), "id 4000000000"},
		{bpe(`"vocab":{"a":0.5},"merges":[]`), "0.5"},
		{bpe(`"vocab":{"a":0,"b":0},"merges":[]`), "id 0"},
		{bpe(`"vocab":{"a":0},"merges":["a b"]`), "merge 0"},
		{bpe(`"vocab":{"a":0},"merges":["a"]`), "merge 0"},
		{bpe(`"vocab":{"a":0},"merges":[["a","a","a"]]`), "merge 0"},
		{`"model":{"type":"Unigram","vocab":[["a"]]}`, "entry 0"},
		{`"model":{"type":"Unigram","vocab":[["a",0]],"unk_id":1}`, "unk_id"},
		{`"added_tokens":[{"id":7,"content":"a"}]`, `"a"`},
		{`"added_tokens":[{"id":1,"content":"x"}]`, `"x"`},
		{`"added_tokens":[{"id":99999999,"content":"x"}]`, "99999999"},
		{`"post_processor":{"type":"BertProcessing","cls":["a",0],"sep":["b",9]}`, "id 9"},
		{`"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}]}`, `"x"`},
		{`"post_processor":{"type":"TemplateProcessing","single":[]}`, "Sequence A"},
		{`"pre_tokenizer":{"type":"Split","pattern":{"String":"a"},"behavior":"Odd"}`, `"Odd"`},
		{`"pre_tokenizer":{"type":"Metaspace","replacement":"__"}`, `"__"`},
		{`"pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"last"}`, `"last"`},
		{`"pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"first","add_prefix_space":false}`, `"first"`},
		{"\"version\":\"\xff\"", "not UTF-8"},
		{`"normalizer":{"type":"Precompiled","precompiled_charsmap":"/////w=="}`, "character map"},
		{`"decoder":{"type":"Strip","content":" ","start":-1}`, "start -1"},
		{`"truncation":`, "not JSON"},
	} {
		_, err := FromJSON(tiny(c.parts))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80s: error %v, want %q in it", c.parts, err, c.want)
		}
	}
	for _, regex := range []string{`[a&&b]`, `[a[b]]`, `\h`, `\bx`, `(?m:a)`, `a{,2}`, `(`, `a{1,2}+`, `\x{1F600}`, `[\W]`, strings.Repeat("a", maxPattern+1)} {
		spec, _ := json.Marshal(map[string]any{"type": "Split", "behavior": "Isolated", "pattern": map[string]string{"Regex": regex}})
		if _, err := FromJSON(tiny(`"pre_tokenizer":` + string(spec))); err == nil || !strings.Contains(err.Error(), "regular expression") {
			t.Errorf("%.20s: error %v", regex, err)
		}
	}
}

// An unk_token outside the vocabulary matters once a character is unknown, and an added token is none of the model's.
func TestUnknown(t *testing.T) {
	tok, err := FromJSON(tiny(`"model":{"type":"BPE","vocab":{"a":0},"merges":[],"unk_token":"?"},
		"added_tokens":[{"id":1,"content":"é","single_word":true}]`))
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := tok.Encode("é a", false); err == nil {
		t.Errorf("a space became %d", ids)
	}
	if ids, err := tok.Encode("aéa", false); err == nil {
		t.Errorf("é within a word became %d", ids)
	}
	if ids, err := tok.Encode("a", false); err != nil || len(ids) != 1 {
		t.Errorf("%d (%v)", ids, err)
	}
}

// A pattern that takes exponential time ends with an error.
func TestSlowPattern(t *testing.T) {
	p, err := newPattern(patternSpec{Regex: new(`(a|aa)+$`)})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.find(strings.Repeat("a", 60)+"b", func(_, _ int) {}); err == nil {
		t.Error("no error")
	}
}

// Replacements that make ever more of the text end with an error.
func TestGrowingText(t *testing.T) {
	grow := `{"type":"Replace","pattern":{"String":"a"},"content":"` + strings.Repeat("a", 10000) + `"}`
	tok, err := FromJSON(tiny(`"normalizer":{"type":"Sequence","normalizers":[` + grow + `,` + grow + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tok.Encode("aaaaaa", false); err == nil {
		t.Error("no error")
	}
}

// Cutting a text at its seams changes no id.
func TestSeams(t *testing.T) {
	var g golden
	readGolden(t, "golden.json", &g)
	for _, whole := range g.Whole {
		if !strings.HasPrefix(whole.Name, "llama") {
			continue
		}
		with, err := FromJSON(whole.Tokenizer)
		if err != nil {
			t.Fatal(err)
		}
		without, err := FromJSON(whole.Tokenizer)
		if err != nil {
			t.Fatal(err)
		}
		without.pretokenize = nil
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.StringOf(rapid.SampledFrom([]rune("theworll  abxyzé漢\n"))).Draw(t, "text")
			want, errWant := without.Encode(text, false)
			got, errGot := with.Encode(text, false)
			if diff := cmp.Diff(want, got); diff != "" || errWant != nil || errGot != nil {
				t.Fatalf("%v %v (-whole +cut)\n%s", errWant, errGot, diff)
			}
		})
	}
}

// One tokenizer, many goroutines, more words than a cache holds.
func TestConcurrent(t *testing.T) {
	tok := demoTokenizer(t)
	errs := make(chan error)
	for worker := range 4 {
		go func() {
			var b strings.Builder
			for i := range cachedWords / 2 {
				fmt.Fprintf(&b, " x%dy", i*4+worker)
			}
			ids, err := tok.Encode(b.String(), false)
			if err == nil {
				var text string
				if text, err = tok.Decode(ids, false); err == nil && text != b.String() {
					err = fmt.Errorf("worker %d: another text", worker)
				}
			}
			errs <- err
		}()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
