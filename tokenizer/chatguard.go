package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/ardanlabs/jinja"
)

// Limits of a chat template, which nobody but its author has read.
const (
	maxChatTemplate = 128 << 10        // bytes of its source
	renderSteps     = 1_000_000        // rounds of loops in one rendering, if the template is short
	macroSteps      = 100              // that calling a macro counts for: recursion needs stack
	stepBytes       = 256              // of the template that add one more to each round: it may write all of them
	renderTime      = 10 * time.Second // for one rendering
	maxVariable     = 4 << 20          // bytes of a text, or entries of a list, in a variable
	maxDigits       = 6                // of a number
)

// The names that guard calls, which a template may not use.
const (
	stepName  = "_nibble_step"
	checkName = "_nibble_check"
	dummyName = "_nibble"
)

// guard puts calls into a template: of stepName at the start of every loop and macro, of checkName behind every
// assignment. They are tags beside the tag that is there, with the same white-space control, so that they change nothing.
// Nothing watches what is within one expression, so multiplication, which repeats text, and large numbers are refused.
func guard(source string) (string, error) {
	if strings.Contains(source, dummyName) {
		return "", fmt.Errorf("the name %s is taken", dummyName)
	}
	var b strings.Builder
	var blocks []string // names of the set blocks around
	for {
		open := strings.IndexByte(source, '{')
		if open < 0 || open+2 > len(source) {
			b.WriteString(source)
			return b.String(), nil
		}
		b.WriteString(source[:open])
		source = source[open:]
		end := tagEnd(source)
		tag := source[:end]
		if err := checkTag(tag); err != nil {
			return "", err
		}
		b.WriteString(tag)
		source = source[end:]
		if !strings.HasPrefix(tag, "{%") || !strings.HasSuffix(tag, "%}") {
			continue
		}
		body := strings.TrimSpace(strings.TrimPrefix(tag[2:], "-"))
		rest := strings.TrimLeftFunc(body, func(r rune) bool { return r == '_' || unicode.IsLetter(r) })
		word := strings.TrimSuffix(body, rest)
		call := ""
		switch word {
		case "raw":
			if i := strings.Index(source, "endraw"); i >= 0 {
				b.WriteString(source[:i])
				source = source[i:]
			}
		case "for":
			call = stepName + "(1)"
		case "macro", "call":
			call = fmt.Sprintf("%s(%d)", stepName, macroSteps)
		case "set":
			name, _, assigns := strings.Cut(strings.TrimRight(rest, "-%}"), "=")
			if name = strings.TrimSpace(name); !assigns {
				blocks = append(blocks, name)
			} else if isName(name) {
				call = checkName + "(" + name + ")"
			}
		case "endset":
			if n := len(blocks); n > 0 {
				if name := blocks[n-1]; isName(name) {
					call = checkName + "(" + name + ")"
				}
				blocks = blocks[:n-1]
			}
		}
		if call == "" {
			continue
		}
		trim := ""
		if strings.HasSuffix(tag, "-%}") {
			trim = "-"
		}
		fmt.Fprintf(&b, "{%%%s set %s = %s %s%%}", trim, dummyName, call, trim)
	}
}

// tagEnd returns the length of the tag that source starts with: to its closing, outside of quotes.
func tagEnd(source string) int {
	closing := ""
	switch source[1] {
	case '{':
		closing = "}}"
	case '%':
		closing = "%}"
	case '#':
		if i := strings.Index(source, "#}"); i >= 0 {
			return i + 2
		}
		return len(source)
	default:
		return 1
	}
	end := len(source)
	unquoted(source[2:], func(i int) bool {
		if strings.HasPrefix(source[2+i:], closing) {
			end = 2 + i + 2
		}
		return end == len(source)
	})
	return end
}

// unquoted calls visit for every place in s that is not within quotes, until it returns false.
func unquoted(s string, visit func(i int) bool) {
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case !visit(i):
			return
		}
	}
}

// checkTag refuses what makes much of little.
func checkTag(tag string) (err error) {
	if len(tag) < 2 || tag[1] == '#' {
		return nil
	}
	digits := 0
	unquoted(tag, func(i int) bool {
		switch c := tag[i]; {
		case c == '*':
			err = errors.New("the operator * is not supported")
		case '0' <= c && c <= '9' || c == '_' && digits > 0:
			if digits++; digits > maxDigits {
				err = fmt.Errorf("a number of more than %d digits", maxDigits)
			}
		default:
			digits = 0
		}
		return err == nil
	})
	return err
}

// isName reports whether s is a variable, or an attribute of one.
func isName(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r != '.' && !isWord(r) }) < 0
}

// limits count what one rendering does.
type limits struct {
	steps    int64
	length   int64 // of the template
	begin    time.Time
	patience time.Duration
}

func newLimits(length int, patience time.Duration) *limits {
	return &limits{length: int64(length), begin: time.Now(), patience: patience}
}

// install defines the functions that guard calls, and a range with an end.
func (l *limits) install(data map[string]jinja.Value) {
	data[stepName] = jinja.NewCallable(stepName, func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		return jinja.None(), l.step(args[0].AsInt())
	})
	data[checkName] = jinja.NewCallable(checkName, func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		return jinja.None(), check(args[0])
	})
	data["range"] = jinja.NewCallable("range", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		return count(args)
	})
}

func (l *limits) step(n int64) error {
	if l.steps += n + l.length/stepBytes; l.steps > renderSteps {
		return fmt.Errorf("more than %d steps", int64(renderSteps))
	}
	if time.Since(l.begin) > l.patience {
		return fmt.Errorf("no end after %v", l.patience)
	}
	return nil
}

func check(v jinja.Value) error {
	size := 0
	switch {
	case v.IsString():
		size = len(v.AsString())
	case v.IsList():
		size = v.AsList().Len()
	case v.IsDict():
		size = v.AsDict().Len()
	}
	if size > maxVariable {
		return fmt.Errorf("a variable of size %d, over %d", size, maxVariable)
	}
	return nil
}

// count is range(stop), range(start, stop) and range(start, stop, step).
func count(args []jinja.Value) (jinja.Value, error) {
	bounds := []int64{0, 0, 1}
	if len(args) < 1 || len(args) > 3 {
		return jinja.Undefined(), fmt.Errorf("range: %d arguments", len(args))
	}
	for i, a := range args {
		if !a.IsInt() {
			return jinja.Undefined(), errors.New("range: an argument is not an integer")
		}
		bounds[i] = a.AsInt()
	}
	if len(args) == 1 {
		bounds[0], bounds[1] = 0, bounds[0]
	}
	start, stop, step := bounds[0], bounds[1], bounds[2]
	if step == 0 {
		return jinja.Undefined(), errors.New("range: the step is 0")
	}
	list := jinja.NewList(nil)
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if list.AsList().Len() == renderSteps {
			return jinja.Undefined(), fmt.Errorf("range: more than %d steps", int64(renderSteps))
		}
		list.AsList().Append(jinja.NewInt(i))
	}
	return list, nil
}
