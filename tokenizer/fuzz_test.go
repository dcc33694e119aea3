package tokenizer

import (
	"encoding/json"
	"testing"
	"testing/fstest"
)

// use encodes and decodes with whatever a file made. It must end, and its ids must be the tokenizer's.
func use(t *testing.T, tok *Tokenizer) {
	t.Helper()
	for _, text := range []string{"", "Hello  world's 123\n🦙 <s>ab", "▁é\u0301"} {
		ids, err := tok.Encode(text, true)
		if err != nil {
			continue
		}
		for _, id := range ids {
			if id < 0 || int(id) >= tok.Size() {
				t.Fatalf("id %d of %d", id, tok.Size())
			}
		}
		if _, err := tok.Decode(ids, true); err != nil {
			continue
		}
		if _, err := streamed(tok, ids); err != nil {
			t.Fatalf("decoded, but not as a stream: %v", err)
		}
	}
}

// FuzzJSON wants an error or a tokenizer that works of any tokenizer.json.
func FuzzJSON(f *testing.F) {
	var g golden
	readGolden(f, "golden.json", &g)
	for _, whole := range g.Whole {
		if len(whole.Tokenizer) < 4000 {
			f.Add([]byte(whole.Tokenizer))
		}
	}
	add := func(stage string, spec json.RawMessage) {
		f.Add([]byte(`{"` + stage + `":` + string(spec) +
			`,"model":{"type":"BPE","vocab":{"H":0,"e":1,"l":2,"o":3," ":4,"ll":5},"merges":["l l"]},"added_tokens":[{"id":9,"content":"<s>","rstrip":true}]}`))
	}
	for _, s := range g.Normalizer {
		add("normalizer", s.Spec)
	}
	for _, s := range g.PreTokenizer {
		add("pre_tokenizer", s.Spec)
	}
	for _, s := range g.Decoder {
		add("decoder", s.Spec)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if tok, err := FromJSON(raw); err == nil {
			use(t, tok)
		}
	})
}

// FuzzModel wants the same of any tokenizer.model.
func FuzzModel(f *testing.F) {
	var g struct{ Models []struct{ Model []byte } }
	readGolden(f, "sentencepiece.json", &g)
	for _, m := range g.Models {
		f.Add(m.Model)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if tok, err := FromSentencePiece(raw); err == nil {
			use(t, tok)
		}
	})
}

// FuzzChat wants an error or a text of any template, and soon.
func FuzzChat(f *testing.F) {
	var g []struct{ Template string }
	readGolden(f, "chats.json", &g)
	for _, c := range g {
		f.Add(c.Template)
	}
	f.Fuzz(func(t *testing.T, template string) {
		chat, err := LoadChat(fstest.MapFS{"chat_template.jinja": {Data: []byte(template)}})
		if err != nil {
			return
		}
		_, _ = chat.Render([]Message{{Role: "user", Content: "Hi"}, {Role: "assistant"}}, true, nil)
	})
}
