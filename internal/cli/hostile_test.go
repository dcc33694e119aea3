//go:build unix

package cli_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nibble/internal/testmodel"
)

// refused runs a command over a hostile file, in an address space of 3 GB: it must end with the code of a bad input and one line
// that has a text in it, soon, and leave nothing behind.
func refused(t *testing.T, what, dir, want string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	before := sums(t, dir)
	name, prefix := emulated(os.Getenv("PATH"), args[0])
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", `ulimit -v 3000000; exec "$@"`, "sh", name}, append(prefix, args[1:]...)...)...)
	cmd.Dir = t.TempDir()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != 3 || strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), want) {
		t.Errorf("%s: %q: %v, exit code %d, want 3 and %q: %.500s", what, args, err, code, want, stderr.String())
	}
	if left, err := os.ReadDir(cmd.Dir); err != nil || len(left) != 0 {
		t.Errorf("%s: left behind: %v, %v", what, left, err)
	}
	if !maps.Equal(sums(t, dir), before) {
		t.Errorf("%s: the model has changed", what)
	}
}

// hostile writes a tiny checkpoint, with some keys of its config changed.
func hostile(t *testing.T, config map[string]any) string {
	t.Helper()
	dir := t.TempDir()
	testmodel.Golden(t, "llama-plain").WriteTo(t, dir)
	path := filepath.Join(dir, "config.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	maps.Copy(c, config)
	if raw, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	put(t, path, raw)
	return dir
}

func put(t *testing.T, path string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(path, raw, 0o666); err != nil {
		t.Fatal(err)
	}
}

// Brackets within brackets, more than a stack of 1 GB holds the frames of, in every file of a model.
func TestDeepJSON(t *testing.T) {
	const depth = 5 << 20
	lists := []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))
	objects := []byte(strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth))
	for file, args := range map[string][]string{
		"config.json":                  {"quantize"},
		"quantize_config.json":         {"quantize"},
		"model.safetensors.index.json": {"quantize"},
		"tokenizer.json":               {"quantize", "--format", "gguf", "--type", "q8_0", "-o", "x.gguf"},
		"generation_config.json":       {"runtime", "generate", "--prompt", "x"},
	} {
		for _, raw := range [][]byte{lists, objects} {
			dir := hostile(t, nil)
			if file == "model.safetensors.index.json" {
				if err := os.Rename(filepath.Join(dir, "model.safetensors"), filepath.Join(dir, "a.safetensors")); err != nil {
					t.Fatal(err)
				}
			}
			put(t, filepath.Join(dir, file), raw)
			refused(t, file, dir, "", append(args, dir)...)
		}
	}
}

// A model may claim what it likes: no memory is taken for it.
func TestClaims(t *testing.T) {
	for key, want := range map[string]string{
		"num_hidden_layers":   "whole number up to 2147483648",
		"num_attention_heads": "whole number up to 2147483648",
		"hidden_size":         "whole number up to 2147483648",
		"vocab_size":          "whole number up to 2147483648",
	} {
		dir := hostile(t, map[string]any{key: 1 << 40})
		refused(t, key, dir, want, "quantize", "--format", "awq", dir)
	}
	for key, want := range map[string]string{
		"num_hidden_layers":   "more than any model has",
		"num_attention_heads": "config.json demands",
		"num_key_value_heads": "cannot be",
		"head_dim":            "config.json demands",
		"hidden_size":         "config.json demands",
		"intermediate_size":   "config.json demands",
		"vocab_size":          "config.json demands",
	} {
		dir := hostile(t, map[string]any{key: 1 << 31})
		refused(t, key, dir, want, "quantize", "--format", "awq", dir)
	}
}

// A megabyte that unpacks to a gigabyte of one string is not kept in memory; nor is a shard outside the model's folder opened.
func TestBombs(t *testing.T) {
	dir := hostile(t, nil)
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	fmt.Fprint(w, `{"text":"`)
	for range 1 << 10 {
		if _, err := w.Write(bytes.Repeat([]byte("a"), 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprintln(w, `"}`)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "bomb.jsonl.gz")
	put(t, text, bomb.Bytes())
	refused(t, "a string of 1 GB", filepath.Dir(text), "longer than 64 MB", "quantize", "--format", "cpu_int4", "--method", "search", "--calib", text)
	for _, shard := range []string{"../weights.safetensors", "/etc/passwd", "a/../../weights.safetensors"} {
		if err := os.Rename(filepath.Join(dir, "model.safetensors"), filepath.Join(dir, "other")); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, "model.safetensors.index.json"), fmt.Appendf(nil, `{"weight_map":{"model.norm.weight":%q}}`, shard))
		refused(t, shard, dir, "shard", "quantize", dir)
	}
}
