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

// The stretches of a text share its time: a tokenizer that spends it all on each of many words ends, too. A scanner's words are not timed.
func TestExplodingText(t *testing.T) {
	for split, want := range map[string]string{
		`{"type":"Split","pattern":{"Regex":"[ab]"},"behavior":"Isolated"}`: "tokenizer: its regular expressions take too long for this text",
		`{"type":"Split","pattern":{"String":"a"},"behavior":"Isolated"}`:   "",
	} {
		tok, err := FromJSON(tiny(`"pre_tokenizer":` + split))
		if err != nil {
			t.Fatal(err)
		}
		w := tok.worker()
		w.begin(0)
		w.patience = -1
		got := ""
		if _, err := tok.cut([]piece{{"aba", -1, true}}, w); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", split, got, want)
		}
	}
}
