package kernel

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestAVX2Alone reads the assembly of the set avx2, which processors without AVX-512 run: its instructions must be of what the set asks
// the processor for, and its registers the first sixteen, as the others need an encoding of AVX-512. The generator gives them away when a
// function wants more than sixteen, and its list of extensions does not say so.
func TestAVX2Alone(t *testing.T) {
	files, err := filepath.Glob("*_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	had := []string{"AVX", "AVX2", "F16C", "FMA3", "CMOV", "MMX+", "SSE", "SSE2"}
	registers := regexp.MustCompile(`\b(?:[XY](?:1[6-9]|2\d|3[01])|Z\d+|K[0-7])\b`)
	functions := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var needs, name string
		for line := range strings.Lines(string(source)) {
			line = strings.TrimSpace(line)
			if list, ok := strings.CutPrefix(line, "// Requires: "); ok {
				needs = list
			} else if symbol, ok := strings.CutPrefix(line, "TEXT ·"); ok {
				name, _, _ = strings.Cut(symbol, "(")
				if !strings.HasSuffix(name, "AVX2") {
					continue
				}
				functions++
				for need := range strings.SplitSeq(needs, ", ") {
					if !slices.Contains(had, need) {
						t.Errorf("%s: %s needs %q", file, name, need)
					}
				}
			} else if strings.HasSuffix(name, "AVX2") && registers.MatchString(line) {
				t.Errorf("%s: %s: %s", file, name, line)
			}
		}
	}
	if functions < 50 {
		t.Errorf("%d functions found", functions)
	}
}
