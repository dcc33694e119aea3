package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// With the least address space in which a command comes to begin, it says in one line what is missing and writes nothing; with 200 MB
// more it writes what it always does.
func TestFaultsOfMemory(t *testing.T) {
	base, space := t.TempDir(), leastSpace(t)
	run := func(out string, mb int) (stderr string, err error) {
		d := disturbance{kind: "memory", limit: addressSpace(mb)}
		if mb == 0 {
			d.limit = ""
		}
		stderr, _, err = disturbed(t, d, nil, "", "", []string{"quantize", "-q", "--method", "rtn", "-o", filepath.Join(base, out)})
		return stderr, err
	}
	s, err := run("little", space)
	if _, stat := os.Stat(filepath.Join(base, "little")); err == nil || stat == nil || strings.Count(s, "\n") != 1 || !strings.Contains(s, "ulimit -v leaves") {
		t.Errorf("%d MB: %v, %v: %q", space, err, stat, s)
	}
	for out, mb := range map[string]int{"enough": space + 200, "whole": 0} {
		if s, err := run(out, mb); err != nil {
			t.Fatalf("%d MB: %v: %s", mb, err, s)
		}
	}
	const weights = "model.safetensors"
	if a, b := sums(t, filepath.Join(base, "enough"))[weights], sums(t, filepath.Join(base, "whole"))[weights]; a == "" || a != b {
		t.Errorf("the weights are %q with %d MB, %q else", a, space+200, b)
	}
}
