package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// Message is a turn of a conversation.
type Message struct {
	Role    string
	Content string
	Fields  map[string]any // what else the template may look at, such as tool_calls; content in parts goes here too
}

// Chat writes conversations in the form that a model was trained on, by the Jinja template that comes with it.
type Chat struct {
	Date time.Time // of which a template that asks for the date is told; zero: now

	template *jinja.Template
	length   int                    // of its source
	patience time.Duration          // with one rendering
	tokens   map[string]jinja.Value // bos_token, eos_token and the like
}

// chatConfig is what tokenizer_config.json says about chats.
type chatConfig struct {
	Template json.RawMessage `json:"chat_template"`
}

// LoadChat reads the chat template of a model folder, which is the first there is of chat_template.jinja, chat_template
// in tokenizer_config.json, and chat_template.json. Without any the error is fs.ErrNotExist.
func LoadChat(fsys fs.FS) (*Chat, error) {
	raw, err := chatFiles(fsys)
	if err != nil {
		return nil, err
	}
	c := &Chat{tokens: map[string]jinja.Value{}, patience: renderTime}
	if err := c.readTokens(raw["tokenizer_config.json"]); err != nil {
		return nil, err
	}
	source, err := chatTemplate(raw)
	if err != nil {
		return nil, err
	}
	if len(source) > maxChatTemplate {
		return nil, fmt.Errorf("tokenizer: chat template of %d bytes, over %d", len(source), maxChatTemplate)
	}
	// Jinja leaves out the newline that a file ends with.
	guarded, err := guard(strings.TrimSuffix(source, "\n"))
	if err != nil {
		return nil, fmt.Errorf("tokenizer: chat template: %w", err)
	}
	c.length = len(source)
	if c.template, err = jinja.Compile(guarded); err != nil {
		return nil, fmt.Errorf("tokenizer: chat template: %w", err)
	}
	return c, nil
}

// ChatTemplate returns the source of the template that LoadChat takes.
func ChatTemplate(fsys fs.FS) (string, error) {
	raw, err := chatFiles(fsys)
	if err != nil {
		return "", err
	}
	return chatTemplate(raw)
}

// chatFiles reads the files in which a template can be, those that are there.
func chatFiles(fsys fs.FS) (map[string][]byte, error) {
	raw := map[string][]byte{}
	for _, name := range []string{"chat_template.jinja", "tokenizer_config.json", "chat_template.json"} {
		b, err := readFile(fsys, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err == nil {
			raw[name] = b
		}
	}
	return raw, nil
}

// chatTemplate picks the template from the files that exist.
func chatTemplate(raw map[string][]byte) (string, error) {
	if b, ok := raw["chat_template.jinja"]; ok {
		return string(b), nil
	}
	for _, name := range []string{"tokenizer_config.json", "chat_template.json"} {
		if raw[name] == nil {
			continue
		}
		var config chatConfig
		if err := json.Unmarshal(raw[name], &config); err != nil {
			return "", fmt.Errorf("tokenizer: %s: %w", name, err)
		}
		if len(config.Template) == 0 || string(config.Template) == "null" {
			continue
		}
		source, err := namedTemplate(config.Template)
		if err != nil {
			return "", fmt.Errorf("tokenizer: %s: chat_template: %w", name, err)
		}
		return source, nil
	}
	return "", fmt.Errorf("tokenizer: no chat template: %w", fs.ErrNotExist)
}

// namedTemplate reads a template, or of a list of named ones that called default.
func namedTemplate(raw json.RawMessage) (source string, err error) {
	if json.Unmarshal(raw, &source) == nil {
		return source, nil
	}
	var list []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", err
	}
	for _, t := range list {
		if t.Name == "default" {
			return t.Template, nil
		}
	}
	return "", errors.New("no template is named default")
}

// readTokens takes every ..._token of tokenizer_config.json that is a text or has one as its content.
func (c *Chat) readTokens(raw []byte) error {
	if raw == nil {
		return nil
	}
	var config map[string]json.RawMessage
	if err := json.Unmarshal(raw, &config); err != nil {
		return fmt.Errorf("tokenizer: tokenizer_config.json: %w", err)
	}
	for key, value := range config {
		if !strings.HasSuffix(key, "_token") {
			continue
		}
		var token struct{ Content *string }
		if json.Unmarshal(value, &token.Content) != nil && json.Unmarshal(value, &token) != nil {
			continue // a switch such as add_bos_token
		}
		if token.Content != nil {
			c.tokens[key] = jinja.NewString(*token.Content)
		}
	}
	return nil
}

// Render writes a conversation. addGenerationPrompt ends it where the model is to go on. vars are the template's other
// variables, such as tools or enable_thinking: values as encoding/json makes them, or json.RawMessage, of which objects
// keep the order of their keys. The special tokens are in the text: encode it without adding them again.
func (c *Chat) Render(messages []Message, addGenerationPrompt bool, vars map[string]any) (text string, err error) {
	data := maps.Clone(c.tokens)
	data["tools"], data["documents"] = jinja.None(), jinja.None()
	for name, v := range vars {
		if data[name], err = toValue(v, 0); err != nil {
			return "", fmt.Errorf("tokenizer: chat: %s: %w", name, err)
		}
	}
	turns := make([]jinja.Value, len(messages))
	for i, m := range messages {
		turns[i] = jinja.NewDict()
		d := turns[i].AsDict()
		d.Set("role", jinja.NewString(m.Role))
		d.Set("content", jinja.NewString(m.Content))
		fields, err := toValue(m.Fields, 0)
		if err != nil {
			return "", fmt.Errorf("tokenizer: chat: message %d: %w", i, err)
		}
		for _, key := range fields.AsDict().OrderedKeys() {
			v, _ := fields.AsDict().Get(key)
			d.Set(key, v)
		}
	}
	if !c.Date.IsZero() {
		data["strftime_now"] = strftimeNow(c.Date)
	}
	data["messages"] = jinja.NewList(turns)
	data["add_generation_prompt"] = jinja.NewBool(addGenerationPrompt)
	newLimits(c.length, c.patience).install(data)
	// A template is a program from a file: what goes wrong in it must not end ours.
	defer func() {
		if r := recover(); r != nil {
			text, err = "", fmt.Errorf("tokenizer: chat template: %v", r)
		}
	}()
	if text, err = c.template.RenderValues(data); err != nil {
		return "", fmt.Errorf("tokenizer: chat template: %w", err)
	}
	return text, nil
}
