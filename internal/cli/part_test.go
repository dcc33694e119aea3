//go:build unix

package cli_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"nibble/demo"
)

// Processes that each make a part at the same time, every one of them killed with SIGKILL when it reports its first finished
// layer and started again as a cluster would, make a build of the same bytes as one process that nobody disturbed.
func TestPartsKilled(t *testing.T) {
	const parts = 3
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(demo.Calibration()), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, flags := range map[string][]string{
		"rtn":  {"--format", "gptq", "--method", "rtn"},
		"gptq": {"--format", "awq", "--method", "gptq", "--independent", "--calib", text, "--samples", "10", "--seqlen", "64"},
	} {
		quantize := func(out string, more ...string) *exec.Cmd {
			command, args := emulated(os.Getenv("PATH"), "quantize")
			args = append(append(args, flags...), "--threads", "1", "-o", filepath.Join(dir, name+out))
			return exec.Command(command, append(args, more...)...)
		}
		if raw, err := quantize("whole").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		var wg sync.WaitGroup
		var killed [parts]bool
		for i := range parts {
			wg.Go(func() {
				cmd := quantize("out", "--part", fmt.Sprintf("%d/%d", i, parts))
				stderr, err := cmd.StderrPipe()
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					t.Error(err)
					return
				}
				lines := bufio.NewScanner(stderr)
				lines.Scan()
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
				for lines.Scan() {
				}
				err = cmd.Wait()
				status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
				if killed[i] = status.Signaled(); !killed[i] && err != nil {
					t.Errorf("part %d: %v", i, err)
				}
				if raw, err := quantize("out", "--part", fmt.Sprintf("%d/%d", i, parts)).CombinedOutput(); err != nil {
					t.Errorf("part %d again: %v: %s", i, err, raw)
				}
			})
		}
		wg.Wait()
		t.Logf("%s: killed %v", name, killed)
		if raw, err := quantize("out", "--merge").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		want := sums(t, filepath.Join(dir, name+"whole"))
		have := sums(t, filepath.Join(dir, name+"out"))
		for file, sum := range want {
			if have[file] != sum {
				t.Errorf("%s: %s differs", name, file)
			}
		}
		if len(have) != len(want) {
			t.Errorf("%s: %d files, want %d", name, len(have), len(want))
		}
	}
}

// The script for Slurm makes the parts of an array, whatever number it starts with, and joins them without one.
func TestSlurm(t *testing.T) {
	dir := t.TempDir()
	command, args := emulated(os.Getenv("PATH"), "quantize")
	program := filepath.Join(dir, "quantize")
	if err := os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\nexec %s %s \"$@\"\n", command, strings.Join(args, " ")), 0o777); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	for _, env := range []string{"SLURM_ARRAY_TASK_ID=4", "SLURM_ARRAY_TASK_ID=5", "SLURM_JOB_ID=7"} {
		cmd := exec.Command("bash", "../../deploy/slurm.sh", "--format", "gptq", "--method", "rtn", "-o", out)
		cmd.Env = append(os.Environ(), "QUANTIZE="+program, "SLURM_ARRAY_TASK_MIN=4", "SLURM_ARRAY_TASK_COUNT=2", env)
		if raw, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", env, err, raw)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "quantization_report.json")); err != nil {
		t.Error(err)
	}
}
