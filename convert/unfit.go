package convert

import (
	"fmt"
	"strings"

	"nibble/build"
	"nibble/loader"
)

// Unfit is the error of a plan that the target cannot hold.
type Unfit struct {
	Target   loader.Target
	Format   string
	Problems []loader.Problem
	Fits     string // flags with which all of it fits; "" if a few tries found none
}

// Error names the first rule that is broken, by how many modules, the flags that make all of it fit or else the fix for
// that rule, and how many other rules are broken.
func (u *Unfit) Error() string {
	rules := loader.Summarize(u.Problems)
	first := rules[0]
	var b strings.Builder
	if u.Target == loader.None {
		fmt.Fprintf(&b, "%s: ", u.Format)
	} else {
		fmt.Fprintf(&b, "%s for %s: ", u.Format, u.Target)
	}
	b.WriteString(first.Where() + first.Rule)
	if n := len(rules) - 1; n > 0 {
		fmt.Fprintf(&b, " (%d more of its rules are broken)", n)
	}
	fix := first.Fix
	if u.Fits != "" {
		if fix = u.Fits + " makes everything fit"; strings.Contains(first.Fix, "--unfit keep") {
			fix += ", --unfit keep leaves in float what does not"
		}
	}
	if fix != "" {
		b.WriteString("; " + fix)
	}
	return b.String()
}

// fitting looks for the flags nearest to the settings with which the target holds everything: another group size, the
// MLP padded, the head in float. Plans are made from headers, so that a dozen tries cost little.
func fitting(src *build.Build, s Settings) string {
	s.KeepUnfit, s.AllowNonFinite = false, false
	type size struct{ group, pad int }
	var sizes []size
	for _, groups := range [][]int{{s.Spec.Group, 128, 64, 32, 16}, {-1}} {
		for _, pad := range []int{s.PadMLP, -1} {
			for _, g := range groups {
				sizes = append(sizes, size{g, pad})
			}
		}
	}
	for _, head := range []Choice{s.Head, Keep} {
		for _, x := range sizes {
			try := s
			try.Head, try.PadMLP, try.Spec.Group = head, x.pad, x.group
			p := &Plan{Settings: try, Source: src}
			if p.decide() != nil || p.fit() != nil {
				continue
			}
			var flags []string
			if x.group != s.Spec.Group {
				flags = append(flags, fmt.Sprintf("--group %d", x.group))
			}
			if x.pad != s.PadMLP {
				flags = append(flags, "--pad-mlp auto")
			}
			if head != s.Head {
				flags = append(flags, "--lm-head keep")
			}
			return strings.Join(flags, " ")
		}
	}
	return ""
}
