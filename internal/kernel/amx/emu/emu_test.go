//go:build linux && amd64

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// built builds a command and returns its path.
func built(t *testing.T, dir, pkg string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "command")
	build := exec.Command("go", "build", "-o", path, pkg)
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", pkg, err, out)
	}
	return path
}

// A machine that has everything lists the set first. One that lacks something does not, and forcing the set is an error of
// usage that says what is missing, as probe does; nothing runs tiles without the grant.
func TestRefusals(t *testing.T) {
	emu := built(t, ".", ".")
	names, runtime := built(t, "../..", "./names"), built(t, "../../../..", "./cmd/runtime")
	for without, reason := range map[string]string{
		"":        "granted by the kernel",
		"cpuid":   "the processor has no amx_tile, amx_int8 and amx_bf16 (CPUID)",
		"xcr0":    "the operating system has not enabled tiles (bits 17 and 18 of XCR0)",
		"grant":   "the kernel refuses permission to use tiles (arch_prctl ARCH_REQ_XCOMP_PERM: invalid argument)",
		"granted": "the kernel has granted tiles and does not list them (arch_prctl ARCH_GET_XCOMP_PERM)",
	} {
		list, err := exec.Command(emu, "-without", without, "run", names).Output()
		if err != nil {
			t.Fatalf("without %q: %v", without, err)
		}
		if got, want := strings.HasPrefix(string(list), "amx\n"), without == ""; got != want || strings.Contains(string(list), "amx\n") != want {
			t.Errorf("without %q: sets %q", without, list)
		}
		said, err := exec.Command(emu, "-without", without, "run", runtime, "probe").Output()
		if line := regexp.MustCompile(`(?m)^AMX +(.*)$`).FindSubmatch(said); err != nil || line == nil || string(line[1]) != reason {
			t.Errorf("without %q: probe says %q, %v; want %q", without, line, err, reason)
		}
		if without == "" {
			continue
		}
		out, err := exec.Command(emu, "-without", without, "run", runtime, "bench", "--kernel", "amx", "--shape", "smollm-135m").CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), "kernel amx: "+reason) {
			t.Errorf("without %q: %v, %s; want status 2 and %q", without, err, out, reason)
		}
	}
}

// The set with other bits runs a model where it is asked for, and writes no files.
func TestApart(t *testing.T) {
	emu, runtime, quantize := built(t, ".", "."), built(t, "../../../..", "./cmd/runtime"), built(t, "../../../..", "./cmd/quantize")
	args := []string{"-dots", "1000", "run", runtime, "logits", "--kernel", "amxbf16", "--activations", "a16", "--greedy", "4",
		"--tokens", strings.Repeat("605,333,", 10) + "598"}
	tiles, err := exec.Command(emu, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, tiles)
	}
	args[6] = "generic"
	if plain, err := exec.Command(runtime, args[4:]...).CombinedOutput(); err != nil || string(plain) != string(tiles) {
		t.Errorf("%v: continued with %s, on tiles with %s", err, plain, tiles)
	}
	write := exec.Command(emu, "run", quantize, "--dry-run")
	write.Env = append(os.Environ(), "NIBBLE_KERNEL=amxbf16")
	out, err := write.CombinedOutput()
	var exit *exec.ExitError
	if want := "NIBBLE_KERNEL: amxbf16 computes other bits"; !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), want) {
		t.Errorf("%v: %s; want status 2 and %q", err, out, want)
	}
}

// The exit status is the program's, and a run that used no tiles is a failure where they are asked for.
func TestExit(t *testing.T) {
	emu := built(t, ".", ".")
	for want, args := range map[int][]string{
		0:   {"run", "/bin/sh", "-c", "exit 0"},
		7:   {"run", "/bin/sh", "-c", "(exit 3); exit 7"},
		137: {"run", "/bin/sh", "-c", "kill -9 $$"},
		125: {"-dots", "1", "run", "/bin/sh", "-c", "exit 0"},
		2:   {"run"},
	} {
		cmd := exec.Command(emu, args...)
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%v: status %d, want %d", args, got, want)
		}
	}
}
