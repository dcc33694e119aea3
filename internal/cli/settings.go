package cli

import (
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"nibble/build"
	"nibble/convert"
	"nibble/formats"
	"nibble/internal/version"
	"nibble/loader"
	"nibble/quant"
	"nibble/safetensors"
)

// settings turns flags into settings.
func (o *quantizeOptions) settings(cmd *cobra.Command, b *build.Build) (s convert.Settings, err error) {
	changed := cmd.Flags().Changed
	if o.scheme != "" {
		if err := o.preset(changed); err != nil {
			return s, err
		}
	}
	if s.Format, err = formats.ByName(o.format); err != nil {
		return s, usagef("%w, %s, %s", err, ggufFormat, autoFormat)
	}
	if o.sym && o.asym {
		return s, usagef("--sym and --asym exclude each other")
	}
	if s.Target, err = target(o.loader); err != nil {
		return s, err
	}
	if s.Spec, err = o.spec(s, b); err != nil {
		return s, err
	}
	if s.Head, err = choice("lm-head", o.head); err != nil {
		return s, err
	}
	if s.Embedding, err = choice("embedding", o.embedding); err != nil {
		return s, err
	}
	switch o.padMLP {
	case "":
	case "auto":
		s.PadMLP = -1
	default:
		if s.PadMLP, err = strconv.Atoi(o.padMLP); err != nil || s.PadMLP < 1 {
			return s, usagef("--pad-mlp %q: want auto or a width", o.padMLP)
		}
	}
	switch o.unfit {
	case "refuse":
	case "keep":
		s.KeepUnfit = true
	default:
		return s, usagef("--unfit %q: want refuse or keep", o.unfit)
	}
	if o.checkpointFormat != "gptq" && o.checkpointFormat != "gptq_v2" {
		return s, usagef("--checkpoint-format %q: want gptq or gptq_v2", o.checkpointFormat)
	}
	if changed("checkpoint-format") && o.format != "gptq" {
		return s, usagef("--checkpoint-format is of --format gptq, not of %s", o.format)
	}
	if o.parallel < 1 || o.parallel > 1024 {
		return s, usagef("--tensor-parallel %d: want 1 to 1024", o.parallel)
	}
	if o.recipe != "" {
		if s.Recipe, err = readRecipe(o.recipe); err != nil {
			return s, err
		}
	}
	if s.MaxShard, err = parseSize("max-shard-size", o.maxShard); err != nil {
		return s, err
	}
	if s.MaxMemory, s.MemoryOf, err = o.maxMemory(); err != nil {
		return s, err
	}
	s.Options = quant.Options{CheckpointFormat: o.checkpointFormat, Version: version.Number()}
	s.TensorParallel, s.AllowNonFinite, s.Threads = o.parallel, o.nonFinite, o.threads
	return s, o.calibrate(cmd, b, &s)
}

// maxMemory is the value of --max-memory; without it what can be had, if that is known, and who says so.
func (o *quantizeOptions) maxMemory() (bytes int64, of string, err error) {
	if o.memory != "" {
		bytes, err = parseSize("max-memory", o.memory)
		return bytes, "", err
	}
	room, known := freeMemory()
	if known && room.of == addressSpace {
		room.bytes = debug.SetMemoryLimit(-1)
	}
	return room.bytes, room.of, nil
}

// preset sets what a scheme means. Flags that were given win where they do not contradict it.
func (o *quantizeOptions) preset(changed func(string) bool) error {
	if changed("format") && o.format != "compressed-tensors" {
		return usagef("--scheme %s is a preset of compressed-tensors, not of %s", o.scheme, o.format)
	}
	for _, name := range []string{"bits", "sym", "asym"} {
		if changed(name) {
			return usagef("--scheme %s says it all: leave --%s out", o.scheme, name)
		}
	}
	o.format, o.bits, o.sym = "compressed-tensors", 4, true
	if o.scheme = strings.ToUpper(o.scheme); o.scheme == "INT8" {
		o.scheme = "W8A8"
	}
	switch o.scheme {
	case "W4A16":
	case "W4A16_ASYM":
		o.sym, o.asym = false, true
	case "W8A16":
		o.bits = 8
	case "W8A8":
		o.bits = 8
		if changed("group") && o.group != -1 {
			return usagef("--scheme %s has one scale a row: leave --group out", o.scheme)
		}
		o.group = -1
	default:
		return usagef("--scheme %q: want W4A16, W4A16_ASYM, W8A16, or W8A8, which is INT8, too", o.scheme)
	}
	return nil
}

// spec is how modules are quantized unless a recipe says otherwise.
func (o *quantizeOptions) spec(s convert.Settings, b *build.Build) (quant.Spec, error) {
	spec := quant.Spec{Bits: o.bits, Group: o.group, Method: o.method, Scale: safetensors.BF16}
	if o.group < 1 && o.group != -1 {
		return spec, usagef("--group %d: want a number of weights, or -1 for whole rows", o.group)
	}
	spec.Int8 = o.scheme == "W8A8"
	spec.Zero = s.Format.DefaultZero()
	switch {
	case o.sym:
		spec.Zero = quant.Symmetric
	case o.asym && spec.Zero == quant.Symmetric:
		spec.Zero = quant.Integer
	}
	switch o.scale {
	case "":
		if b.Config.DType() == "float16" {
			spec.Scale = safetensors.F16
		}
	case "bf16":
	case "f16":
		spec.Scale = safetensors.F16
	case "f32":
		spec.Scale = safetensors.F32
	default:
		return spec, usagef("--scale-dtype %q: want bf16, f16 or f32", o.scale)
	}
	switch o.signed {
	case "auto":
		spec.Signed = spec.Zero == quant.Symmetric && loader.DefaultSigned(s.Target)
	case "on":
		if spec.Signed = spec.Zero == quant.Symmetric; !spec.Signed {
			return spec, usagef("--signed-scale on: the grid of --format %s is asymmetric here; --sym makes it symmetric where the format holds that", o.format)
		}
	case "off":
	default:
		return spec, usagef("--signed-scale %q: want auto, on or off", o.signed)
	}
	if !slices.Contains(quant.Methods, o.method) {
		return spec, usagef("--method %q: want %s", o.method, strings.Join(quant.Methods, ", "))
	}
	if _, err := s.Format.Solver(spec.Plain()); err != nil {
		return spec, coded{err, exitUsage}
	}
	return spec, nil
}

func target(name string) (loader.Target, error) {
	var names []string
	for _, t := range loader.Targets {
		if string(t) == name {
			return t, nil
		}
		names = append(names, string(t))
	}
	return "", usagef("--target-loader %q: want %s", name, strings.Join(names, ", "))
}

func choice(flag, value string) (convert.Choice, error) {
	switch value {
	case "":
		return convert.Default, nil
	case "keep":
		return convert.Keep, nil
	case "quantize":
		return convert.Quantize, nil
	}
	return 0, usagef("--%s %q: want quantize or keep", flag, value)
}
