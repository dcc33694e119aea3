//go:build !cgo

package cli_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Programs with C take 72 MB of address space for every thread, as many as there happen to be: make test is without.

func init() {
	faults = append(faults, func(random *rand.Rand, f *faulty) disturbance {
		return disturbance{kind: "memory", limit: addressSpace(leastSpace(f.t) + random.IntN(300))}
	})
}

// addressSpace is the shell's command for a limit in MB.
func addressSpace(mb int) string { return fmt.Sprintf("ulimit -v %d", mb*1000) }

// leastSpace returns the least address space in MB, of steps of 10, with which Go's runtime comes as far as main at its first try: below it is
// the runtime that ends the program.
func leastSpace(t *testing.T) int {
	t.Helper()
	least, most := 50, 110 // tens; from 1,190 MB on Go's runtime reserves more, and again comes nowhere at first
	for least < most {
		at := (least + most) / 2
		s, _, _ := disturbed(t, disturbance{kind: "memory", limit: addressSpace(10 * at), tried: mostTries}, nil, "", "", []string{"quantize", "verify", "nowhere"})
		if strings.Count(s, "\n") == 1 {
			most = at
		} else {
			least = at + 1
		}
	}
	return 10 * least
}

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
