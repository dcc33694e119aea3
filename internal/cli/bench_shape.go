package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"nibble/formats"
	"nibble/hf"
	"nibble/internal/synthetic"
	"nibble/quant"
	"nibble/safetensors"
)

// shaped are the flags of a model without a checkpoint.
type shaped struct {
	shape, format, head string
	bits, group         int

	settings synthetic.Settings // of the flags
}

// The formats of a shape besides those that quantize writes.
const (
	floatFormat = "bf16"
	w8a8Format  = "w8a8" // a preset of compressed-tensors
)

func (s *shaped) register(cmd *cobra.Command) {
	var names []string
	for _, f := range formats.All {
		names = append(names, f.Name())
	}
	f := cmd.Flags()
	f.StringVar(&s.shape, "shape", "", "measure weights that are made up, for a model of this shape: "+strings.Join(synthetic.Shapes(), ", ")+", or a config.json")
	f.StringVar(&s.format, "format", "gptq", "of a --shape: "+strings.Join(names, ", ")+", "+w8a8Format+", "+floatFormat)
	f.IntVar(&s.bits, "bits", 4, "of a --shape: bits of a weight")
	f.IntVar(&s.group, "group", 128, "of a --shape: weights in a group, -1 for whole rows")
	f.StringVar(&s.head, "lm-head", "quantize", "of a --shape: quantize, keep: the output head; a tied one is untied for it")
}

func (s *shaped) check(cmd *cobra.Command, args []string) error {
	changed := cmd.Flags().Changed
	if s.shape == "" {
		for _, flag := range []string{"format", "bits", "group", "lm-head"} {
			if changed(flag) {
				return usagef("--%s needs --shape: a MODEL has what it has", flag)
			}
		}
		return nil
	}
	if len(args) > 0 {
		return usagef("--shape and MODEL exclude each other")
	}
	switch s.head {
	case "quantize":
	case "keep":
		s.settings.KeepHead = true
	default:
		return usagef("--lm-head %q: want quantize or keep", s.head)
	}
	spec := quant.Spec{Bits: s.bits, Group: s.group, Method: quant.RTN, Scale: safetensors.BF16}
	name := s.format
	switch s.format {
	case floatFormat, w8a8Format:
		for _, flag := range []string{"bits", "group"} {
			if changed(flag) {
				return usagef("--format %s says it all: leave --%s out", s.format, flag)
			}
		}
		if s.format == floatFormat {
			return nil
		}
		name, spec.Bits, spec.Group, spec.Int8 = "compressed-tensors", 8, -1, true
	}
	f, err := formats.ByName(name)
	if err != nil {
		return usagef("%w, %s, %s", err, w8a8Format, floatFormat)
	}
	spec.Zero = f.DefaultZero()
	if _, err := f.Solver(spec); err != nil {
		return coded{err, exitUsage}
	}
	s.settings.Format, s.settings.Spec = f, spec
	return nil
}

// folder opens the model that args name, or makes that of the shape, whose parameters it counts.
func (s *shaped) folder(args []string) (f *hf.Folder, name string, parameters int64, err error) {
	if s.shape == "" {
		f, name, err = openModel(args)
		return f, name, 0, err
	}
	var config []byte
	if strings.HasSuffix(s.shape, ".json") {
		if config, err = os.ReadFile(s.shape); err != nil {
			return nil, "", 0, inputError(err)
		}
	} else if config, err = synthetic.Shape(s.shape); err != nil {
		return nil, "", 0, usagef("--shape: %w, or a config.json", err)
	}
	c, err := synthetic.New(config, s.settings)
	if err != nil {
		return nil, "", 0, usagef("--shape %s: %w", s.shape, err)
	}
	f, err = hf.NewFolder("", c.FS(), "")
	return f, strings.TrimSuffix(filepath.Base(s.shape), ".json") + "-" + s.label(), c.Parameters, err
}

// label names a build after its settings.
func (s *shaped) label() string {
	spec := s.settings.Spec
	switch {
	case s.settings.Format == nil || spec.Int8:
		return s.format
	case spec.Group == -1:
		return fmt.Sprintf("%s-%dbit-row", s.format, spec.Bits)
	}
	return fmt.Sprintf("%s-%dbit-g%d", s.format, spec.Bits, spec.Group)
}
