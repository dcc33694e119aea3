package calib

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"

	"nibble/build"
	"nibble/demo"
	"nibble/hf"
	"nibble/runtime"
	"nibble/tokenizer"
)

// end is the demo's <|end|>, bos a token that withBOS puts in front of every text.
const end, bos = 0, 1

// plainLanguage is the demo's: nothing stands around a text.
func plainLanguage(t testing.TB) *Language {
	t.Helper()
	tok, err := tokenizer.Load(demo.FS())
	if err != nil {
		t.Fatal(err)
	}
	return &Language{Tokenizer: tok, Ends: []int32{end}}
}

// withBOS is the demo's with a post-processor that puts token 1 in front, and with a chat template.
func withBOS(t testing.TB) *Language {
	t.Helper()
	raw, err := fs.ReadFile(demo.FS(), "tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	file["post_processor"] = map[string]any{
		"type":           "TemplateProcessing",
		"single":         []any{map[string]any{"SpecialToken": map[string]any{"id": "BOS"}}, map[string]any{"Sequence": map[string]any{"id": "A"}}},
		"special_tokens": map[string]any{"BOS": map[string]any{"ids": []int{bos}}},
	}
	if raw, err = json.Marshal(file); err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.FromJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := tok.Token(bos)
	template := "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}" +
		"[{{ m.role }}]{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
	config, err := json.Marshal(map[string]string{"bos_token": first, "chat_template": template})
	if err != nil {
		t.Fatal(err)
	}
	chat, err := tokenizer.LoadChat(fstest.MapFS{"tokenizer_config.json": {Data: config}})
	if err != nil {
		t.Fatal(err)
	}
	return &Language{Tokenizer: tok, Chat: chat, Ends: []int32{end}}
}

// demoModel is the demo in float32.
func demoModel(t testing.TB, threads int) *runtime.Model {
	t.Helper()
	f, err := hf.NewFolder("", demo.FS(), "")
	if err != nil {
		t.Fatal(err)
	}
	b, err := build.Open(f, hf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := runtime.Load(b, runtime.Config{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Close()
		b.Set.Close()
	})
	return m
}

// write makes a file, compressed as its name says.
func write(t testing.TB, path, text string) string {
	t.Helper()
	var b bytes.Buffer
	switch filepath.Ext(path) {
	case ".gz":
		w := gzip.NewWriter(&b)
		fmt.Fprint(w, text)
		w.Close()
	case ".zst":
		w, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, text)
		w.Close()
	default:
		b.WriteString(text)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// story is document number i of a test: words of its number, so that a sequence shows where it comes from.
func story(i, words int) string {
	var b strings.Builder
	for w := range words {
		fmt.Fprintf(&b, "d%dw%d ", i, w)
	}
	return b.String()
}

// decoded returns the text of a sequence.
func decoded(t testing.TB, l *Language, ids []int32) string {
	t.Helper()
	s, err := l.Tokenizer.Decode(ids, false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
