package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

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
		return nil, coded{fmt.Errorf("%s: %w", path, err), exitInput}
	}
	if err := r.Compile(); err != nil {
		return nil, coded{fmt.Errorf("%s: %w", path, err), exitInput}
	}
	return r, nil
}
