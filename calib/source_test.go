package calib

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"nibble/internal/parquet"
	"nibble/tokenizer"
)

// What is no UTF-8 text is refused in one line that has the file, the place and the rule; a stray byte is not.
func TestEncodings(t *testing.T) {
	long := strings.Repeat("é", 1<<19)
	tests := []struct {
		raw, want string // want begins with ! if it is an error
	}{
		{"plain\n", "plain\n"},
		{"\ufeffmark", "mark"},
		{"\ufeff", ""},
		{"", ""},
		{"a\x80b", "a\ufffdb"},
		{"cut off: \xe4\xb8", "cut off: \ufffd"},
		{"three\xf0\x9f\xa6 of four", "three\ufffd of four"},
		{long + "\xff" + "\xff", long + "\ufffd\ufffd"}, // the second megabyte has one of its own
		{"na\xefve caf\xe9", "!byte 9: not UTF-8: byte 0xe9, broken character number 2; convert it first (iconv -f latin1 -t utf-8, if it is Latin-1)"},
		{"\xff\xfea\x00", "!byte 0: the byte order mark ff fe of utf-16; convert it first (iconv -f utf-16 -t utf-8)"},
		{"\xfe\xff\x00a", "!byte 0: the byte order mark fe ff of utf-16"},
		{"\xff\xfe\x00\x00a\x00\x00\x00", "!byte 0: the byte order mark ff fe 00 00 of utf-32"},
		{"a\x00b\x00", "!byte 1: a zero byte: a binary file, or UTF-16"},
		{long + "PK\x03\x04\x00", "!byte 1048580: a zero byte"},
	}
	for _, tt := range tests {
		for name, reader := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r },
			"half": iotest.HalfReader, "bytes": iotest.OneByteReader, "with the end": iotest.DataErrReader} {
			if name == "bytes" && len(tt.raw) > 100 {
				continue
			}
			got, err := io.ReadAll(newPlain("file", reader(strings.NewReader(tt.raw))))
			if want, ok := strings.CutPrefix(tt.want, "!"); ok {
				if !errors.Is(err, ErrSource) || !strings.HasPrefix(err.Error(), "calib: file: "+want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%.20q, %s: %v, want %q", tt.raw, name, err, want)
				}
			} else if string(got) != tt.want || err != nil {
				t.Errorf("%.20q, %s: %.40q, %v", tt.raw, name, got, err)
			}
		}
	}
}

// gather returns what documents hand on.
func gather(size int) (*documents, *[]part) {
	var list []part
	d := &documents{size: size}
	d.emit = func(p part) error {
		list = append(list, p)
		return nil
	}
	return d, &list
}

