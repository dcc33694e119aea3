package calib

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nibble/runtime"
)

// written runs a writer with so many sequences at a time.
func written(t *testing.T, m *runtime.Model, l *Language, s Settings, batch int) [][]int32 {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	w, err := newWriter(m, l, &s)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.run(context.Background(), batch, nil); err != nil {
		t.Fatal(err)
	}
	var list [][]int32
	tokens := 0
	for i, d := range w.started {
		if tokens >= s.wanted() {
			t.Errorf("sequence %d was not needed", i)
		}
		list = append(list, d.ids)
		tokens += len(d.ids)
	}
	if tokens < s.wanted() {
		t.Errorf("%d tokens, want %d", tokens, s.wanted())
	}
	return list
}

// What the model writes depends neither on how many sequences run together nor on the threads, whatever stands around a
// text and however documents end.
func TestSelfInvariance(t *testing.T) {
	one, two := demoModel(t, 1), demoModel(t, 2)
	newline := func(l *Language) *Language { // ends a document every few words
		id, ok := l.Tokenizer.ID("\u010a")
		if !ok {
			t.Fatal("no token for a newline")
		}
		l.Ends = []int32{id}
		return l
	}
	for name, tt := range map[string]struct {
		l *Language
		s Settings
	}{
		"no ends": {&Language{Tokenizer: plainLanguage(t).Tokenizer}, Settings{}},
		"short":   {newline(plainLanguage(t)), Settings{}},
		"packed":  {newline(withBOS(t)), Settings{Pack: true}},
		"chat":    {newline(withBOS(t)), Settings{Chat: true, Pack: true}},
	} {
		tt.s.Source, tt.s.Samples, tt.s.Length, tt.s.Seed = SelfSource, 3, 32, 3
		want := written(t, one, tt.l, tt.s, 1)
		if diff := cmp.Diff(want, written(t, one, tt.l, tt.s, 4)); diff != "" {
			t.Errorf("%s: four at a time: -want +got\n%s", name, diff)
		}
		if tt.s.Chat {
			if diff := cmp.Diff(want, written(t, two, tt.l, tt.s, 3)); diff != "" {
				t.Errorf("%s: three at a time, two threads: -want +got\n%s", name, diff)
			}
		}
		ends := 0
		for i, ids := range want {
			if len(ids) > 32 || len(ids) < 16 || (tt.s.Pack || tt.l.Ends == nil) && len(ids) < 32 {
				t.Errorf("%s: sequence %d has %d tokens", name, i, len(ids))
			}
			front := tt.l.front()
			if !slices.Equal(ids[:len(front)], front) || i > 0 && slices.Equal(ids[:8], want[0][:8]) {
				t.Errorf("%s: sequence %d begins with %v", name, i, ids[:8])
			}
			for j, id := range ids {
				if id == end && !tt.s.Chat {
					t.Errorf("%s: sequence %d has a special token at %d: %v", name, i, j, ids)
				}
				if slices.Contains(tt.l.Ends, id) {
					ends++
					if !tt.s.Pack || !tt.s.Chat && j+1 < len(ids) && ids[j+1] != bos {
						t.Errorf("%s: sequence %d goes on behind an end at %d: %v", name, i, j, ids)
					}
				}
			}
		}
		if short := len(want) > 3; short != (name == "short") || (ends > 0) != (name == "packed" || name == "chat") {
			t.Errorf("%s: %d sequences, %d ends inside", name, len(want), ends)
		}
	}
}

// With a chat template the model writes a question and its answer.
func TestSelfChat(t *testing.T) {
	l := withBOS(t)
	first, _ := l.Tokenizer.Token(bos)
	for _, ids := range written(t, demoModel(t, 1), l, Settings{Source: SelfSource, Samples: 2, Length: 64, Chat: true}, 2) {
		text := decoded(t, l, ids)
		question, answer, ok := strings.Cut(strings.TrimPrefix(text, first+"[user]"), "<|end|>[assistant]")
		if !strings.HasPrefix(text, first+"[user]") || !ok || question == "" || answer == "" || strings.Contains(question+answer, "<|end|>") {
			t.Errorf("sequence %q", text)
		}
	}
}

// The same sequences come on every machine: the digest was computed on amd64 with AVX-512.
func TestSelf(t *testing.T) {
	var steps []int
	progress := func(done, wanted int) {
		if wanted != 4*32 {
			t.Errorf("%d of %d tokens", done, wanted)
		}
		steps = append(steps, done)
	}
	q, err := Self(context.Background(), demoModel(t, 1), plainLanguage(t), Settings{Source: SelfSource, Samples: 4, Length: 32}, progress)
	if err != nil {
		t.Fatal(err)
	}
	const want = "4 sequences x 32 tokens = 128 tokens of text that the model wrote itself (sha256 "
	if got := q.String(); !strings.HasPrefix(got, want) || len(q.Notes) != 1 || !strings.HasPrefix(q.Notes[0], "seed 0; the first 4 tokens") {
		t.Errorf("%s; %q", got, q.Notes)
	}
	if got := q.Digest(); got != "29070190c8667e8196008bd5bbe377e5def2ef25c387c2d161d0c7720579d337" {
		t.Errorf("digest %s", got)
	}
	if !slices.IsSorted(steps) || len(steps) != 32 || steps[31] != 128 {
		t.Errorf("progress %v", steps)
	}
}

// Writing ends when it is no longer wanted, and settings that cannot be are refused.
func TestSelfRefusals(t *testing.T) {
	m, l := demoModel(t, 1), plainLanguage(t)
	ctx, cancel := context.WithCancel(context.Background())
	progress := func(done, _ int) {
		if done >= 10 {
			cancel()
		}
	}
	if q, err := Self(ctx, m, l, Settings{Source: SelfSource, Samples: 2, Length: 512}, progress); !errors.Is(err, context.Canceled) || q != nil {
		t.Errorf("%v, %v", q, err)
	}
	for want, s := range map[string]Settings{
		"a context of 2000 tokens: the model has 1024": {Length: 2000, Samples: 1},
		"no chat template": {Chat: true},
		"samples of 1 t":   {Length: 1},
	} {
		s.Source = SelfSource
		if _, err := Self(context.Background(), m, l, s, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
	if _, err := Self(context.Background(), m, withBOS(t), Settings{Source: SelfSource, Length: 8, Chat: true}, nil); err == nil ||
		!strings.Contains(err.Error(), "stand around every text") {
		t.Error(err)
	}
}
