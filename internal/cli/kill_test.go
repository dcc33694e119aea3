//go:build unix

package cli_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// A process that is killed with SIGKILL leaves nothing under the output's name, and --resume ends with the same bytes as a
// run that nobody disturbed. The kill comes when the child reports its n-th finished layer.
func TestKillAndResume(t *testing.T) {
	dir := t.TempDir()
	quantize := func(out string, more ...string) *exec.Cmd {
		// testscript.Main put the commands on the PATH.
		name, args := emulated(os.Getenv("PATH"), "quantize")
		return exec.Command(name, append(append(args, "--format", "gptq", "--method", "rtn", "-o", filepath.Join(dir, out)), more...)...)
	}
	if raw, err := quantize("whole").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	want := sums(t, filepath.Join(dir, "whole"))
	for n := 1; n <= 6; n++ {
		out := fmt.Sprintf("killed-%d", n)
		cmd := quantize(out)
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stderr)
		for i := 0; i < n && lines.Scan(); i++ {
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
		}
		err = cmd.Wait()
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if !status.Signaled() {
			t.Logf("after %d layers: it was done (%v)", n, err)
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, out)); !os.IsNotExist(err) {
			t.Errorf("killed after %d layers: the output is there: %v", n, err)
		}
		if raw, err := quantize(out).CombinedOutput(); err == nil || !regexp.MustCompile(`--resume continues it`).Match(raw) {
			t.Errorf("killed after %d layers: without a flag: %v: %s", n, err, raw)
		}
		if raw, err := quantize(out, "--resume").CombinedOutput(); err != nil {
			t.Fatalf("killed after %d layers: %v: %s", n, err, raw)
		}
		for name, sum := range sums(t, filepath.Join(dir, out)) {
			if sum != want[name] {
				t.Errorf("killed after %d layers: %s differs", n, name)
			}
		}
	}
}

// A process that Ctrl-C ends says so by its exit code, as shells have it, and prints the command that goes on.
func TestInterruptAndResume(t *testing.T) {
	dir := t.TempDir()
	name, args := emulated(os.Getenv("PATH"), "quantize")
	args = append(args, "--format", "gptq", "--threads", "1", "--overwrite", "-o", filepath.Join(dir, "a build"))
	code, last := 0, ""
	for try := 0; try < 5 && code == 0; try++ { // a run that ends before the signal comes is done again
		code, last = interrupted(t, exec.Command(name, args...))
	}
	if code != 130 {
		t.Fatalf("exit code %d, want 130: %s", code, last)
	}
	want := fmt.Sprintf(" --format gptq --threads 1 -o '%s/a build' --resume", dir)
	if !strings.Contains(last, "quantize: interrupted; "+dir+"/a build.partial is kept, go on with: ") || !strings.HasSuffix(last, want) {
		t.Errorf("%s\nwant it to end in %s", last, want)
	}
	if raw, err := exec.Command(name, append(args[:len(args)-3], "-o", filepath.Join(dir, "a build"), "--resume")...).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, raw)
	}
}

// interrupted sends SIGINT with the first line that a command prints, and returns its exit code and its last line.
func interrupted(t *testing.T, cmd *exec.Cmd) (code int, last string) {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if last == "" {
			_ = cmd.Process.Signal(os.Interrupt) // it may be done
		}
		last = lines.Text()
	}
	_ = cmd.Wait() // its exit code is looked at
	return cmd.ProcessState.ExitCode(), last
}

// sums returns the SHA-256 of the files of a folder; the report's line about the run is taken out.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]string{}
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		raw = regexp.MustCompile(`(?m)^  "run": .*$`).ReplaceAll(raw, nil)
		m[e.Name()] = fmt.Sprintf("%x", sha256.Sum256(raw))
	}
	return m
}
