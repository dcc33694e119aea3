//go:build parity

package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestParity compares with other people's tokenizers, which this repository does not carry. NIBBLE_TOKENIZERS is a
// folder of model folders, each with a tokenizer.json or tokenizer.model and either or both of
//
//	cases.json, chats.json   of testdata/golden.py FOLDER
//	vectors.inp, vectors.out the vocabulary tests of llama.cpp
func TestParity(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(os.Getenv("NIBBLE_TOKENIZERS"), "*"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("no folders in NIBBLE_TOKENIZERS: %v", err)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			tok, err := Load(os.DirFS(folder))
			if err != nil {
				t.Fatal(err)
			}
			cases := vectors(t, folder)
			n := len(cases)
			for _, c := range cases {
				got, err := tok.Encode(c.Text, false)
				if err != nil || !equal(got, c.IDs) {
					t.Errorf("%q: %d, want %d (%v)", c.Text, got, c.IDs, err)
				}
			}
			if raw, err := os.ReadFile(filepath.Join(folder, "cases.json")); err == nil {
				if err := json.Unmarshal(raw, &cases); err != nil {
					t.Fatal(err)
				}
				checkCases(t, tok, cases)
				n += len(cases)
			}
			if raw, err := os.ReadFile(filepath.Join(folder, "chats.json")); err == nil {
				var chats []chatCase
				if err := json.Unmarshal(raw, &chats); err != nil {
					t.Fatal(err)
				}
				checkChats(t, os.DirFS(folder), chats)
				n += len(chats)
			}
			t.Logf("%d cases", n)
		})
	}
}

func equal(a, b []int32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func vectors(t *testing.T, folder string) (cases []goldenCase) {
	inp, err := os.ReadFile(filepath.Join(folder, "vectors.inp"))
	if err != nil {
		return nil
	}
	out, err := os.ReadFile(filepath.Join(folder, "vectors.out"))
	if err != nil {
		t.Fatal(err)
	}
	texts := strings.Split(string(inp), "\n__ggml_vocab_test__\n")
	for i, line := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
		c := goldenCase{Text: texts[i]}
		for _, f := range strings.Fields(line) {
			id, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			c.IDs = append(c.IDs, int32(id))
		}
		cases = append(cases, c)
	}
	return cases
}

// BenchmarkParity encodes the text NIBBLE_CORPUS with each of the tokenizers, and loads them.
func BenchmarkParity(b *testing.B) {
	text, err := os.ReadFile(os.Getenv("NIBBLE_CORPUS"))
	if err != nil {
		b.Fatal(err)
	}
	folders, err := filepath.Glob(filepath.Join(os.Getenv("NIBBLE_TOKENIZERS"), "*"))
	if err != nil {
		b.Fatal(err)
	}
	for _, folder := range folders {
		name := filepath.Base(folder)
		b.Run(name+"/load", func(b *testing.B) {
			for b.Loop() {
				if _, err := Load(os.DirFS(folder)); err != nil {
					b.Fatal(err)
				}
			}
		})
		tok, err := Load(os.DirFS(folder))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/encode", func(b *testing.B) { benchmarkEncode(b, tok, string(text)) })
	}
}
