package hf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// maxConfig bounds config.json. Real ones have a few kilobytes.
const maxConfig = 16 << 20

// Config is a config.json.
type Config struct{ raw []byte }

// ParseConfig checks that raw is a JSON object and keeps it as it is.
func ParseConfig(raw []byte) (*Config, error) {
	if len(raw) > maxConfig {
		return nil, fmt.Errorf("hf: config.json: %d bytes, more than %d", len(raw), maxConfig)
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(raw, &top); err != nil {
		return nil, fmt.Errorf("hf: config.json: not a JSON object: %w", err)
	}
	if key := duplicateKey(raw); key != "" {
		return nil, fmt.Errorf("hf: config.json: the key %q is there twice, and readers disagree about which counts", clip(key))
	}
	return &Config{raw}, nil
}

// duplicateKey returns a key that an object of valid JSON has twice, or "".
func duplicateKey(raw []byte) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	type level struct {
		keys  map[string]bool // nil in an array
		value bool            // a key was read, its value comes next
	}
	var stack []level
	for {
		token, err := dec.Token()
		if err != nil {
			return ""
		}
		top := len(stack) - 1
		if key, ok := token.(string); ok && top >= 0 && stack[top].keys != nil && !stack[top].value {
			if stack[top].keys[key] {
				return key
			}
			stack[top].keys[key], stack[top].value = true, true
			continue
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, level{keys: map[string]bool{}})
			continue
		case json.Delim('['):
			stack = append(stack, level{})
			continue
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:top]
		}
		if top = len(stack) - 1; top >= 0 {
			stack[top].value = false
		}
	}
}

// Raw returns the bytes of the file.
func (c *Config) Raw() []byte { return c.raw }

// get returns the value of a key: from text_config if it is there and not null, from the top level otherwise.
func (c *Config) get(key string) gjson.Result {
	if r := gjson.GetBytes(c.raw, "text_config."+key); r.Exists() && r.Type != gjson.Null {
		return r
	}
	return gjson.GetBytes(c.raw, key)
}

// Architecture returns the first of "architectures", or "" if there is none.
func (c *Config) Architecture() string { return gjson.GetBytes(c.raw, "architectures.0").String() }

// Quantization returns the object that says how the checkpoint is quantized, or nil.
func (c *Config) Quantization() []byte {
	for _, key := range []string{"quantization_config", "compression_config", "text_config.quantization_config"} {
		if r := gjson.GetBytes(c.raw, key); r.IsObject() {
			return []byte(r.Raw)
		}
	}
	return nil
}

// DTypeKey returns the key under which the config states its dtype, the new or the old one; "" if it states none.
func (c *Config) DTypeKey() string {
	for _, key := range []string{"dtype", "torch_dtype"} {
		if c.get(key).Type == gjson.String {
			return key
		}
	}
	return ""
}

// DType returns the dtype that the config states ("bfloat16"), or "".
func (c *Config) DType() string {
	if key := c.DTypeKey(); key != "" {
		return strings.TrimPrefix(c.get(key).String(), "torch.")
	}
	return ""
}

// Set returns a config in which key has the JSON value raw, wherever it stands now: in text_config, at the top level, or
// in both. A key that stands nowhere is added at the top level. Everything else keeps its bytes.
func (c *Config) Set(key string, raw []byte) (*Config, error) {
	out, set := c.raw, false
	for _, path := range []string{"text_config." + key, key} {
		if !gjson.GetBytes(out, path).Exists() {
			continue
		}
		var err error
		if out, err = sjson.SetRawBytes(out, path, raw); err != nil {
			return nil, fmt.Errorf("hf: config.json: set %s: %w", path, err)
		}
		set = true
	}
	if set {
		return &Config{out}, nil
	}
	return c.append(key, raw)
}

// append adds a key at the end of the top-level object, indented as the file is.
func (c *Config) append(key string, raw []byte) (*Config, error) {
	text := strings.TrimRight(string(c.raw), " \t\r\n")
	body, ok := strings.CutSuffix(text, "}")
	if !ok {
		return nil, errors.New("hf: config.json: does not end in }")
	}
	body = strings.TrimRight(body, " \t\r\n")
	sep := ","
	if strings.HasSuffix(body, "{") {
		sep = ""
	}
	return &Config{fmt.Appendf(nil, "%s%s\n  %q: %s\n}\n", body, sep, key, raw)}, nil
}

// Delete returns a config without the key, at the top level and in text_config.
func (c *Config) Delete(key string) (*Config, error) {
	out := c.raw
	for _, path := range []string{"text_config." + key, key} {
		if !gjson.GetBytes(out, path).Exists() {
			continue
		}
		var err error
		if out, err = sjson.DeleteBytes(out, path); err != nil {
			return nil, fmt.Errorf("hf: config.json: delete %s: %w", path, err)
		}
	}
	return &Config{out}, nil
}

// fields reads hyper-parameters and remembers the first that cannot be.
type fields struct {
	c   *Config
	err error
}

// limit bounds every integer of a config, so that products of a few of them stay within int64.
const limit = 1 << 31

// int returns the first of the keys that is present, which must be a whole number from 0 to limit.
func (f *fields) int(def int, keys ...string) int {
	for _, key := range keys {
		r := f.c.get(key)
		if !r.Exists() || r.Type == gjson.Null {
			continue
		}
		n := r.Int()
		if r.Type != gjson.Number || float64(n) != r.Num || n < 0 || n > limit {
			f.fail("%s is %s, want a whole number up to %d", key, clip(r.Raw), limit)
			return def
		}
		return int(n)
	}
	return def
}

// size is int for a key that must be there and at least 1.
func (f *fields) size(keys ...string) int {
	n := f.int(-1, keys...)
	switch {
	case n == -1:
		f.fail("%s is missing", keys[0])
	case n == 0:
		f.fail("%s is 0", keys[0])
	default:
		return n
	}
	return 1
}

func (f *fields) bool(def bool, key string) bool {
	switch r := f.c.get(key); r.Type {
	case gjson.True:
		return true
	case gjson.False:
		return false
	case gjson.Null: // also: absent
		return def
	default:
		f.fail("%s is %s, want true or false", key, clip(r.Raw))
		return def
	}
}

// ints returns a list of whole numbers, nil if the key is absent.
func (f *fields) ints(key string) []int {
	r := f.c.get(key)
	if r.Type == gjson.Null {
		return nil
	}
	if !r.IsArray() {
		f.fail("%s is %s, want a list", key, clip(r.Raw))
		return nil
	}
	var list []int
	for _, e := range r.Array() {
		list = append(list, int(e.Int()))
	}
	return list
}

func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("hf: config.json: "+format, args...)
	}
}

// clip shortens a piece of a file for a message.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
