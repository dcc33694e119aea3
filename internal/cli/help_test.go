package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// words splits a line as a shell does that knows double quotes, up to a comment or a pipe.
func words(line string) (list []string) {
	var word strings.Builder
	quoted, begun := false, false
	flush := func() {
		if begun {
			list = append(list, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range line {
		switch {
		case r == '"':
			quoted, begun = !quoted, true
		case quoted || r != ' ' && (begun || r != '#' && r != '|'):
			word.WriteRune(r)
			begun = true
		case r == ' ':
			flush()
		default:
			return list
		}
	}
	flush()
	return list
}

// TestExamples: every command teaches with examples, and a shell would take each of them: the command is there, its flags are, and
// so many arguments may be given.
func TestExamples(t *testing.T) {
	examples := 0
	for name, fresh := range map[string]func() *cobra.Command{"quantize": NewQuantizeCommand, "dequantize": NewDequantizeCommand, "export": NewExportCommand,
		"runtime": NewRuntimeCommand} {
		var all []*cobra.Command
		var walk func(*cobra.Command)
		walk = func(c *cobra.Command) {
			all = append(all, c)
			for _, sub := range c.Commands() {
				walk(sub)
			}
		}
		walk(fresh())
		for _, c := range all {
			if c.Short == "" || c.Long == "" || c.Example == "" {
				t.Errorf("%s: help without a short, a long text or an example", c.CommandPath())
			}
			for line := range strings.Lines(c.Example) {
				line = strings.TrimSuffix(line, "\n")
				examples++
				if err := parses(fresh(), line, c.CommandPath()); err != nil || !strings.HasPrefix(line, "  "+name+" ") && line != "  "+name {
					t.Errorf("%s: example %q: %v", c.CommandPath(), line, err)
				}
			}
		}
	}
	if examples < 30 {
		t.Errorf("only %d examples found", examples)
	}
	if have := words(`runtime generate --prompt "a #b c" -n 3 # more`); fmt.Sprintf("%q", have) != `["runtime" "generate" "--prompt" "a #b c" "-n" "3"]` {
		t.Errorf("%q", have)
	}
	if parses(NewRuntimeCommand(), "  runtime compare --no-such-flag", "runtime") == nil || parses(NewRuntimeCommand(), "  runtime inspect a b", "runtime") == nil {
		t.Error("a wrong example is taken")
	}
}

// parses reads an example in the help of the command that path names.
func parses(root *cobra.Command, line, path string) error {
	list := words(line)
	if len(list) == 0 {
		return fmt.Errorf("no command")
	}
	c, args, err := root.Find(list[1:])
	if err != nil {
		return err
	}
	if !strings.HasPrefix(c.CommandPath(), path) && !strings.HasPrefix(path, c.CommandPath()) {
		return fmt.Errorf("it is about %s", c.CommandPath())
	}
	if err := c.ParseFlags(args); err != nil {
		return err
	}
	return c.ValidateArgs(c.Flags().Args())
}
