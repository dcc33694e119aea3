package calib

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"nibble/tokenizer"
)

// mostRow is the longest row of a table, in bytes.
const mostRow = 64 << 20

// row is a row of a table: JSON values by field.
type row map[string]json.RawMessage

// rows reads documents from the rows of one file.
type rows struct {
	file   string
	fields []string // of which the first row has to have one
	field  string   // which one it has
	chat   bool
	to     *documents
	number int64 // of the row, from 1
}

func (r *rows) fail(offset int64, format string, args ...any) error {
	return &SourceError{File: r.file, Row: r.number, Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// bounded reads at most left bytes.
type bounded struct {
	r    io.Reader
	left int64
}

var errLongRow = fmt.Errorf("longer than %d MB", mostRow>>20)

func (b *bounded) Read(dst []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLongRow
	}
	n, err := b.r.Read(dst[:min(int64(len(dst)), b.left)])
	b.left -= int64(n)
	return n, err
}

// json reads objects one behind the other, with or without lines, or an array of objects.
func (r *rows) json(text io.Reader) error {
	in := bufio.NewReader(text)
	limit := &bounded{r: in}
	list, err := startsList(in)
	if err != nil {
		return err
	}
	d := json.NewDecoder(limit)
	if limit.left = mostRow; list {
		if _, err := d.Token(); err != nil {
			return r.broken(d, err)
		}
	}
	for {
		limit.left = mostRow
		r.number++
		if list && !d.More() {
			break
		}
		var x row
		err := d.Decode(&x)
		if errors.Is(err, io.EOF) && !list {
			return nil
		}
		if err != nil {
			return r.broken(d, err)
		}
		if err := r.add(x); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return r.broken(d, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("something follows the list of rows")
		}
		return r.broken(d, err)
	}
	return nil
}

// startsList skips white space and reports whether a list follows.
func startsList(in *bufio.Reader) (bool, error) {
	for {
		c, err := in.ReadByte()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if strings.IndexByte(" \t\r\n", c) < 0 {
			return c == '[', in.UnreadByte()
		}
	}
}

// broken is an error of the decoder. What is wrong with the file as a text is known better below it.
func (r *rows) broken(d *json.Decoder, err error) error {
	var source *SourceError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &source), stopped(err):
		return err
	case errors.As(err, &kind):
		err = fmt.Errorf("a JSON %s: want an object with fields", kind.Value)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the file ends inside it")
	}
	return r.fail(d.InputOffset(), "%v", err)
}

// add takes the document of a row.
func (r *rows) add(x row) error {
	if r.field == "" {
		if err := r.choose(slices.Sorted(maps.Keys(x))); err != nil {
			return err
		}
	}
	raw := x[r.field]
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	switch raw[0] {
	case '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return r.fail(-1, "field %s: %v", r.field, err)
		}
		return r.to.text(text, true)
	case '[':
		if !r.chat {
			return r.fail(-1, "field %s is a list: messages need the model's chat template", r.field)
		}
		messages, err := readMessages(raw)
		if err != nil {
			return r.fail(-1, "field %s: %v", r.field, err)
		}
		return r.to.conversation(messages)
	}
	return r.fail(-1, "field %s is %s: want a text", r.field, what(raw[0]))
}

// what names a JSON value that begins with a byte, and is neither a text nor a list.
func what(first byte) string {
	switch first {
	case '{':
		return "an object"
	case 't', 'f':
		return "a truth value"
	}
	return "a number"
}

// choose picks the field that texts are taken from among those that there are.
func (r *rows) choose(have []string) error {
	for _, f := range r.fields {
		if slices.Contains(have, f) {
			r.field = f
			return nil
		}
	}
	return r.fail(-1, "no field %s; it has %s", strings.Join(r.fields, " or "), listed(have))
}

// listed names fields, the first ones of many.
func listed(fields []string) string {
	const most = 20
	if len(fields) > most {
		return fmt.Sprintf("%.40q and %d more", fields[:most], len(fields)-most)
	}
	return fmt.Sprintf("%.40q", fields)
}

// roles maps the names that ShareGPT has for roles.
var roles = map[string]string{"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant", "bard": "assistant"}

// readMessages reads a conversation.
func readMessages(raw json.RawMessage) ([]tokenizer.Message, error) {
	var list []row
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, errors.New("want a list of messages, objects with role and content")
	}
	return conversation(list)
}

// conversation makes messages of rows: role and content as of OpenAI, or from and value as of ShareGPT.
func conversation(list []row) ([]tokenizer.Message, error) {
	messages := make([]tokenizer.Message, len(list))
	for i, x := range list {
		m := &messages[i]
		for key, value := range x {
			switch key {
			case "role", "from":
				if json.Unmarshal(value, &m.Role) != nil {
					return nil, fmt.Errorf("message %d: %s is no text", i+1, key)
				}
			case "content", "value":
				if json.Unmarshal(value, &m.Content) == nil {
					continue // null is an empty text, beside tool calls
				}
				key = "content" // in parts
				fallthrough
			default:
				if m.Fields == nil {
					m.Fields = map[string]any{}
				}
				m.Fields[key] = value
			}
		}
		if m.Role == "" {
			return nil, fmt.Errorf("message %d has no role", i+1)
		}
		if role, ok := roles[m.Role]; ok {
			m.Role = role
		}
	}
	return messages, nil
}
