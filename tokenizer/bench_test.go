package tokenizer

import (
	"os"
	"testing"
)

func BenchmarkEncodeDemo(b *testing.B) {
	text, err := os.ReadFile("../demo/evaluation.txt")
	if err != nil {
		b.Fatal(err)
	}
	benchmarkEncode(b, demoTokenizer(b), string(text))
}

func BenchmarkDecodeDemo(b *testing.B) {
	text, err := os.ReadFile("../demo/evaluation.txt")
	if err != nil {
		b.Fatal(err)
	}
	tok := demoTokenizer(b)
	ids, err := tok.Encode(string(text), false)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := tok.Decode(ids, false); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkEncode(b *testing.B, tok *Tokenizer, text string) {
	b.Helper()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := tok.Encode(text, false); err != nil {
			b.Fatal(err)
		}
	}
}

func demoTokenizer(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := Load(os.DirFS("../demo"))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}
