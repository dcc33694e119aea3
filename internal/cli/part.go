package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"nibble/build"
	"nibble/convert"
	"nibble/internal/stage"
)

// partOptions are the flags that spread the work on a build over runs that know nothing of one another.
type partOptions struct {
	name  string
	merge bool

	convert.Part // of name
}

func (p *partOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.name, "part", "", "I/N: do the share of run I of N, from 0, into OUT.parts; goes on by itself where an interrupted one stopped")
	f.BoolVar(&p.merge, "merge", false, "check the parts in OUT.parts, made with the same flags, and join them to the build")
}

// partless are flags that have no meaning beside --part.
var partless = []string{"merge", "check", "dry-run", "json"}

func (p *partOptions) check(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("part") {
		return nil
	}
	for _, name := range partless {
		if cmd.Flags().Changed(name) {
			return usagef("--part writes no build yet: --%s goes without it", name)
		}
	}
	index, count, ok := strings.Cut(p.name, "/")
	var err error
	if p.Index, err = strconv.Atoi(index); err == nil {
		p.Count, err = strconv.Atoi(count)
	}
	if !ok || err != nil || p.Count < 1 || p.Count > convert.MaxParts || p.Index < 0 || p.Index >= p.Count {
		return usagef("--part %q: want I/N, the run's number from 0 and how many runs there are, like 0/8", p.name)
	}
	return nil
}

// writePart does what falls to one run.
func (o *quantizeOptions) writePart(cmd *cobra.Command, b *build.Build, plan *convert.Plan) error {
	if err := o.parts.Check(plan); err != nil {
		return coded{err, exitUsage}
	}
	folder, mode := o.parts.Folder(o.out), stage.Resume
	if o.overwrite {
		mode = stage.Overwrite
	}
	if mode == stage.Overwrite || !o.parts.Finished(o.out) {
		if err := stage.Check(folder, b.Path, mode); err != nil {
			return err
		}
	}
	files, costs, err := plan.PartPlan(o.parts.Part)
	if err != nil {
		return err
	}
	layers := plan.Layers()
	show := newProgress(cmd.ErrOrStderr(), cmd.Name(), o.quiet, costs, func(job string) string { return layers[job] })
	r := &convert.Run{Plan: plan, Out: o.out, Mode: mode, Progress: show.report, Stage: show.stage, Started: o.started(cmd), Loaded: o.loaded(cmd)}
	worked, err := r.QuantizePart(cmd.Context(), o.parts.Part)
	show.finish()
	if err != nil {
		return err
	}
	if !worked && !o.quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s was finished before\n", cmd.Name(), folder)
	}
	w := cmd.OutOrStdout()
	printFiles(w, files)
	_, err = fmt.Fprintf(w, "%s: part %d of %d; --merge joins them when all are there\n", folder, o.parts.Index, o.parts.Count)
	return err
}
