package calib

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkLoad takes the default sequences from 20 MB in 20,000 documents, of which it tokenizes a part.
func BenchmarkLoad(b *testing.B) {
	var text strings.Builder
	for i := range 20000 {
		text.WriteString(`{"text":"` + story(i, 100) + "\"}\n")
	}
	path := write(b, filepath.Join(b.TempDir(), "rows.jsonl"), text.String())
	l := plainLanguage(b)
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := Load(context.Background(), l, Settings{Source: path}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSelf has the built-in model write 32 sequences together, on one thread.
func BenchmarkSelf(b *testing.B) {
	m, l := demoModel(b, 1), plainLanguage(b)
	s := Settings{Source: SelfSource, Samples: 32, Length: 64}
	for b.Loop() {
		if _, err := Self(context.Background(), m, l, s, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*s.wanted())/b.Elapsed().Seconds(), "tokens/s")
}
