package cli

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"nibble/internal/kernel"
	"nibble/probe"
)

// probeOptions are the flags of probe.
type probeOptions struct {
	common
	root, profile, priority string
}

func newProbeCommand() *cobra.Command {
	o := new(probeOptions)
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Say what this machine is, and which build suits it",
		Long: `Say what this machine is: processors and what they can do, memory and limits, GPUs and NPUs, where each was found, and why it is
usable or not; and which build suits it, with the command that makes it. Everything comes from files of Linux; elsewhere most
of it is unknown, and said to be.`,
		Example: `  runtime probe
  runtime probe --json                      # on the machine that is to run the build, into machine.json
  runtime probe --profile machine.json     # anywhere
  runtime probe --root ./copy --priority fidelity`,
		Args: noMore(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return runProbe(cmd, o) },
	}
	o.registerPrinting(cmd)
	f := cmd.Flags()
	f.StringVar(&o.root, "root", "/", "folder that stands for the root: a copy of a machine's /proc, /sys, /dev and /etc")
	f.StringVar(&o.profile, "profile", "", "file that runtime probe --json has written, instead of a machine")
	f.StringVar(&o.priority, "priority", probe.Speed, "speed, fidelity: what the build is to have most of")
	return cmd
}

func runProbe(cmd *cobra.Command, o *probeOptions) error {
	if cmd.Flags().Changed("root") && o.profile != "" {
		return usagef("--root and --profile exclude each other")
	}
	p, err := readMachine(o.root, o.profile)
	if err != nil {
		return inputError(err)
	}
	s, err := probe.Select(p, o.priority)
	if err != nil {
		return usagef("--priority: %v", err)
	}
	if o.json {
		return printJSON(cmd, struct {
			*probe.Profile
			Selection *probe.Selection `json:"selection"`
		}{p, s})
	}
	return printProbe(cmd, p, s, o.root == "/" && o.profile == "")
}

// readMachine returns the profile in a file, or that of the machine at a root.
func readMachine(root, file string) (*probe.Profile, error) {
	if file == "" {
		return probe.Live(root)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := probe.Read(f)
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return p, err
}

// printProbe shows a profile to a person; of the machine that it runs on, here, it also says whether tiles can be used.
func printProbe(cmd *cobra.Command, p *probe.Profile, s *probe.Selection, here bool) error {
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	known := func(n int) string {
		if n == 0 {
			return "unknown"
		}
		return fmt.Sprint(n)
	}
	gib := func(n int64) string {
		if n == 0 {
			return "unknown"
		}
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	c, m := &p.CPU, &p.Memory
	line("system", "%s, %s", cmp.Or(p.HostOS, "unknown"), cmp.Or(p.Arch, "unknown"))
	line("board", "%s", cmp.Or(p.Board, "unknown"))
	line("processor", "%s", cmp.Or(c.Model, "unknown"))
	line("flags", "%s", cmp.Or(strings.Join(c.Flags, " "), "unknown"))
	if here {
		_, reason := kernel.AMX()
		line("AMX", "%s", reason)
	}
	line("processors", "%s, cores %s, for this process %s", known(c.Logical), known(c.Physical), known(c.Effective))
	if c.Quota > 0 {
		line("", "a cgroup leaves the time of %.4g", c.Quota)
	}
	for _, x := range c.Clusters {
		line("cluster", "%d at %.2f GHz: %s", x.Count, float64(x.MaxKHz)/1e6, x.CPUs)
	}
	for _, x := range c.Nodes {
		line("NUMA node", "%d: %d processors, %s", x.ID, x.Count, gib(x.Bytes))
	}
	line("memory", "%s, available %s", gib(m.Effective), gib(m.Free))
	if m.Limit > 0 {
		line("", "a cgroup leaves %s of %s", gib(m.Limit), gib(m.Total))
	}
	for _, a := range p.Accelerators {
		usable := "usable"
		if !a.Usable {
			usable = "not usable"
		}
		line(a.Kind, "%s, %s: %s (%s)", a.Name, usable, a.Reason, a.Source)
	}
	for _, z := range p.Thermal {
		line("temperature", "%.1f °C, %s", z.Celsius, z.Type)
	}
	for _, what := range slices.Sorted(maps.Keys(p.Sources)) {
		line("found", "%s in %s", what, p.Sources[what])
	}
	for _, u := range p.Unknown {
		line("unknown", "%s", u)
	}
	fmt.Fprintf(w, "\nclass\t%s, for %s: %s\n", s.Class, s.Priority, s.Why)
	printPath := func(name string, x probe.Path) {
		line(name, "%s, %.6g bits per weight, %s", x.Name, x.Bits, x.Runs)
		line("", "%s", x.Rationale)
		line("", "%s", x.Notes)
		if n := p.Largest(x); n > 0 {
			line("", "a model of %g thousand million weights fills what memory is available; caches come on top", n)
		}
		line("", "verified: %s", cmp.Or(x.Verified, "no"))
		if x.Command != "" {
			line("", "%s", x.Command)
		}
	}
	printPath("build", s.Choice)
	for _, x := range s.Alternatives {
		printPath("or", x)
	}
	return w.Flush()
}
