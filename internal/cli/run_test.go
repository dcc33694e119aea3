package cli

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"nibble/build"
	"nibble/demo"
	"nibble/fidelity"
	"nibble/hf"
	"nibble/runtime"
)

func TestHoldBack(t *testing.T) {
	stops := []string{"###", "END"}
	for text, want := range map[string][2]string{
		"plain":        {"plain", ""},
		"a #":          {"a ", "#"},
		"a ## b##":     {"a ## b", "##"},
		"say E":        {"say ", "E"},
		"say ENE":      {"say EN", "E"},
		"a ### b":      {"a ", "stop"},
		"END at ###":   {"", "stop"},
		"héllo ##":     {"héllo ", "##"},
		"#":            {"", "#"},
		"":             {"", ""},
		"a####":        {"a", "stop"},
		"the EN D and": {"the EN D and", ""},
	} {
		ready, held, stopped := holdBack(text, stops)
		if stopped {
			held = "stop"
		}
		if ready != want[0] || held != want[1] {
			t.Errorf("%q: %q and %q, want %q", text, ready, held, want)
		}
	}
}

func TestFitting(t *testing.T) {
	caches := func(context int) int64 { return 10*int64(context) + 5*int64(min(context, 4)) }
	for room, want := range map[int64]int{0: 0, 14: 0, 15: 1, 60: 4, 69: 4, 70: 5, 1000: 50} {
		if have := fitting(50, room, caches); have != want {
			t.Errorf("room for %d: %d, want %d", room, have, want)
		}
	}
}

func TestParseDelta(t *testing.T) {
	for s, want := range map[string]float64{"0.2%": 0.002, "0.002": 0.002, " 1 % ": 0.01, "0": 0} {
		if have, err := parseDelta(s); err != nil || have != want {
			t.Errorf("%q: %g, %v, want %g", s, have, err, want)
		}
	}
	for _, s := range []string{"", "%", "-1%", "nan", "inf", "two"} {
		if _, err := parseDelta(s); exitCode(err) != exitUsage {
			t.Errorf("%q: %v, want a usage error", s, err)
		}
	}
}

func TestParseTokens(t *testing.T) {
	if _, err := parseTokens("1, 2,x"); exitCode(err) != exitUsage {
		t.Errorf("%v, want a usage error", err)
	}
}

func TestCheckText(t *testing.T) {
	f, err := hf.NewFolder("", demo.FS(), "")
	if err != nil {
		t.Fatal(err)
	}
	b, err := build.Open(f, hf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Set.Close()
	var stderr bytes.Buffer
	cmd := &cobra.Command{Use: "test"}
	cmd.SetErr(&stderr)
	cmd.SetContext(t.Context())
	file := t.TempDir() + "/text"
	if err := writeAtomic(file, func(w io.Writer) error {
		_, err := io.WriteString(w, demo.Evaluation()[:1600])
		return err
	}); err != nil {
		t.Fatal(err)
	}
	c, err := (&textCheck{text: file, mode: runtime.F32}).compare(cmd, common{threads: 2}, b, b)
	if err != nil {
		t.Fatal(err)
	}
	if c.Delta() != 0 || c.Windows != 1 || c.Greedy != nil || !strings.Contains(stderr.String(), "1 of 1 windows") {
		t.Errorf("%+v, %s", *c, stderr.String())
	}
	if err := deltaGate(c, 0); err != nil {
		t.Error(err)
	}
	err = deltaGate(&fidelity.Comparison{Reference: 10, Build: 10.1, Ratio: 1.01}, 0.002)
	if exitCode(err) != exitGate || !strings.Contains(err.Error(), "10.1000 of the build and 10.0000 of the reference differ by 1.0000%") {
		t.Errorf("a drift of 1 %%: %v", err)
	}
	if _, err := (&textCheck{text: "nowhere", mode: runtime.F32}).compare(cmd, common{threads: 1}, b, b); exitCode(err) != exitInput {
		t.Errorf("no such text: %v", err)
	}
}

// interrupter cancels a context with the first output, as Ctrl-C would.
type interrupter struct {
	text   bytes.Buffer
	cancel func()
}

func (w *interrupter) Write(p []byte) (int, error) {
	w.cancel()
	return w.text.Write(p)
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &interrupter{cancel: cancel}
	var stderr bytes.Buffer
	cmd := NewRuntimeCommand()
	cmd.SetArgs([]string{"generate", "--prompt", "And it came to pass that the captain", "-n", "900"})
	cmd.SetOut(out)
	cmd.SetErr(&stderr)
	if code := Execute(ctx, cmd); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if have := out.text.String(); have != " of\n" {
		t.Errorf("%q, want what there was, and a new line", have)
	}
	if !strings.Contains(stderr.String(), "ended by: interrupted") {
		t.Errorf("%s", stderr.String())
	}
}
