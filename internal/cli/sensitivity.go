package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"nibble/build"
	"nibble/calib"
	"nibble/convert"
	"nibble/hf"
)

// sensitivity are the flags of an analysis instead of a build.
type sensitivity struct {
	file    string
	measure bool
	tokens  int
}

func (s *sensitivity) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.file, "sensitivity", "", "write no build but a JSON file: what each width and group that the format holds costs every linear layer")
	f.BoolVar(&s.measure, "sensitivity-measure", true, "measure the KL divergence with each layer quantized alone (default: where that takes up to 1e14 operations)")
	f.IntVar(&s.tokens, "sensitivity-tokens", 512, "tokens to measure KL on, the beginnings of calibration sequences, 128 of each")
}

// buildOnly are the flags that say something about a build.
var buildOnly = []string{"output", "bits", "group", "method", "recipe", "lm-head", "embedding", "pad-mlp", "unfit", "checkpoint-format",
	"max-shard-size", "independent", "tensor-parallel", "allow-nonfinite", "check", "dry-run", "resume", "part", "merge"}

// check refuses flags that have no meaning here.
func (s *sensitivity) check(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	if !changed("sensitivity") {
		for _, name := range []string{"sensitivity-measure", "sensitivity-tokens"} {
			if changed(name) {
				return usagef("--%s goes with --sensitivity OUT.json", name)
			}
		}
		return nil
	}
	if s.file == "" {
		return usagef("--sensitivity: no file given")
	}
	if i := slices.IndexFunc(buildOnly, changed); i >= 0 {
		return usagef("--sensitivity writes no build: leave --%s out", buildOnly[i])
	}
	if s.tokens < 2 {
		return usagef("--sensitivity-tokens %d: want 2 or more", s.tokens)
	}
	return nil
}

// placeFile refuses a file that is in the way, or a place inside the model's folder.
func placeFile(file, model string, overwrite bool) error {
	if info, err := os.Stat(file); err == nil && (info.IsDir() || !overwrite) {
		return usagef("%s exists; --overwrite replaces a file", file)
	}
	in, err := os.Stat(filepath.Dir(file))
	if err != nil {
		return err
	}
	if folder, err := os.Stat(model); model != "" && (err != nil || os.SameFile(in, folder)) {
		return cmp.Or(err, usagef("%s is inside the input %s: inputs are never changed", file, model))
	}
	return nil
}

// analyze writes the analysis of a model.
func (o *quantizeOptions) analyze(cmd *cobra.Command, b *build.Build, set convert.Settings) error {
	s := &o.sensitivity
	tokens := -s.tokens
	switch {
	case !s.measure:
		tokens = 0
	case cmd.Flags().Changed("sensitivity-measure"):
		tokens = s.tokens
	}
	plan, err := convert.NewSensitivity(b, set, tokens)
	if err != nil {
		return err
	}
	if plan.MaxMemory > 0 {
		debug.SetMemoryLimit(plan.MaxMemory)
	}
	if s.measure && plan.Tokens == 0 {
		notes(cmd, []string{"KL is not measured: that would take over 1e14 operations; --sensitivity-measure does it all the same"})
	}
	dir, err := os.MkdirTemp(filepath.Dir(s.file), ".nibble-sensitivity-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := &convert.SensitivityRun{SensitivityPlan: plan, Dir: dir, Loaded: func(q *calib.Sequences) {
		if !o.quiet {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: calibration: %s\n", cmd.Name(), q)
			notes(cmd, q.Notes)
		}
	}}
	bytes, layers := plan.Costs()
	show := newProgress(cmd.ErrOrStderr(), cmd.Name(), o.quiet, bytes, func(job string) string { return layers[job] })
	r.Progress, r.Stage = show.report, show.stage
	result, err := r.Run(cmd.Context())
	show.finish()
	if err != nil {
		return err
	}
	raw, err := result.Encode()
	if err != nil {
		return err
	}
	if err := writeWhole(s.file, raw); err != nil {
		return err
	}
	if o.json {
		_, err := cmd.OutOrStdout().Write(raw)
		return err
	}
	return printSensitivity(cmd.OutOrStdout(), s.file, result)
}

// writeWhole makes a file appear whole or not at all.
func writeWhole(path string, raw []byte) error {
	f, err := os.OpenFile(path+".partial", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		if gone := os.Remove(f.Name()); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// roleCost sums up the matrices of a role.
type roleCost struct {
	role                      string
	matrices, weights, judged int
	loss, kl                  float64
}

// coarsest is the first candidate of a matrix, nil if it has none.
func coarsest(l *convert.LinearCost) *convert.CandidateCost {
	if len(l.Candidates) == 0 {
		return nil
	}
	return &l.Candidates[0]
}

// cost is what matrices are ranked by: the KL divergence or, without measuring, the loss.
func cost(l *convert.LinearCost) float64 {
	c := coarsest(l)
	switch {
	case c == nil:
	case c.KL != nil:
		return float64(*c.KL)
	case c.Loss != nil:
		return float64(*c.Loss)
	}
	return 0
}

// printSensitivity prints the roles and the costliest matrices.
func printSensitivity(out io.Writer, name string, s *convert.Sensitivity) error {
	var roles []*roleCost
	ranked := make([]*convert.LinearCost, 0, len(s.Linears))
	for i := range s.Linears {
		l := &s.Linears[i]
		ranked = append(ranked, l)
		at := slices.IndexFunc(roles, func(r *roleCost) bool { return r.role == l.Role })
		if at < 0 {
			at, roles = len(roles), append(roles, &roleCost{role: l.Role})
		}
		r := roles[at]
		r.matrices++
		r.weights += l.Shape[0] * l.Shape[1]
		if c := coarsest(l); c != nil && c.Loss != nil {
			r.judged++
			r.loss += float64(*c.Loss)
			if c.KL != nil {
				r.kl += float64(*c.KL)
			}
		}
	}
	slices.SortStableFunc(ranked, func(a, b *convert.LinearCost) int { return cmp.Compare(cost(b), cost(a)) })
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	kl := func(format string, v float64) string {
		if s.Measured == nil {
			return "-"
		}
		return fmt.Sprintf(format, v)
	}
	fmt.Fprintln(w, "role\tmatrices\tweights\tmean loss\tKL, added up")
	for _, r := range roles {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.5f\t%s\n", r.role, r.matrices, r.weights, r.loss/float64(max(r.judged, 1)), kl("%.5f", r.kl))
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "costliest\tbits\tgroup\tloss\tKL")
	for _, l := range ranked[:min(10, len(ranked))] {
		c := coarsest(l)
		if c == nil || c.Loss == nil {
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%.5f\t%s\n", l.Name, c.Bits, c.Group, float64(*c.Loss), kl("%.6f", cost(l)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if s.Correlation != nil {
		n := 0
		for _, r := range roles {
			if r.role != hf.Head.String() {
				n += r.judged
			}
		}
		fmt.Fprintf(out, "Spearman's rank correlation of loss and KL: %.3f over %d matrices\n", float64(*s.Correlation), n)
	}
	_, err := fmt.Fprintf(out, "%s: %s, each matrix alone as its coarsest candidate above, every candidate in the file\n", name, s.Format)
	return err
}
