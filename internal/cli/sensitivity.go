package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"nibble/build"
	"nibble/convert"
	"nibble/internal/stage"
)

// sensitivity are the flags of an analysis instead of a build.
type sensitivity struct {
	file    string
	measure bool
	tokens  int
}

func (s *sensitivity) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.file, "sensitivity", "", "write no build but a JSON file: what each width and group that the format holds, or each type of a GGUF file, costs every linear layer")
	f.BoolVar(&s.measure, "sensitivity-measure", true, "measure the KL divergence with each layer quantized alone (default: where that takes up to 1e14 operations)")
	f.Lookup("sensitivity-measure").DefValue = "" // the text has it
	f.IntVar(&s.tokens, "sensitivity-tokens", 512, "tokens to measure KL on, the beginnings of calibration sequences, 128 of each")
}

// buildOnly are the flags that say something about a build.
var buildOnly = []string{"output", "bits", "group", "method", "recipe", "lm-head", "embedding", "pad-mlp", "unfit", "checkpoint-format",
	"max-shard-size", "independent", "calib-kernel", "tensor-parallel", "allow-nonfinite", "check", "dry-run", "resume", "part", "merge", "target-size", "target-bpw", "sensitivity-from",
	"type", "pure", "tensor-type", "token-embedding-type", "output-tensor-type", "imatrix", "write-imatrix"}

// check refuses flags that have no meaning here.
func (s *sensitivity) check(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	if !changed("sensitivity") {
		if changed("target-size") || changed("target-bpw") {
			return s.enough()
		}
		for _, name := range []string{"sensitivity-measure", "sensitivity-tokens"} {
			if changed(name) {
				return usagef("--%s goes with --sensitivity OUT.json, or a target size", name)
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
	return s.enough()
}

func (s *sensitivity) enough() error {
	if s.tokens < 2 {
		return usagef("--sensitivity-tokens %d: want 2 or more", s.tokens)
	}
	return nil
}

// placeFile refuses a file that is in the way, or a place inside the model's folder.
func placeFile(file, model string, overwrite bool) error {
	if info, err := os.Stat(file); err == nil && (info.IsDir() || !overwrite) {
		return fmt.Errorf("%s exists; --overwrite replaces a file", file)
	}
	in, err := os.Stat(filepath.Dir(file))
	if err != nil {
		return err
	}
	if folder, err := os.Stat(model); model != "" && (err != nil || os.SameFile(in, folder)) {
		return cmp.Or(err, fmt.Errorf("%s is inside the input %s: inputs are never changed; choose a place elsewhere", file, model))
	}
	return nil
}

// measure makes the analysis of a model, with its files in a folder of its own beside out. try, which may be nil, may refuse it beforehand.
func (o *quantizeOptions) measure(cmd *cobra.Command, b *build.Build, set convert.Settings, out string, try func(*convert.Sensitivity) error) (*convert.Sensitivity, error) {
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
		return nil, err
	}
	if try != nil {
		if err := try(plan.Unmeasured()); err != nil {
			return nil, err
		}
	}
	limitHeap(plan.HeapLimit())
	if s.measure && plan.Tokens == 0 {
		notes(cmd, []string{"KL is not measured: that would take over 1e14 operations; --sensitivity-measure does it all the same"})
	}
	work := filepath.Join(filepath.Dir(out), ".nibble-sensitivity-"+filepath.Base(out))
	if err := stage.Check(work, "", stage.Restart); err != nil { // what a killed run left goes
		return nil, err
	}
	dir, _, err := stage.Open(work, stage.Restart)
	if err != nil {
		return nil, err
	}
	defer dir.Abort()
	r := &convert.SensitivityRun{SensitivityPlan: plan, Dir: dir.Path(), Loaded: o.loaded(cmd)}
	bytes, layers := plan.Costs()
	show := newProgress(cmd.ErrOrStderr(), cmd.Name(), o.quiet, bytes, func(job string) string { return layers[job] })
	defer show.finish()
	r.Progress, r.Stage = show.report, show.stage
	return r.Run(cmd.Context())
}

// analyze writes the analysis of a model.
func (o *quantizeOptions) analyze(cmd *cobra.Command, b *build.Build, set convert.Settings) error {
	s := &o.sensitivity
	result, err := o.measure(cmd, b, set, s.file, nil)
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

// roleCost sums up the matrices of a role.
type roleCost struct {
	role                      string
	matrices, weights, judged int
	loss, kl                  float64
	layers                    bool // it is a role of layers
}

// cost is what matrices are ranked by: the KL divergence or, without measuring, the loss.
func cost(l *convert.LinearCost) float64 {
	c := l.Measured()
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
			at, roles = len(roles), append(roles, &roleCost{role: l.Role, layers: l.Layer >= 0})
		}
		r := roles[at]
		r.matrices++
		r.weights += l.Shape[0] * l.Shape[1]
		if c := l.Measured(); c != nil && c.Loss != nil {
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
	grid := "bits\tgroup"
	if s.Format == ggufFormat {
		grid = "type"
	}
	fmt.Fprintf(w, "costliest\t%s\tloss\tKL\n", grid)
	for _, l := range ranked[:min(10, len(ranked))] {
		c := l.Measured()
		if c == nil || c.Loss == nil {
			continue
		}
		grid := fmt.Sprintf("%d\t%d", c.Bits, c.Group)
		if c.Type != "" {
			grid = c.Type
		}
		fmt.Fprintf(w, "%s\t%s\t%.5f\t%s\n", l.Name, grid, float64(*c.Loss), kl("%.6f", cost(l)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if s.Correlation != nil {
		n := 0
		for _, r := range roles {
			if r.layers {
				n += r.judged
			}
		}
		fmt.Fprintf(out, "Spearman's rank correlation of loss and KL: %.3f over %d matrices\n", float64(*s.Correlation), n)
	}
	_, err := fmt.Fprintf(out, "%s: %s, each matrix alone as its coarsest candidate of 4 bits or more above, every candidate in the file\n", name, s.Format)
	return err
}
