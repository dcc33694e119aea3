package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"nibble/probe"
)

// autoFormat is the name of the format that the machine chooses.
const autoFormat = "auto"

// automatic are the flags of a choice by machine.
type automatic struct {
	priority, profile string

	chosen bool // the machine chose
}

func (a *automatic) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.priority, "priority", probe.Speed, "with --format auto, speed or fidelity: what the build is to have most of")
	f.StringVar(&a.profile, "profile", "", "with --format auto, the machine that is to run the build: what runtime probe --json wrote there (default: this machine)")
}

// choose puts the format and the group that suit the machine in place of auto. A group that was asked for stays.
func (o *quantizeOptions) choose(cmd *cobra.Command) error {
	a, changed := &o.automatic, cmd.Flags().Changed
	if o.format != autoFormat {
		for _, name := range []string{"priority", "profile"} {
			if changed(name) {
				return usagef("--%s goes with --format %s", name, autoFormat)
			}
		}
		return nil
	}
	if o.scheme != "" {
		return usagef("--scheme says which format: leave --format %s out", autoFormat)
	}
	p, err := readMachine("/", a.profile)
	if err != nil {
		return inputError(err)
	}
	s, err := probe.Select(p, a.priority)
	if err != nil {
		return usagef("--priority: %v", err)
	}
	c := s.Choice
	switch c.Format {
	case "npu":
		return usagef("--format %s: %s: %s", autoFormat, s.Why, c.Command)
	case "float":
		return usagef("--format %s: %s: use the checkpoint as it is, or name a format (%s)", autoFormat, s.Why, s.Alternatives[0].Command)
	}
	o.format, a.chosen = c.Format, true
	said := ""
	switch {
	case c.Format == ggufFormat: // its blocks have their own groups
	case changed("group"):
		said = fmt.Sprintf(", with --group %d in place of %d", o.group, c.Group)
	default:
		o.group = c.Group
	}
	if !o.quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s, for %s: %s%s: %s (%s); verified: %s\n", cmd.Name(), s.Class, s.Priority, c.Name, said, c.Rationale, s.Why, cmp.Or(c.Verified, "no"))
	}
	return nil
}
