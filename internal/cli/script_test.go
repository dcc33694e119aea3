package cli_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"nibble/internal/cli"
	"nibble/internal/kernel"
	"nibble/internal/testmodel"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"quantize":   func() { inject(); cli.Main(cli.NewQuantizeCommand()) },
		"dequantize": func() { inject(); cli.Main(cli.NewDequantizeCommand()) },
		"export":     func() { inject(); cli.Main(cli.NewExportCommand()) },
		"runtime":    func() { inject(); cli.Main(cli.NewRuntimeCommand()) },
	})
}

// TestScripts runs the transcripts in testdata/script. Besides the usual commands they have:
//
//	exits N COMMAND…     runs a command, which must end with exit code N and, unless N is 0 or 4, print one line on stderr
//	model VARIANT DIR    writes a tiny checkpoint
//	snapshot DIR         remembers names and contents of a folder's files
//	unchanged DIR        fails if they are not as at the snapshot
//	replace OLD NEW FILE replaces a text that must be in a file
//	sizes PLAN DIR       fails unless the JSON of a dry run lists the very files of a folder with their sizes
//
// and the condition amx, of machines that let tiles be used.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"model":     func(ts *testscript.TestScript, _ bool, args []string) { model(t, ts, args) },
			"snapshot":  func(ts *testscript.TestScript, _ bool, args []string) { ts.Setenv("SNAPSHOT", digest(ts, args[0])) },
			"unchanged": unchanged,
			"replace":   replace,
			"sizes":     sizes,
		},
		Condition: func(name string) (bool, error) {
			if name != "amx" {
				return false, fmt.Errorf("unknown condition %s", name)
			}
			usable, _ := kernel.AMX()
			return usable, nil
		},
	})
}

func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	name, prefix := emulated(ts.Getenv("PATH"), args[1])
	err = ts.Exec(name, append(prefix, args[2:]...)...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
	stderr := ts.ReadFile("stderr")
	if lines := strings.Count(stderr, "\n"); want != 0 && want != 4 && lines != 1 {
		ts.Fatalf("%d lines on stderr, want 1", lines)
	}
	if strings.Contains(stderr, "goroutine ") {
		ts.Fatalf("a panic")
	}
}

// emulated returns how to run a command: by its name or, for binaries of a foreign architecture, through the program that
// TEST_EMULATOR names, with the command's path in front of its arguments.
func emulated(path, command string) (name string, prefix []string) {
	emulator := os.Getenv("TEST_EMULATOR")
	if emulator == "" {
		return command, nil
	}
	for _, dir := range filepath.SplitList(path) {
		if file := filepath.Join(dir, command); isFile(file) {
			return emulator, []string{file}
		}
	}
	return command, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func model(t *testing.T, ts *testscript.TestScript, args []string) {
	dir := ts.MkAbs(args[1])
	ts.Check(os.MkdirAll(dir, 0o777))
	testmodel.Golden(t, args[0]).WriteTo(t, dir)
}

func digest(ts *testscript.TestScript, dir string) string {
	h := sha256.New()
	root := ts.MkAbs(dir)
	ts.Check(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		fmt.Fprintf(h, "%s %x\n", strings.TrimPrefix(path, root), sha256.Sum256(raw))
		return err
	}))
	return fmt.Sprintf("%x", h.Sum(nil))
}

func unchanged(ts *testscript.TestScript, _ bool, args []string) {
	if digest(ts, args[0]) != ts.Getenv("SNAPSHOT") {
		ts.Fatalf("%s has changed", args[0])
	}
}

func replace(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[2])
	if !strings.Contains(text, args[0]) {
		ts.Fatalf("%s does not have %q", args[2], args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(strings.ReplaceAll(text, args[0], args[1])), 0o666))
}

func sizes(ts *testscript.TestScript, _ bool, args []string) {
	plan := ts.ReadFile(args[0])
	entries, err := os.ReadDir(ts.MkAbs(args[1]))
	ts.Check(err)
	for _, e := range entries {
		info, err := e.Info()
		ts.Check(err)
		line := fmt.Sprintf("\"name\": %q,\n      \"bytes\": %d\n", e.Name(), info.Size())
		if !strings.Contains(plan, line) {
			ts.Fatalf("the plan does not have %s with %d bytes", e.Name(), info.Size())
		}
	}
	if n := strings.Count(plan, `      "name": `); !strings.Contains(plan, `"tensors"`) || n < len(entries) {
		ts.Fatalf("%d names in the plan", n)
	}
}
