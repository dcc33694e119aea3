package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What docs/troubleshooting.md explains is what the commands print: every piece of a heading between dots is in a source file.
func TestTroubleshooting(t *testing.T) {
	raw, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		sources.Write(source)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	foreign := map[string]bool{"fatal error: runtime: out of memory": true, "signal: killed": true} // Go's and the shell's
	headings := 0
	for heading := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(heading, "### ") {
			continue
		}
		headings++
		for _, message := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(heading, -1) {
			for piece := range strings.SplitSeq(message[1], "…") {
				piece = strings.TrimSpace(piece)
				if !foreign[message[1]] && !strings.Contains(sources.String(), piece) {
					t.Errorf("no command prints %q, of %q", piece, message[1])
				}
			}
		}
	}
	if headings < 20 {
		t.Errorf("%d headings", headings)
	}
}

// What the Makefile calls phony and what the documents tell a reader to make has a rule.
func TestTargets(t *testing.T) {
	raw, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	makefile := string(raw)
	rules := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(makefile, -1) {
		rules[m[1]] = true
	}
	phony := regexp.MustCompile(`(?m)^\.PHONY:(.*)$`).FindStringSubmatch(makefile)
	for name := range strings.FieldsSeq(phony[1]) {
		if !rules[name] {
			t.Errorf("no rule makes %s", name)
		}
	}
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(files, "../../README.md", "../../CONTRIBUTING.md", "../../CHANGELOG.md", "../../SECURITY.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("(?m)(?:`|^)make ([a-z0-9-]+)").FindAllStringSubmatch(string(text), -1) {
			if !rules[m[1]] {
				t.Errorf("%s: no rule for make %s", path, m[1])
			}
		}
	}
}
