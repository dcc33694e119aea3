package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nibble/quant"
)

// Whatever a recipe holds, it is refused in one line or can be applied.
func FuzzRecipe(f *testing.F) {
	f.Add([]byte("rules:\n  - match: 'mlp'\n    bits: 8\n    group: -1\n"))
	f.Add([]byte("rules:\n  - {match: x, keep: true}\n  - &a {match: y, sym: false}\n  - *a\n"))
	f.Add([]byte("a: &a [*a]\n"))
	path := filepath.Join(f.TempDir(), "recipe.yaml")
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(path, raw, 0o666); err != nil {
			t.Fatal(err)
		}
		r, err := readRecipe(path)
		if err != nil {
			if exitCode(err) != exitInput {
				t.Errorf("exit code %d: %v", exitCode(err), err)
			}
			return
		}
		r.Apply("model.layers.0.mlp.down_proj", quant.Spec{Bits: 4, Group: 128})
	})
}

func TestRecipeRules(t *testing.T) {
	for text, want := range map[string]string{
		"rules: []":                                         "no rules",
		"rules:\n  - keep: true":                            "match is missing",
		"rules:\n  - match: a\n    bits: 9":                 "9 bits, want 2 to 8",
		"rules:\n  - match: a\n    group: 0":                "group 0, want a number of weights or -1",
		"rules:\n  - match: a\n    method: magic":           `method "magic"`,
		"rules:\n  - match: a\n    keep: true\n    bits: 4": "keep goes with no other setting",
		"rules:\n  - match: a\n    match: b":                "already",
		"rule: x":                                           `unknown key "rule"`,
	} {
		path := filepath.Join(t.TempDir(), "recipe.yaml")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := readRecipe(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
