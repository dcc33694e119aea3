package quant

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Rule overrides the spec of the modules it matches. Fields left nil keep what the command line says.
type Rule struct {
	Match  string  `yaml:"match" json:"match"`         // regular expression, found anywhere in the module's name
	Keep   bool    `yaml:"keep" json:"keep,omitempty"` // leave in float
	Bits   *int    `yaml:"bits" json:"bits,omitempty"`
	Group  *int    `yaml:"group" json:"group,omitempty"`
	Method *string `yaml:"method" json:"method,omitempty"`
	Sym    *bool   `yaml:"sym" json:"sym,omitempty"`

	re   *regexp.Regexp
	used bool
}

// Recipe is a list of rules. The first that matches a module decides, later ones are not looked at.
type Recipe struct {
	Rules []Rule `yaml:"rules"`
}

// Compile checks the rules. It must be called once before Apply.
func (r *Recipe) Compile() error {
	if len(r.Rules) == 0 {
		return fmt.Errorf("recipe: no rules")
	}
	for i := range r.Rules {
		rule := &r.Rules[i]
		if rule.Match == "" {
			return fmt.Errorf("recipe: rule %d: match is missing", i+1)
		}
		re, err := regexp.Compile(rule.Match)
		if err != nil {
			return fmt.Errorf("recipe: rule %d: %w", i+1, err)
		}
		rule.re = re
		if rule.Keep && (rule.Bits != nil || rule.Group != nil || rule.Method != nil || rule.Sym != nil) {
			return fmt.Errorf("recipe: rule %d (%s): keep goes with no other setting", i+1, rule.Match)
		}
		if rule.Method != nil && !slices.Contains(Methods, *rule.Method) {
			return fmt.Errorf("recipe: rule %d (%s): method %q, want %s", i+1, rule.Match, *rule.Method, strings.Join(Methods, ", "))
		}
		if rule.Group != nil && *rule.Group < 1 && *rule.Group != -1 {
			return fmt.Errorf("recipe: rule %d (%s): group %d, want a number of weights or -1 for whole rows", i+1, rule.Match, *rule.Group)
		}
		if rule.Bits != nil && (*rule.Bits < 2 || *rule.Bits > 8) {
			return fmt.Errorf("recipe: rule %d (%s): %d bits, want 2 to 8", i+1, rule.Match, *rule.Bits)
		}
	}
	return nil
}

// Calibrated reports whether a rule names a method that needs inputs.
func (r *Recipe) Calibrated() bool {
	return r != nil && slices.ContainsFunc(r.Rules, func(x Rule) bool { return x.Method != nil && Spec{Method: *x.Method}.Calibrated() })
}

// Apply returns the spec of a module and whether a rule keeps it in float.
func (r *Recipe) Apply(module string, s Spec) (spec Spec, keep bool) {
	if r == nil {
		return s, false
	}
	for i := range r.Rules {
		rule := &r.Rules[i]
		if !rule.re.MatchString(module) {
			continue
		}
		rule.used = true
		if rule.Bits != nil {
			s.Bits = *rule.Bits
		}
		if rule.Group != nil {
			s.Group = *rule.Group
		}
		if rule.Method != nil {
			s.Method = *rule.Method
		}
		if rule.Sym != nil {
			switch {
			case *rule.Sym:
				s.Zero = Symmetric
			case s.Zero == Symmetric:
				s.Zero = Integer
			}
		}
		return s, rule.Keep
	}
	return s, false
}

// Unused returns an error for the first rule that decided no module: a misspelt name would otherwise pass unseen.
func (r *Recipe) Unused() error {
	if r == nil {
		return nil
	}
	for i := range r.Rules {
		if !r.Rules[i].used {
			return fmt.Errorf("recipe: rule %d (%s) decides no module: nothing matches it, or an earlier rule took everything", i+1, r.Rules[i].Match)
		}
	}
	return nil
}
