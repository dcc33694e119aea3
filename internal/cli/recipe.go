package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"

	"nibble/quant"
)

// maxRecipe bounds a recipe. Aliases inside it are bounded by the decoder.
const maxRecipe = 1 << 20

// readRecipe reads and checks a recipe; keys it does not know are errors.
func readRecipe(path string) (*quant.Recipe, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, coded{err, exitInput}
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxRecipe+1))
	if err != nil {
		return nil, coded{err, exitInput}
	}
	if len(raw) > maxRecipe {
		return nil, coded{fmt.Errorf("%s: more than %d bytes", path, maxRecipe), exitInput}
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	r := new(quant.Recipe)
	if err := dec.Decode(r); err != nil && !errors.Is(err, io.EOF) {
		return nil, coded{fmt.Errorf("%s: %s", path, plainYAML(err)), exitInput}
	}
	if err := r.Compile(); err != nil {
		return nil, coded{fmt.Errorf("%s: %w", path, err), exitInput}
	}
	return r, nil
}

// unknownKey is how the decoder reports a key that a rule does not have.
var unknownKey = regexp.MustCompile(`field (\S+) not found in type \S+`)

// plainYAML rewrites a decoder's error for people who do not know its types.
func plainYAML(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: unmarshal errors:")
	text = unknownKey.ReplaceAllString(text, `unknown key "$1", a rule has match, keep, bits, group, method and sym`)
	text = strings.ReplaceAll(text, "quant.Recipe", "a recipe (rules: and a list)")
	return strings.TrimSpace(text)
}
