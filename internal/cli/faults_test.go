//go:build unix

package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// faultPoints is how often every command is disturbed; make faults POINTS=300 sets more.
func faultPoints(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("FAULT_POINTS"))
	if os.Getenv("FAULT_POINTS") == "" {
		return 4
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// faulty is a command that is disturbed.
type faulty struct {
	t     *testing.T
	name  string
	again string // the flag that a second run needs
	args  []string
	took  time.Duration     // by an undisturbed run
	steps []string          // of an undisturbed run towards its output
	want  map[string]string // what it writes
}

// disturbance is one way to disturb a run.
type disturbance struct {
	kind  string
	limit string        // of the shell, before the command starts
	env   string        // of the command
	wait  time.Duration // until act
	act   func(run *exec.Cmd, f *faulty, model, out string) error
	tried int // so often has the run not begun
}

// mostTries is how often a run is begun that little address space ends before its command begins: Go's runtime places the heap at random, and now
// and then has no room for what a program needs before it can look at limits.
const mostTries = 20

// faults are what a run must survive: SIGKILL at a random moment; a disk on which a file takes no more than so many bytes; a step
// that fails, once or for good, with what systems say; the source shortened, changed or removed; the output's folder removed; and,
// of programs without C, an address space of so many bytes.
var faults = []func(random *rand.Rand, f *faulty) disturbance{
	func(random *rand.Rand, f *faulty) disturbance {
		return disturbance{kind: "kill", wait: moment(random, f),
			act: func(run *exec.Cmd, _ *faulty, _, _ string) error { return run.Process.Kill() }}
	},
	func(random *rand.Rand, f *faulty) disturbance {
		return disturbance{kind: "limit", limit: fmt.Sprintf("ulimit -f %d", 1+random.IntN(4000))} // blocks of 512 bytes
	},
	step, step, step,
	func(random *rand.Rand, f *faulty) disturbance {
		how, length := random.IntN(4), random.Int64N(1<<20)
		return disturbance{kind: "source", wait: moment(random, f), act: func(_ *exec.Cmd, _ *faulty, model, _ string) error {
			switch file := filepath.Join(model, "model.safetensors"); how {
			case 0:
				return os.Truncate(file, length)
			case 1:
				return os.Remove(file)
			case 2:
				return os.RemoveAll(model)
			default:
				w, err := os.OpenFile(file, os.O_WRONLY, 0)
				if err != nil {
					return err
				}
				_, err = w.WriteAt(make([]byte, 1<<19), 1<<20)
				return errors.Join(err, w.Close())
			}
		}}
	},
	func(random *rand.Rand, f *faulty) disturbance {
		return disturbance{kind: "output", wait: moment(random, f),
			act: func(_ *exec.Cmd, _ *faulty, _, out string) error {
				if err := os.Rename(out+".partial", out+".gone"); err != nil { // at once: what has its name by now stays
					return err
				}
				return os.RemoveAll(out + ".gone")
			}}
	},
}

func moment(random *rand.Rand, f *faulty) time.Duration {
	return time.Duration(1 + random.Int64N(int64(f.took)))
}

// step makes one step fail. Kinds of steps are equally likely, however many steps are of a kind.
func step(random *rand.Rand, f *faulty) disturbance {
	kinds := slices.Compact(slices.Sorted(slices.Values(f.steps)))
	kind := kinds[random.IntN(len(kinds))]
	at := random.IntN(len(f.steps))
	for f.steps[at] != kind {
		at = (at + 1) % len(f.steps)
	}
	errno := []syscall.Errno{syscall.ENOSPC, syscall.EIO, syscall.EDQUOT}[random.IntN(3)]
	return disturbance{kind: kind, env: fmt.Sprintf("FAULT=%d %d %d", at+1, errno, random.IntN(2))}
}

// Whatever ends a run, there is the whole output or none under its name, a failure is one line and no panic, no run takes longer than
// its deadline, and a later run ends with the bytes of one that nobody disturbed.
func TestFaults(t *testing.T) {
	points := faultPoints(t)
	base := t.TempDir()
	random := rand.New(rand.NewPCG(1, uint64(points)))
	built, plain := filepath.Join(base, "built"), filepath.Join(base, "plain")
	for _, args := range [][]string{{"quantize", "-q", "--method", "rtn", "-o", built}, {"dequantize", "-q", built, "-o", plain}} {
		if s, _, err := disturbed(t, disturbance{}, nil, "", "", args); err != nil {
			t.Fatalf("%v: %s", err, s)
		}
	}
	commands := []*faulty{
		{name: "gptq", again: "--resume", args: []string{"quantize", "-q", "--format", "gptq", "--method", "rtn", plain}},
		{name: "awq", again: "--resume", args: []string{"quantize", "-q", "--format", "awq", "--max-shard-size", "300kB", plain}},
		{name: "calibrated", again: "--resume", args: []string{"quantize", "-q", "--format", "cpu_int4", "--method", "search", "--calib", "self",
			"--samples", "2", "--seqlen", "32", plain}},
		{name: "demo.gguf", again: "--overwrite", args: []string{"quantize", "-q", "--format", "gguf", "--type", "q4_0", plain}},
		{name: "dequantize", again: "--overwrite", args: []string{"dequantize", "-q", built}},
		{name: "export", again: "--overwrite", args: []string{"export", "-q", "--context", "32", "--prefill", "8", "--decode", "4", "--samples", "1",
			"--holdout", "1", "--min-sqnr", "1", plain}},
	}
	ended := map[string][2]int{}
	for i, f := range commands {
		model, log := f.args[len(f.args)-1], filepath.Join(base, "steps-"+f.name)
		out := place(base, f, "whole")
		s, took, err := disturbed(t, disturbance{env: "FAULT_STEPS=" + log}, f, "", "", append(f.args, "-o", out))
		if err != nil {
			t.Fatalf("%s: %v: %s", f.name, err, s)
		}
		steps, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		f.t, f.took, f.steps, f.want = t, took, strings.Fields(string(steps)), contents(t, f, out)
		t.Logf("%s: %v, %d steps", f.name, took, len(f.steps))
		for j := range points {
			d := faults[(i+j)%len(faults)](random, f)
			n := ended[d.kind]
			if attempt(t, base, strconv.Itoa(j), f, d, model) {
				n[0]++
			}
			n[1]++
			ended[d.kind] = n
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(ended)) {
		t.Logf("%-8s %4d of %4d runs ended early", kind, ended[kind][0], ended[kind][1])
	}
}

// attempt disturbs one run over a copy of its model, and reports whether that ended it early.
func attempt(t *testing.T, base, name string, f *faulty, d disturbance, original string) (ended bool) {
	t.Helper()
	work := filepath.Join(base, f.name+"-"+name+"-model")
	model, out := filepath.Join(work, filepath.Base(original)), place(base, f, name)
	defer os.RemoveAll(work)
	defer os.RemoveAll(filepath.Dir(out))
	replica(t, original, model)
	before := sums(t, model)
	args := append(append([]string{}, f.args[:len(f.args)-1]...), model, "-o", out)
	what := fmt.Sprintf("%s: %s %s%s after %v", f.name, d.kind, d.limit, d.env, d.wait)
	s, _, err := disturbed(t, d, f, model, out, args)
	_, stat := os.Stat(out)
	there := stat == nil
	if err != nil && d.kind != "kill" && strings.Count(s, "\n") != 1 {
		t.Errorf("%s: not one line: %q", what, s)
	}
	if err != nil && d.kind == "memory" && !strings.Contains(s, "memory") && !strings.Contains(s, "thread") {
		t.Errorf("%s: %.300q does not say why", what, s)
	}
	if there {
		have := contents(t, f, out)
		delete(have, ".nibble-unfinished") // its removal is the last step
		want := f.want
		if d.kind == "source" && err == nil && !maps.Equal(have, want) { // changed before the run began: it is of that state
			if s, _, err := disturbed(t, disturbance{}, f, model, out, append(args, "--overwrite")); err != nil {
				t.Errorf("%s, again: %v: %s", what, err, s)
			}
			want = contents(t, f, out)
		}
		if !maps.Equal(have, want) {
			t.Errorf("%s: %v: an output that is not whole: %s", what, err, s)
		}
		if err != nil && d.kind != "kill" && !strings.Contains(s, "is whole, but its last step failed") {
			t.Errorf("%s: %v, and the output is there: %s", what, err, s)
		}
		return err != nil
	}
	if err == nil {
		t.Errorf("%s: done, and there is no output", what)
	}
	if d.kind == "source" {
		os.RemoveAll(work)
		replica(t, original, model)
	} else if !maps.Equal(sums(t, model), before) {
		t.Errorf("%s: the input has changed", what)
	}
	if s, _, err := disturbed(t, disturbance{}, f, model, out, append(args, f.again)); err != nil {
		if d.kind != "source" || !strings.Contains(s, "--overwrite starts again") { // a copy has other times
			t.Errorf("%s, again: %v: %s", what, err, s)
		}
		return true
	}
	if have := contents(t, f, out); !maps.Equal(have, f.want) {
		t.Errorf("%s, again: other bytes", what)
	}
	return true
}

// place is where an output goes: a folder for every one, because a GGUF file has its report beside it.
func place(base string, f *faulty, name string) string {
	return filepath.Join(base, f.name+"-"+name, f.name)
}

// contents are the checksums of an output's files.
func contents(t *testing.T, f *faulty, out string) map[string]string {
	t.Helper()
	if strings.HasSuffix(f.name, ".gguf") {
		out = filepath.Dir(out)
	}
	return sums(t, out)
}

// replica copies a folder with the times of its files.
func replica(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil {
			err = os.Chtimes(filepath.Join(to, e.Name()), time.Time{}, info.ModTime())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// disturbed runs a command and disturbs it.
func disturbed(t *testing.T, d disturbance, f *faulty, model, out string, args []string) (stderr string, took time.Duration, err error) {
	t.Helper()
	deadline, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	name, prefix := emulated(os.Getenv("PATH"), args[0])
	line := append(append([]string{name}, prefix...), args[1:]...)
	shell := `exec "$@"`
	if d.limit != "" {
		shell = d.limit + "; " + shell
	}
	cmd := exec.CommandContext(deadline, "sh", append([]string{"-c", shell, "sh"}, line...)...)
	cmd.Env = append(os.Environ(), d.env)
	var text bytes.Buffer
	cmd.Stderr = &text
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if d.act != nil {
		acted := make(chan error, 1)
		timer := time.AfterFunc(d.wait, func() { acted <- d.act(cmd, f, model, out) })
		defer func() {
			if !timer.Stop() {
				<-acted // its error says that it came too late
			}
		}()
	}
	err = cmd.Wait()
	if deadline.Err() != nil {
		t.Errorf("%q hangs", args)
	}
	if s := text.String(); d.kind == "memory" && d.tried < mostTries && strings.Contains(s, "fatal error: ") && !strings.Contains(s, "cobra.") {
		d.tried++
		return disturbed(t, d, f, model, out, args)
	}
	if s := text.String(); d.kind != "memory" && strings.Contains(s, "goroutine ") || strings.Contains(s, "panic:") {
		t.Errorf("%q: %s", args, s)
	}
	return text.String(), time.Since(start), err
}
