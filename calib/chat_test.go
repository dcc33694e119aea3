package calib

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"nibble/tokenizer"
)

// texts returns what the sequences of a source say, sorted.
func texts(t *testing.T, l *Language, s Settings) (*Sequences, []string) {
	t.Helper()
	q, err := Load(context.Background(), l, s)
	if q == nil {
		t.Fatal(err)
	}
	var list []string
	for _, ids := range q.IDs {
		list = append(list, decoded(t, l, ids))
	}
	slices.Sort(list)
	return q, list
}

// Conversations are written by the template, as they would be served: what begins them is not added again, and one that
// ends with a question has the beginning of the answer. One that the template refuses is left out and noted.
func TestChat(t *testing.T) {
	l := withBOS(t)
	first, _ := l.Tokenizer.Token(bos)
	path := write(t, filepath.Join(t.TempDir(), "chat.jsonl"), `{"messages":[{"role":"user","content":"How are you?"},{"role":"assistant","content":"Well."}]}
{"messages":[{"role":"system","content":"not with this template"}]}
{"messages":[{"role":"user","content":"Where is the captain?"}]}`)
	s := Settings{Source: path, Samples: 100, Length: 64, Chat: true}
	q, got := texts(t, l, s)
	want := []string{
		first + "[user]How are you?<|end|>[assistant]Well.<|end|>",
		first + "[user]Where is the captain?<|end|>[assistant]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if q.Documents != 3 || q.Used != 2 || len(q.Notes) != 1 || !strings.Contains(q.Notes[0], "refused 1 conversation, the first with: tokenizer: chat template: ") {
		t.Errorf("%s, notes %q", q, q.Notes)
	}
	for _, ids := range q.IDs {
		if ids[0] != bos || slices.Contains(ids[1:], bos) || !slices.Contains(ids, end) {
			t.Errorf("sequence %v", ids)
		}
	}
	// Packed, conversations follow each other as the template ends and begins them.
	s.Pack = true
	_, got = texts(t, l, s)
	joined := []string{want[0] + want[1]}
	if diff := cmp.Diff(joined, got); diff != "" {
		t.Errorf("packed: -want +got\n%s", diff)
	}
}

// A template that asks for the date is told the same one on every day.
func TestChatDate(t *testing.T) {
	l := withBOS(t)
	chat, err := tokenizer.LoadChat(fstest.MapFS{"chat_template.jinja": {Data: []byte(`{{ strftime_now("%d %b %Y") }}: {{ messages[0].content }}`)}})
	if err != nil {
		t.Fatal(err)
	}
	l.Chat = chat
	got, err := l.render([]tokenizer.Message{{Role: "user", Content: "Hello."}})
	if got != "26 Jul 2024: Hello." || err != nil || !chat.Date.IsZero() {
		t.Errorf("%q, %v", got, err)
	}
}

// A plain text becomes turns of a user, each short enough for one sequence.
func TestChatText(t *testing.T) {
	l := withBOS(t)
	path := write(t, filepath.Join(t.TempDir(), "text.txt"), strings.Repeat("It was with the captain that he had been there.\n", 50))
	_, got := texts(t, l, Settings{Source: path, Samples: 100, Length: 256, Chat: true})
	if len(got) < 2 {
		t.Fatalf("%d sequences", len(got))
	}
	first, _ := l.Tokenizer.Token(bos)
	for _, text := range got {
		if !strings.HasPrefix(text, first+"[user]It was with") || !strings.HasSuffix(text, "<|end|>[assistant]") {
			t.Errorf("sequence %q", text)
		}
	}
}

// The messages of a Parquet file are put together from their columns.
func TestParquetMessages(t *testing.T) {
	l := withBOS(t)
	first, _ := l.Tokenizer.Token(bos)
	s := Settings{Source: "../internal/parquet/testdata/messages.parquet", Samples: 100, Length: 32, Chat: true}
	q, got := texts(t, l, s)
	want := []string{
		first + "[user]Hello?<|end|>[assistant]Good day.<|end|>",
		first + "[user]Who?<|end|>[assistant]Me.<|end|>[user]Oh.<|end|>[assistant]",
	}
	// Of the third one the content is null, which leaves too little.
	if diff := cmp.Diff(want, got); diff != "" || q.Documents != 3 || q.Short != 1 {
		t.Errorf("%s, %d short (-want +got)\n%s", q, q.Short, diff)
	}
	s.Chat = false
	for field, want := range map[string]string{"messages": "column messages is a list: messages need the model's chat template",
		"": `no field text; it has ["prompt" "messages"]`} {
		s.Field = field
		if _, err := Load(context.Background(), l, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("field %q: %v, want %q", field, err, want)
		}
	}
	s.Source, s.Field = "../internal/parquet/testdata/plain-snappy.parquet", "id"
	if _, err := Load(context.Background(), l, s); err == nil || !strings.Contains(err.Error(), `column "id" is not of byte strings`) {
		t.Errorf("numbers: %v", err)
	}
}
