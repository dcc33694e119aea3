//go:build unix

package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// faultPoints is how often every command is disturbed; make faults POINTS=300 sets more.
func faultPoints(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("FAULT_POINTS"))
	if os.Getenv("FAULT_POINTS") == "" {
		return 6
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Whatever ends a run, SIGKILL at a random moment or a disk that takes no more than so many bytes of a file, there is the whole
// output or none under its name, a failure is one line and no panic, no run takes longer than its deadline, and a later run ends
// with the bytes of one that nobody disturbed.
func TestFaults(t *testing.T) {
	points := faultPoints(t)
	base := t.TempDir()
	built := filepath.Join(base, "built")
	run := func(limit int, wait time.Duration, args ...string) (stderr string, took time.Duration, err error) {
		deadline, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		name, prefix := emulated(os.Getenv("PATH"), args[0])
		line := append(append([]string{name}, prefix...), args[1:]...)
		shell := `exec "$@"`
		if limit > 0 {
			shell = fmt.Sprintf(`ulimit -f %d; exec "$@"`, limit)
		}
		cmd := exec.CommandContext(deadline, "sh", append([]string{"-c", shell, "sh"}, line...)...)
		var text bytes.Buffer
		cmd.Stderr = &text
		start := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if wait > 0 {
			timer := time.AfterFunc(wait, func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
		}
		err = cmd.Wait()
		if deadline.Err() != nil {
			t.Errorf("%q hangs", args)
		}
		if s := text.String(); strings.Contains(s, "goroutine ") || strings.Contains(s, "panic:") {
			t.Errorf("%q: %s", args, s)
		}
		return text.String(), time.Since(start), err
	}
	if s, _, err := run(0, 0, "quantize", "-q", "--method", "rtn", "-o", built); err != nil {
		t.Fatalf("%v: %s", err, s)
	}
	input := sums(t, built)
	random := rand.New(rand.NewPCG(1, uint64(points)))
	for _, c := range []struct {
		name, again string // the flag that a second run needs
		args        []string
	}{
		{"gptq", "--resume", []string{"quantize", "-q", "--format", "gptq", "--method", "rtn"}},
		{"awq", "--resume", []string{"quantize", "-q", "--format", "awq", "--max-shard-size", "300kB"}},
		{"demo.gguf", "--overwrite", []string{"quantize", "-q", "--format", "gguf", "--type", "q4_0"}},
		{"plain", "--overwrite", []string{"dequantize", "-q", built}},
	} {
		// A folder for every output: a GGUF file has its report beside it.
		place := func(name string) string { return filepath.Join(base, c.name+"-"+name, c.name) }
		contents := func(name string) map[string]string {
			out := place(name)
			if strings.HasSuffix(c.name, ".gguf") {
				out = filepath.Dir(out)
			}
			return sums(t, out)
		}
		s, took, err := run(0, 0, append(c.args, "-o", place("whole"))...)
		if err != nil {
			t.Fatalf("%v: %s", err, s)
		}
		want := contents("whole")
		failed := 0
		for i := range points {
			name := strconv.Itoa(i)
			wait, limit := time.Duration(0), 0
			if i%2 == 0 {
				wait = time.Duration(1 + random.Int64N(int64(took)))
			} else {
				limit = 1 + random.IntN(4000) // blocks of 512 bytes
			}
			s, _, err := run(limit, wait, append(c.args, "-o", place(name))...)
			if _, stat := os.Stat(place(name)); stat == nil && err != nil && wait == 0 {
				t.Errorf("%s: limit %d: %v, and the output is there: %s", c.name, limit, err, s)
			}
			if err != nil {
				failed++
				if wait == 0 && strings.Count(s, "\n") != 1 {
					t.Errorf("%s: limit %d: not one line: %q", c.name, limit, s)
				}
				if _, stat := os.Stat(place(name)); stat == nil { // killed behind the rename, which is the last step
					if have := contents(name); c.again == "--resume" && !maps.Equal(have, want) && have[".nibble-unfinished"] == "" {
						t.Errorf("%s: killed after %v: an output that is not whole", c.name, wait)
					}
					continue
				}
				if s, _, err := run(0, 0, append(c.args, "-o", place(name), c.again)...); err != nil {
					t.Errorf("%s: limit %d, killed after %v, again: %v: %s", c.name, limit, wait, err, s)
					continue
				}
			}
			if have := contents(name); !maps.Equal(have, want) {
				t.Errorf("%s: limit %d, killed after %v: other bytes", c.name, limit, wait)
			}
		}
		t.Logf("%s: %d of %d runs were ended", c.name, failed, points)
	}
	if !maps.Equal(sums(t, built), input) {
		t.Error("the input of dequantize has changed")
	}
}
