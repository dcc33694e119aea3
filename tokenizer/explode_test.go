package tokenizer

import (
	"strings"
	"testing"
)

// Expressions for which a backtracking matcher takes more steps than there are atoms end in an error, in time that is bounded.
func TestExplodingPatterns(t *testing.T) {
	text := strings.Repeat("a", 64) + "b"
	for _, expr := range []string{`^(a+)+$`, `^(a|aa)+$`, `^(a|a?)+$`, `^(?:(?:a*)*)*$`} {
		re := expr
		p, err := newPattern(patternSpec{Regex: &re})
		if err != nil {
			continue // refused is as well
		}
		p.re.MatchTimeout = matchTimeout / 10
		if err := p.find(text, func(int, int) { t.Errorf("%s matches", expr) }); err == nil {
			t.Logf("%s: no match", expr)
		} else if !strings.Contains(err.Error(), "timeout") && !strings.Contains(err.Error(), "backtracking") {
			t.Errorf("%s: %v", expr, err)
		}
	}
}
