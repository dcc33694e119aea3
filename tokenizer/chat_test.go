package tokenizer

import (
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// chatCase is a conversation and what Jinja2 makes of it, nil for an error.
type chatCase struct {
	Messages []json.RawMessage
	Vars     map[string]json.RawMessage
	Prompt   bool
	Text     *string
}

func TestChats(t *testing.T) {
	var g []struct {
		Template string
		Config   json.RawMessage
		Chats    []chatCase
	}
	readGolden(t, "chats.json", &g)
	for _, c := range g {
		checkChats(t, fstest.MapFS{
			"chat_template.jinja":   {Data: []byte(c.Template)},
			"tokenizer_config.json": {Data: c.Config},
		}, c.Chats)
	}
}

func checkChats(t *testing.T, folder fs.FS, cases []chatCase) {
	t.Helper()
	chat, err := LoadChat(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		vars := map[string]any{}
		for name, v := range c.Vars {
			vars[name] = v
		}
		var messages []Message
		for _, raw := range c.Messages {
			var m Message
			var fields map[string]json.RawMessage
			if err := errors.Join(json.Unmarshal(raw, &m), json.Unmarshal(raw, &fields)); err != nil {
				t.Fatal(err)
			}
			delete(fields, "role")
			delete(fields, "content")
			m.Fields = map[string]any{}
			for name, v := range fields {
				m.Fields[name] = v
			}
			messages = append(messages, m)
		}
		got, err := chat.Render(messages, c.Prompt, vars)
		if (err != nil) != (c.Text == nil) {
			t.Errorf("error %v", err)
		}
		if c.Text != nil {
			if diff := cmp.Diff(*c.Text, got); diff != "" {
				t.Errorf("%s (-want +got)\n%s", c.Messages, diff)
			}
		}
	}
}

func TestChatFiles(t *testing.T) {
	list := `[{"name":"tool_use","template":"tools"},{"name":"default","template":"listed {{ bos_token }}"}]`
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"jinja first": {map[string]string{"chat_template.jinja": "file", "tokenizer_config.json": `{"chat_template":"config"}`}, "file"},
		"config":      {map[string]string{"tokenizer_config.json": `{"chat_template":"config {{ eos_token }}","eos_token":"</s>","add_bos_token":true}`}, "config </s>"},
		"named":       {map[string]string{"tokenizer_config.json": `{"chat_template":` + list + `,"bos_token":{"content":"<s>","special":true}}`}, "listed <s>"},
		"json":        {map[string]string{"tokenizer_config.json": `{"chat_template":null}`, "chat_template.json": `{"chat_template":"old"}`}, "old"},
	} {
		folder := fstest.MapFS{}
		for file, text := range c.files {
			folder[file] = &fstest.MapFile{Data: []byte(text)}
		}
		chat, err := LoadChat(folder)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := chat.Render(nil, false, nil); err != nil || got != c.want {
			t.Errorf("%s: %q, want %q (%v)", name, got, c.want, err)
		}
	}
	if _, err := LoadChat(fstest.MapFS{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no template: %v", err)
	}
}

func TestHostileChats(t *testing.T) {
	for template, want := range map[string]string{
		"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}":                              "steps",
		"{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}": "steps",
		"{% for i in range(0, 999999, 0) %}{% endfor %}":                               "step is 0",
		"{{ 'a' * 999999 }}":         "operator *",
		"{{ 'a'|indent(99999999) }}": "digits",
		"{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}": "variable of size",
		"{% set x = 'xxxx' %}" + strings.Repeat("{% set x %}{{ x }}{{ x }}{% endset %}", 40):                     "variable of size",
		"{{ raise_exception('no such role') }}":                                                                  "no such role",
		"{%-for\ti in range(9999)%}{%+for j in range(9999) -%}{% endfor %}{% endfor %}":                          "",
		"{{ _nibble_step }}":                   "taken",
		"{{ " + strings.Repeat("(", 100000):    "",
		strings.Repeat("{% if x %}", 10000):    "",
		"{% for x in":                          "chat template",
		strings.Repeat("x", maxChatTemplate+1): "bytes",
	} {
		chat, err := LoadChat(fstest.MapFS{"chat_template.jinja": {Data: []byte(template)}})
		if err == nil {
			chat.patience = time.Hour // what they do ends them, on a slow machine too
			_, err = chat.Render([]Message{{Role: "user"}}, false, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: error %v, want %q in it", template, err, want)
		}
	}
}

func TestPatience(t *testing.T) {
	chat, err := LoadChat(fstest.MapFS{"chat_template.jinja": {Data: []byte("{% for i in range(2) %}{% endfor %}")}})
	if err != nil || chat.patience != renderTime {
		t.Fatal(chat, err)
	}
	chat.patience = -1 // any time is longer
	if _, err := chat.Render(nil, false, nil); err == nil || !strings.Contains(err.Error(), "no end after -1ns") {
		t.Errorf("error %v", err)
	}
}

// What Python's strftime makes of the same, in the C locale.
func TestDate(t *testing.T) {
	at := time.Date(2026, time.March, 5, 14, 7, 9, 0, time.UTC)
	const format = "%Y %y %m %d %B %b %A %a %H %I %M %S %p %Z %j %% %q %"
	const want = "2026 26 03 05 March Mar Thursday Thu 14 02 07 09 PM UTC 064 % %q %"
	if got := strftime(format, at); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c, err := LoadChat(fstest.MapFS{"chat_template.jinja": {Data: []byte(`{% if strftime_now is defined %}{{ strftime_now("%d %b %Y") }}{% endif %}`)}})
	if err != nil {
		t.Fatal(err)
	}
	c.Date = at
	if got, err := c.Render(nil, false, nil); got != "05 Mar 2026" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
