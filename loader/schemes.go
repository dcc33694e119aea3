package loader

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"nibble/hf"
)

// compressedConfig judges the config_groups of compressed-tensors: the schemes, and what they are for.
func (v *verdict) compressedConfig() {
	groups := v.options.Get("config_groups")
	if anyMember(groups, reorders) {
		v.hard("", "actorder group: it was removed from vLLM and from compressed-tensors 0.19", "quantize the source model again")
	}
	if !v.vllm() {
		return
	}
	if anyMember(groups, asymmetricActivations) {
		v.hard("", "asymmetric int8 activations with 4-bit weights have no scheme", "symmetric: true")
	}
	var targets []string
	groups.ForEach(func(_, g gjson.Result) bool {
		for _, t := range g.Get("targets").Array() {
			targets = append(targets, t.String())
		}
		return true
	})
	for _, t := range targets {
		if matches(t, "") {
			v.hard("", fmt.Sprintf("the target %q matches the input embedding, whose name is empty in vLLM", t), "Linear and re:.*lm_head")
		}
	}
	if m := v.quantizedHead(); m != "" && !slices.ContainsFunc(targets, func(t string) bool { return matches(t, m) }) {
		v.hard(m, "the head is quantized and no target names it: vLLM's class for it is not Linear", "add the target re:.*lm_head")
	}
}

// asymmetricActivations reports whether a group has packed weights and asymmetric activations.
func asymmetricActivations(group gjson.Result) bool {
	symmetric := group.Get("input_activations.symmetric")
	return group.Get("weights.num_bits").Int() == 4 && symmetric.Exists() && !symmetric.Bool()
}

// matches reports whether a target is the name of a module, or a pattern for it. Patterns are anchored at the start.
func matches(target, module string) bool {
	expr, ok := strings.CutPrefix(target, "re:")
	if !ok {
		return module != "" && target == module
	}
	p, err := regexp.Compile("^(?:" + expr + ")")
	return err == nil && p.MatchString(module)
}

// quantizedHead returns the head's module if it is quantized, or "".
func (v *verdict) quantizedHead() string {
	if t := v.Row(hf.Head); t != nil && v.Linears[t.Module()] != nil {
		return t.Module()
	}
	return ""
}
