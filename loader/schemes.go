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
	if key := unknownKey(groups); key != "" {
		v.hard("", fmt.Sprintf("the key %q in a config group: compressed-tensors refuses keys that it does not know", key), "delete it")
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

// argumentKeys are those of weights and activations in a config group, as of compressed-tensors 0.19.
var argumentKeys = []string{"num_bits", "type", "symmetric", "group_size", "strategy", "block_structure", "dynamic", "actorder",
	"scale_dtype", "zp_dtype", "observer", "observer_kwargs"}

// unknownKey returns a key of weights or activations that is none of those, or "".
func unknownKey(groups gjson.Result) string {
	unknown := ""
	groups.ForEach(func(_, group gjson.Result) bool {
		for _, name := range []string{"weights", "input_activations", "output_activations"} {
			for key := range group.Get(name).Map() {
				if !slices.Contains(argumentKeys, key) {
					unknown = max(unknown, key)
				}
			}
		}
		return true
	})
	return unknown
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
