package loader

import (
	"strings"

	"github.com/tidwall/gjson"

	"nibble/build"
	"nibble/hf"
)

// What the quantization options of a checkpoint say, read leniently.

// quantization returns the options, from config.json or the file that older tools wrote; nothing of a plain checkpoint.
func quantization(b *build.Build) gjson.Result {
	switch {
	case b.Reader == nil:
		return gjson.Result{}
	case b.Legacy:
		return gjson.ParseBytes(b.Folder.Legacy)
	}
	return gjson.ParseBytes(b.Config.Quantization())
}

// formatOf returns the name of a build's format, the quant_method where no such format is written; "" if it is plain.
func formatOf(b *build.Build) string {
	if b.Reader == nil {
		return ""
	}
	switch method := strings.ToLower(quantization(b).Get("quant_method").String()); {
	case method == "" && b.LegacyName == "quant_config.json":
		return awq
	case method == "":
		return gptq
	default:
		return method
	}
}

// generic reports whether there is no table of the architecture.
func generic(a *hf.Architecture) bool { return a != nil && a.Name == "generic" }

// checkpointFormat returns the convention of GPTQ's zero points, "gptq" if nothing is said.
func checkpointFormat(options gjson.Result) string {
	for _, key := range []string{"checkpoint_format", "format"} {
		if s := strings.ToLower(options.Get(key).String()); s != "" {
			return s
		}
	}
	return "gptq"
}

// announced reports whether the config says that groups are in activation order.
func announced(format string, options gjson.Result) bool {
	switch format {
	case gptq:
		return options.Get("desc_act").Bool() ||
			anyMember(options.Get("dynamic"), func(rule gjson.Result) bool { return rule.Get("desc_act").Bool() })
	case compressed:
		return anyMember(options.Get("config_groups"), reorders)
	}
	return false
}

// reorders reports whether a group of compressed-tensors has a tensor with the order of its columns.
func reorders(group gjson.Result) bool {
	order := group.Get("weights.actorder").String()
	return order == "group" || order == "dynamic"
}

// int8Ignored reports whether compressed-tensors asks for int8 activations with packed 4-bit weights.
func int8Ignored(options gjson.Result) bool {
	return anyMember(options.Get("config_groups"), func(group gjson.Result) bool {
		return group.Get("input_activations").IsObject() && group.Get("weights.num_bits").Int() == 4
	})
}

// lossyZeros reports whether auto-round wrote asymmetric v1 zero points.
func lossyZeros(format string, options gjson.Result) bool {
	return format == gptq && checkpointFormat(options) == "gptq" && options.Get("autoround_version").Exists()
}

// anyMember reports whether a member of an object has a property.
func anyMember(object gjson.Result, has func(gjson.Result) bool) bool {
	found := false
	object.ForEach(func(_, member gjson.Result) bool {
		found = has(member)
		return !found
	})
	return found
}
