package hf_test

import (
	"testing"

	"nibble/hf"
)

// Edits keep every other byte: order, spacing, numbers that a decoder would rewrite, keys nobody understands.
func TestConfigKeepsTheRest(t *testing.T) {
	const config = `{
  "z_unknown": [1.0, 1e-05, 12345678901234567890],
  "tie_word_embeddings": true,
  "text_config": {"tie_word_embeddings": true, "vocab_size": 256},
  "a": "é <&>"
}
`
	c, err := hf.ParseConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	if c, err = c.Set("tie_word_embeddings", []byte("false")); err != nil {
		t.Fatal(err)
	}
	if c, err = c.Set("vocab_size", []byte("288")); err != nil {
		t.Fatal(err)
	}
	if c, err = c.Set("quantization_config", []byte(`{"bits": 4}`)); err != nil {
		t.Fatal(err)
	}
	const want = `{
  "z_unknown": [1.0, 1e-05, 12345678901234567890],
  "tie_word_embeddings": false,
  "text_config": {"tie_word_embeddings": false, "vocab_size": 288},
  "a": "é <&>",
  "quantization_config": {"bits": 4}
}
`
	if got := string(c.Raw()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := string(c.Quantization()); got != `{"bits": 4}` {
		t.Errorf("quantization %s", got)
	}
	if c, err = c.Delete("quantization_config"); err != nil {
		t.Fatal(err)
	}
	if c.Quantization() != nil {
		t.Error("not deleted")
	}
	if c, err = hf.ParseConfig([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	if c, err = c.Set("a", []byte("1")); err != nil {
		t.Fatal(err)
	}
	if got := string(c.Raw()); got != "{\n  \"a\": 1\n}\n" {
		t.Errorf("into an empty object: %q", got)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"architectures":["LlamaForCausalLM"],"hidden_size":64}`))
	f.Add([]byte(`{"text_config":{"a":null},"quantization_config":{"bits":4}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := hf.ParseConfig(raw)
		if err != nil {
			return
		}
		c.Architecture()
		c.DType()
		c.Quantization()
		set, err := c.Set("vocab_size", []byte("7"))
		if err != nil {
			return
		}
		if _, err := hf.ParseConfig(set.Raw()); err != nil {
			t.Fatalf("%q became %q: %v", raw, set.Raw(), err)
		}
	})
}
