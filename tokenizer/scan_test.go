package tokenizer

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// expressions has the regular expression of every pattern with a scanner.
var expressions = sync.OnceValue(func() map[string]*pattern {
	all := map[string]*pattern{}
	for name := range scanners {
		re, err := compile(name)
		if err != nil {
			panic(err) // a pattern of our own
		}
		all[name] = &pattern{re: re}
	}
	return all
})

// differ returns how a scanner and its regular expression cut a text differently.
func differ(name, text string) (string, error) {
	collect := func(p *pattern) (ends []int, err error) {
		err = p.find(text, func(_, end int) { ends = append(ends, end) })
		return ends, err
	}
	want, err := collect(expressions()[name])
	if err != nil {
		return "", err
	}
	got, err := collect(&pattern{scan: scanners[name]})
	return cmp.Diff(want, got), err
}

// delicate are the characters that the patterns tell apart.
var delicate = []rune("  \t\r\n\u00a0\u0085\u2003'stdmlrevSTDMLREV\u017fabcXYZ0129½Ⅷ٣.,!/-_漢カ\u0301\u0903ʰªǅßé🦙\u200d\x00\ufffd\U0001d400\U00013000")

func TestScanners(t *testing.T) {
	for name := range scanners {
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.StringOf(rapid.OneOf(rapid.SampledFrom(delicate), rapid.Rune())).Draw(t, "text")
			if diff, err := differ(name, text); diff != "" || err != nil {
				t.Fatalf("%.40s: %q: %v (-regexp2 +scanner)\n%s", name, text, err, diff)
			}
		})
	}
}

// FuzzEncode wants the scanners to cut as the regular expressions do.
func FuzzEncode(f *testing.F) {
	f.Add("it's  WE'LL\r\n\n x1234/\n")
	f.Add(string(delicate))
	f.Fuzz(func(t *testing.T, text string) {
		text = string([]rune(text))
		for name := range scanners {
			if diff, err := differ(name, text); diff != "" || err != nil {
				t.Fatalf("%.40s: %q: %v (-regexp2 +scanner)\n%s", name, text, err, diff)
			}
		}
	})
}
