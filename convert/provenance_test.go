package convert

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// The line of a run has one length whatever stands there, so that all else in a report stays in its place; what is too long is cut.
func TestExecutionLine(t *testing.T) {
	for _, x := range []*Execution{nil, {}, {Time: "2026-01-02T03:04:05Z", Seconds: 1e9, Source: strings.Repeat("\x01", 5000), Machine: "linux/amd64", Kernel: "avx2", Threads: 1 << 20},
		{Source: strings.Repeat("ü", 600), Machine: strings.Repeat("m", 700)}} {
		line, err := x.line()
		if err != nil || len(line) != runBytes {
			t.Errorf("%d bytes, %v", len(line), err)
		}
		if x == nil {
			continue
		}
		var again Execution
		if err := json.Unmarshal([]byte(strings.TrimRight(string(line), ", ")), &again); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if again.Threads != x.Threads || !strings.HasPrefix(x.Source, again.Source) || !strings.HasPrefix(x.Machine, again.Machine) || !utf8.ValidString(again.Source) ||
			x.Source != "" && again.Source == "" {
			t.Errorf("%+v", again)
		}
	}
}
