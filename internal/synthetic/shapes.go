package synthetic

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed shapes/*.json
var shapes embed.FS

// Shapes lists the models whose config.json is at hand, sorted.
func Shapes() (names []string) {
	entries, _ := shapes.ReadDir("shapes")
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	return names
}

// Shape returns the config.json of one of them.
func Shape(name string) ([]byte, error) {
	raw, err := shapes.ReadFile("shapes/" + name + ".json")
	if err != nil {
		return nil, fmt.Errorf("shape %q is unknown: it can be %s", name, strings.Join(Shapes(), ", "))
	}
	return raw, nil
}
