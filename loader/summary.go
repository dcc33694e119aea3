package loader

import "fmt"

// Summary is a problem that several modules have in common.
type Summary struct {
	Problem // of the first of them
	Modules int
}

// Summarize joins problems that differ only in the module, in the order in which they first appear.
func Summarize(problems []Problem) []Summary {
	var list []Summary
	at := map[Problem]int{}
	for _, p := range problems {
		key := p
		key.Module = ""
		i, ok := at[key]
		if !ok {
			i = len(list)
			at[key] = i
			list = append(list, Summary{Problem: p})
		}
		list[i].Modules++
	}
	return list
}

// Where names the modules in front of a rule: "model.layers.0.mlp.down_proj and 21 more: ", "" for the whole checkpoint.
func (s Summary) Where() string {
	switch {
	case s.Module == "":
		return ""
	case s.Modules > 1:
		return fmt.Sprintf("%s and %d more: ", s.Module, s.Modules-1)
	}
	return s.Module + ": "
}