// Lines that begin with the separator separate documents, others do not; blank ones are none.
func TestSeparators(t *testing.T) {
	d, list := gather(1 << 10)
	const text = "\n<|endoftext|>\none\nstill one <|endoftext|> here\n\n<|endoftext|>two\r\n<|endoftext|>\n \n\t\n<|endoftext|>\n  three"
	if err := d.plainText(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	want := []string{"one\nstill one <|endoftext|> here", "two", "  three"}
	var got []string
	for i, p := range *list {
		got = append(got, p.text)
		if !p.first || !p.last || p.document != i {
			t.Errorf("part %d: %+v", i, p)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || d.count != 3 {
		t.Errorf("%d documents (-want +got)\n%s", d.count, diff)
	}
}

// Long documents are cut behind lines, else before spaces, else between characters, and nothing is lost.
func TestParts(t *testing.T) {
	for _, text := range []string{strings.Repeat("some words\n", 100), strings.Repeat("words without lines ", 50), strings.Repeat("字", 300),
		strings.Repeat("🦙", 300), strings.Repeat("x\n"+strings.Repeat("y", 150)+" ", 9) + "z"} {
		d, list := gather(64)
		if err := d.plainText(strings.NewReader(text + "\n<|endoftext|>\nnext")); err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for i, p := range *list {
			if len(p.text) > 64 || !utf8.ValidString(p.text) {
				t.Errorf("part %q", p.text)
			}
			if p.document == 0 {
				all.WriteString(p.text)
			}
			if p.first != (i == 0 || p.document == 1) || p.last != (i >= len(*list)-2) {
				t.Errorf("part %d of %d: %+v", i, len(*list), p)
			}
		}
		if got := all.String(); got != strings.TrimRight(text, "\n") {
			t.Errorf("%.30q became %.30q (%d bytes of %d)", text, got, len(got), len(text))
		}
	}
	for text, want := range map[string]int{"0123456\n89": 8, "01234 6789": 5, "0123456789": 8, "012345🦙": 6, "\n123456789": 8} {
		if got := breakpoint(text, 8); got != want {
			t.Errorf("%q is cut at %d, want %d", text, got, want)
		}
	}
}

// readRows reads a table from a text.
func readRows(text string, chat bool, fields ...string) ([]part, error) {
	d, list := gather(1 << 20)
	r := &rows{file: "file", fields: fields, chat: chat, to: d}
	err := r.json(newPlain("file", strings.NewReader(text)))
	return *list, err
}

// Rows may be lines, a list, or spread over lines.
func TestRows(t *testing.T) {
	want := []string{"one", "two\n\u2042 \"x\"", "\ufffd"}
	values := []string{`{"id":1, "text":"one"}`, `{"text":"two\n\u2042 \"x\"","id":[{}]}`, `{"text":null}`, `{}`, `{"text":"\n"}`, `{"text":"\ud800"}`}
	for name, text := range map[string]string{
		"lines":    strings.Join(values, "\n"),
		"windows":  strings.Join(values, "\r\n") + "\r\n\r\n",
		"one line": strings.Join(values, ""),
		"list":     "\n [" + strings.Join(values, ",\n") + "]\n",
		"spread":   strings.ReplaceAll(strings.Join(values, "\n"), "{", "{\n"),
	} {
		list, err := readRows(text, false, "text")
		var got []string
		for _, p := range list {
			got = append(got, p.text)
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
}

// What is no table is refused with the row.
func TestRowRefusals(t *testing.T) {
	for text, want := range map[string]string{
		`{"txt":"a","body":"b"}`:                   `row 1: no field text; it has ["body" "txt"]`,
		`{}`:                                       "row 1: no field text; it has []",
		`{"text":"a"}` + "\n" + `{"text":7}`:       "row 2: field text is a number: want a text",
		`{"text":{"a":1}}`:                         `row 1: field text is an object: want a text`,
		`{"text":false}`:                           `row 1: field text is a truth value: want a text`,
		`{"text":["a"]}`:                           "row 1: field text is a list: messages need the model's chat template",
		`{"text":"a"}` + "\n" + `{"text":"b`:       "row 2: byte 12: the file ends inside it",
		`{"text":"a"}` + "\n" + `{"text" "b"}`:     "row 2: byte 12: invalid character '\"' after object key",
		`[{"text":"a"},`:                           "row 2: byte 14: the file ends inside it",
		`[{"text":"a"}] x`:                         "row 2: byte 15: invalid character 'x'",
		`[{"text":"a"}] 1`:                         "row 2: byte 16: something follows the list of rows",
		`{"text":"a"}` + "\n" + `["b"]`:            "row 2: byte 18: a JSON array: want an object with fields",
		`"text"`:                                   "row 1: byte 6: a JSON string: want an object with fields",
		"{\"text\":\"\x00\"}":                      "byte 9: a zero byte",
		strings.Repeat("[", 20000):                 "row 1: byte",
		`{"text":"a"} ` + strings.Repeat("[", 1e5): "row 2: byte",
	} {
		_, err := readRows(text, false, "text")
		if !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	fields := slices.Repeat([]string{"field"}, 30)
	if got := listed(fields); !strings.HasSuffix(got, `"field"] and 10 more`) {
		t.Error(got)
	}
}

// A row of more than 64 MB is refused before memory holds it.
func TestLongRow(t *testing.T) {
	d, _ := gather(1 << 20)
	r := &rows{file: "file", fields: []string{"text"}, to: d}
	err := r.json(io.MultiReader(strings.NewReader(`{"text":"a"} {"text":"`), endless{}))
	if err == nil || !strings.Contains(err.Error(), "row 2: byte 12: longer than 64 MB") {
		t.Error(err)
	}
}

// endless is a text without an end.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

// Conversations come as OpenAI's and as ShareGPT's; what messages have besides goes to the template.
func TestConversations(t *testing.T) {
	list, err := readRows(`{"text":"unused","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[1]}]}
		{"messages":[]}
		{"messages":[{"from":"human","value":"Ho"},{"from":"gpt","value":"Hum"}]}
		{"messages":[{"role":"user","content":[{"type":"text","text":"in parts"}]}]}
		{"messages":"a plain text"}`, true, "messages", "text")
	if err != nil {
		t.Fatal(err)
	}
	want := [][]tokenizer.Message{
		{{Role: "user", Content: "Hi"}, {Role: "assistant", Fields: map[string]any{"tool_calls": json.RawMessage("[1]")}}},
		{{Role: "user", Content: "Ho"}, {Role: "assistant", Content: "Hum"}},
		{{Role: "user", Fields: map[string]any{"content": json.RawMessage(`[{"type":"text","text":"in parts"}]`)}}},
		nil, // a text
	}
	var got [][]tokenizer.Message
	for _, p := range list {
		got = append(got, p.messages)
	}
	if diff := cmp.Diff(want, got); diff != "" || list[3].text != "a plain text" {
		t.Errorf("-want +got\n%s", diff)
	}
	for text, want := range map[string]string{
		`{"messages":[1]}`:                 "row 1: field messages: want a list of messages",
		`{"messages":[{"content":"a"}]}`:   "row 1: field messages: message 1 has no role",
		`{"messages":[null]}`:              "message 1 has no role",
		`{"messages":[{"role":["user"]}]}`: "message 1: role is no text",
	} {
		if _, err := readRows(text, true, "messages"); !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Broken compressed files and what only looks like one are refused with their name.
func TestPacked(t *testing.T) {
	l := plainLanguage(t)
	dir := t.TempDir()
	good, err := os.ReadFile(write(t, filepath.Join(dir, "good.gz"), story(0, 20000)))
	if err != nil {
		t.Fatal(err)
	}
	wrong := slices.Clone(good)
	wrong[len(wrong)-6]++ // of the checksum
	random := make([]byte, 1000)
	for i := range random {
		random[i] = byte(rand.New(rand.NewPCG(uint64(i), 0)).Uint32())
	}
	for name, file := range map[string]struct {
		raw  []byte
		want string
	}{
		"cut.txt.gz":      {good[:len(good)/2], "unexpected EOF"},
		"wrong.txt.gz":    {wrong, "checksum"},
		"text.jsonl.gz":   {[]byte(`{"text":"a"}`), "not a .gz file"},
		"empty.gz":        {nil, "not a .gz file: unexpected EOF"},
		"text.txt.zst":    {[]byte("plain text"), "magic number mismatch"},
		"empty.txt":       {nil, "no text in it"},
		"blank.txt":       {[]byte("\n \n"), "no text in it"},
		"empty.zst":       {nil, "no text in it"},
		"empty.jsonl":     {nil, "no text in it"},
		"none.json":       {[]byte("[]"), "no text in it"},
		"random":          {random, "byte "},
		"text.parquet":    {[]byte("PAR1 but not one"), "corrupt parquet file: it begins with"},
		"text.parquet.gz": {good, "corrupt parquet file: it begins with"},
		"cut.parquet.gz":  {good[:len(good)/2], "unexpected EOF"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, file.raw, 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := Load(context.Background(), l, Settings{Source: path})
		if !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), file.want) {
			t.Errorf("%s: %v, want %q", name, err, file.want)
		}
	}
}

// FuzzRows wants an error or documents of any table: texts that are UTF-8, messages with roles.
func FuzzRows(f *testing.F) {
	f.Add([]byte(`{"text":"a","messages":[{"role":"user","content":"b"}]}`), true)
	f.Add([]byte(`[{"messages":[{"from":"human","value":"b"}]},{"messages":"\ud800"}]`), true)
	f.Add([]byte("\ufeff{\"text\":\"a\"}\n\n{\"text\":null}"), false)
	f.Fuzz(func(t *testing.T, raw []byte, chat bool) {
		d, list := gather(64)
		r := &rows{file: "file", fields: []string{"messages", "text"}, chat: chat, to: d}
		if err := r.json(newPlain("file", bytes.NewReader(raw))); err != nil && !errors.Is(err, ErrSource) {
			t.Fatal(err)
		}
		for _, p := range *list {
			if !utf8.ValidString(p.text) || (p.text == "") == (p.messages == nil) {
				t.Fatalf("part %+v", p)
			}
			for _, m := range p.messages {
				if m.Role == "" {
					t.Fatalf("part %+v", p)
				}
			}
		}
	})
}

// FuzzParquet wants an error or documents of any Parquet file: a text or messages with roles for a row at most.
func FuzzParquet(f *testing.F) {
	names, err := filepath.Glob("../internal/parquet/testdata/*.parquet")
	if err != nil || len(names) == 0 {
		f.Fatal(err)
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		// A few bytes can be the nulls of 2³¹ rows.
		if file, err := parquet.Open(bytes.NewReader(raw), int64(len(raw))); err == nil && file.Rows > 1000 {
			return
		}
		d, list := gather(64)
		r := &rows{file: "file", fields: []string{"messages", "text"}, chat: true, to: d}
		if err := r.parquet(context.Background(), bytes.NewReader(raw), int64(len(raw))); err != nil && !errors.Is(err, ErrSource) {
			t.Fatal(err)
		}
		for _, p := range *list {
			if !utf8.ValidString(p.text) || (p.text == "") == (p.messages == nil) {
				t.Fatalf("part %+v", p)
			}
			for _, m := range p.messages {
				if m.Role == "" {
					t.Fatalf("part %+v", p)
				}
			}
		}
	})
}

// FuzzText wants parts that are UTF-8 and within their size of any text.
func FuzzText(f *testing.F) {
	f.Add([]byte("one\n<|endoftext|>\ntwo"))
	f.Add([]byte("\xef\xbb\xbf\xff long enough to be cut, but not at a space\xe4\xb8"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, list := gather(16)
		if err := d.plainText(newPlain("file", bytes.NewReader(raw))); err != nil && !errors.Is(err, ErrSource) {
			t.Fatal(err)
		}
		for _, p := range *list {
			if !utf8.ValidString(p.text) || p.text == "" || len(p.text) > 16 {
				t.Fatalf("part %+v", p)
			}
		}
	})
}
